// SPDX-License-Identifier: BSD-3-Clause
// The helper thread and threads of the program that take over for it.
#include "core/device/soft/reactor.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "tests/support/cmocka.hpp"

namespace compat::core::soft {
namespace {

using namespace std::chrono_literals;

constexpr int kRounds = 200;

/// A descriptor that never gets ready, and a count of what it was called for.
class Watched final : public Source {
public:
    Watched() : fd_(eventfd(0, EFD_CLOEXEC)) { assert_true(fd_ >= 0); }
    ~Watched() override { close(fd_); }

    [[nodiscard]] int fd() const noexcept { return fd_; }
    void on_ready(std::uint32_t) noexcept override {}
    void on_deadline() noexcept override { count(); }
    void on_flush() noexcept override { count(); }
    [[nodiscard]] bool was_called(int times) {
        std::unique_lock guard(lock_);
        return changed_.wait_for(guard, 10s, [&] { return calls_ == times; });
    }

private:
    void count() noexcept {
        const std::lock_guard guard(lock_);
        ++calls_;
        changed_.notify_all();
    }

    int fd_;
    std::mutex lock_;
    std::condition_variable changed_;
    int calls_ = 0;
};

std::shared_ptr<Watched> watched() {
    auto source = std::make_shared<Watched>();
    assert_true(watch(source->fd(), source, EPOLLIN).has_value());
    return source;
}

// One poll, and then none: the helper thread alone is left to do it.
void a_deadline_comes_though_a_poller_looked_while_it_was_set(void**) {
    const auto source = watched();
    for (int round = 1; round <= kRounds; ++round) {
        stop_stealing();
        set_deadline(source, Clock::now() + 2ms);
        steal_progress();
        assert_true(source->was_called(round));
    }
    unwatch(source->fd());
}

void a_flush_comes_though_a_poller_looked_while_it_was_asked_for(void**) {
    const auto source = watched();
    for (int round = 1; round <= kRounds; ++round) {
        stop_stealing();
        flush_later(source);
        steal_progress();
        assert_true(source->was_called(round));
    }
    unwatch(source->fd());
}

}  // namespace
}  // namespace compat::core::soft

int main() {
    using namespace compat::core::soft;
    const CMUnitTest tests[] = {
        cmocka_unit_test(a_deadline_comes_though_a_poller_looked_while_it_was_set),
        cmocka_unit_test(a_flush_comes_though_a_poller_looked_while_it_was_asked_for),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
