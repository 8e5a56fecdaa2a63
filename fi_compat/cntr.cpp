// SPDX-License-Identifier: BSD-3-Clause
#include "fi_compat/cntr.hpp"

#include <vector>

#include "fi_compat/boundary.hpp"
#include "fi_compat/unsupported.hpp"

namespace compat::fi {
namespace {

std::uint64_t cntr_read(fid_cntr* cntr) {
    return Cntr::of(cntr).read();
}
std::uint64_t cntr_readerr(fid_cntr* cntr) {
    return Cntr::of(cntr).read_errors();
}

int cntr_add(fid_cntr* cntr, std::uint64_t value) {
    Cntr::of(cntr).counter().add(value);
    return 0;
}
int cntr_set(fid_cntr* cntr, std::uint64_t value) {
    Cntr::of(cntr).counter().set(value);
    return 0;
}
int cntr_adderr(fid_cntr* cntr, std::uint64_t value) {
    Cntr::of(cntr).counter().add_errors(value);
    return 0;
}
int cntr_seterr(fid_cntr* cntr, std::uint64_t value) {
    Cntr::of(cntr).counter().set_errors(value);
    return 0;
}

int cntr_wait(fid_cntr* cntr, std::uint64_t threshold, int timeout_ms) {
    return c_boundary([&] { return Cntr::of(cntr).wait(threshold, timeout_ms); });
}

int cntr_control(struct ::fid* face, int command, void* argument) {
    return c_boundary([&] { return Cntr::of(face).control(command, argument); });
}

constinit fi_ops kCntrFiOps = {
    .size = sizeof(fi_ops),
    .close = close_object<Cntr>,
    .bind = kUnsupported,
    .control = cntr_control,
    .ops_open = kUnsupported,
    .tostr = kUnsupported,
    .ops_set = kUnsupported,
};

constinit fi_ops_cntr kCntrOps = {
    .size = sizeof(fi_ops_cntr),
    .read = cntr_read,
    .readerr = cntr_readerr,
    .add = cntr_add,
    .set = cntr_set,
    .wait = cntr_wait,
    .adderr = cntr_adderr,
    .seterr = cntr_seterr,
};

}  // namespace

Cntr::Cntr(Domain& domain, std::unique_ptr<WaitObject> wait, core::CounterUnit unit,
           void* user_context)
    : Object(FI_CLASS_CNTR, user_context, kCntrFiOps),
      domain_(domain),
      wait_(std::move(wait)),
      waker_(*wait_),
      counter_(unit) {
    ops = &kCntrOps;
    counter_.set_waker(&waker_);
    // Whoever has the descriptor may sleep on it at any time.
    if (has_descriptor()) counter_.begin_wait();
}

bool Cntr::has_descriptor() const noexcept {
    return wait_->fd() >= 0;
}

core::Result<Cntr*> Cntr::open(Domain& domain, const fi_cntr_attr& attr, void* user_context) {
    const int events = number_in(attr.events);
    const bool known = events == FI_CNTR_EVENTS_COMP || events == FI_CNTR_EVENTS_BYTES;
    if (!known || attr.flags != 0) return core::failure(core::Errc::invalid_argument);
    const int wait_kind = number_in(attr.wait_obj);
    auto wait = WaitObject::open(wait_kind);
    if (!wait) return core::failure(wait.error());
    const auto unit =
        events == FI_CNTR_EVENTS_BYTES ? core::CounterUnit::bytes : core::CounterUnit::operations;
    std::unique_ptr<Cntr> cntr(new Cntr(domain, std::move(*wait), unit, user_context));
    const core::Status placed =
        cntr->wait_set_.take(domain.fabric(), wait_kind, attr.wait_set, cntr->base(), *cntr->wait_);
    if (!placed) return core::failure(placed.error());
    return cntr.release();
}

core::Status Cntr::attach(core::TrackedCq& queue) {
    const auto first = counter_.attach(queue);
    if (!first) return core::failure(first.error());
    return *first ? wait_->add_source(queue.channel_fd()) : core::Status();
}

void Cntr::detach(core::TrackedCq& queue) noexcept {
    if (counter_.detach(queue)) wait_->remove_source(queue.channel_fd());
}

void Cntr::remember() noexcept {
    seen_value_.store(counter_.value(), std::memory_order_relaxed);
    seen_errors_.store(counter_.errors(), std::memory_order_relaxed);
}

bool Cntr::changed() const noexcept {
    return counter_.value() != seen_value_.load(std::memory_order_relaxed) ||
           counter_.errors() != seen_errors_.load(std::memory_order_relaxed);
}

std::uint64_t Cntr::read() noexcept {
    counter_.progress();
    const std::uint64_t value = counter_.value();
    seen_value_.store(value, std::memory_order_relaxed);
    return value;
}

std::uint64_t Cntr::read_errors() noexcept {
    counter_.progress();
    const std::uint64_t errors = counter_.errors();
    seen_errors_.store(errors, std::memory_order_relaxed);
    return errors;
}

// With FI_WAIT_NONE, too: it polls, as the program would have to. Upstream's common code refuses.
int Cntr::wait(std::uint64_t threshold, int timeout_ms) {
    const Deadline deadline(timeout_ms);
    const std::uint64_t errors = counter_.errors();
    const auto outcome = [&] {
        if (counter_.value() >= threshold) return 0;
        return counter_.errors() != errors ? -FI_EAVAIL : -FI_EAGAIN;
    };
    for (;;) {
        counter_.progress();
        int result = outcome();
        if (result != -FI_EAGAIN) return result;
        if (deadline.passed()) return -FI_ETIMEDOUT;
        wait_->reset();
        const bool quiet = counter_.arm();
        result = outcome();
        if (result != -FI_EAGAIN) return result;
        if (!quiet) continue;
        const core::Status slept = wait_->sleep(deadline.remaining_ms());
        if (!slept) return to_fi(slept.error());
    }
}

int Cntr::try_wait() {
    if (!wait_->can_block()) return -FI_ENOSYS;
    wait_->reset();
    const bool quiet = counter_.arm();
    return changed() || !quiet ? -FI_EAGAIN : 0;
}

int Cntr::control(int command, void* argument) {
    return command == kControlTryWait ? try_wait() : wait_->control(command, argument);
}

bool Cntr::poll() noexcept {
    counter_.progress();
    const bool moved = changed();
    remember();
    return moved;
}

int open_counter(Domain& domain, const fi_cntr_attr& attr, fid_cntr** cntr, void* context) {
    const auto opened = Cntr::open(domain, attr, context);
    if (!opened) return to_fi(opened.error());
    *cntr = (*opened)->face();
    return 0;
}

}  // namespace compat::fi
