// SPDX-License-Identifier: BSD-3-Clause
#include "fi_compat/eq.hpp"

#include <poll.h>
#include <rdma/fi_domain.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <string_view>
#include <thread>

#include "fi_compat/fabric.hpp"
#include "tests/support/cmocka.hpp"

namespace {

using namespace compat;

struct Rig {
    fid_fabric* fabric = nullptr;
    fid_eq* eq = nullptr;

    explicit Rig(std::uint32_t api_version = FI_VERSION(1, 20)) {
        fi_fabric_attr attr{};
        attr.name = const_cast<char*>("127.0.0.0/8");
        attr.prov_name = const_cast<char*>("compat");
        attr.api_version = api_version;
        assert_int_equal(fi_fabric(&attr, &fabric, nullptr), 0);
    }
    ~Rig() {
        if (eq != nullptr) fi_close(&eq->fid);
        if (fabric != nullptr) fi_close(&fabric->fid);
    }
    int open(fi_wait_obj wait_obj = FI_WAIT_UNSPEC, std::uint64_t flags = FI_WRITE) {
        fi_eq_attr attr{};
        attr.size = 4;
        attr.flags = flags;
        attr.wait_obj = wait_obj;
        return fi_eq_open(fabric, &attr, &eq, this);
    }
    fi::EventQueue& queue() { return fi::EventQueue::of(eq); }
    int fd() {
        int descriptor = -1;
        fi_control(&eq->fid, FI_GETWAIT, &descriptor);
        return descriptor;
    }
};

int setup(void** state) {
    *state = new Rig;
    return 0;
}
int teardown(void** state) {
    delete static_cast<Rig*>(*state);
    return 0;
}
Rig& rig_of(void** state) {
    return *static_cast<Rig*>(*state);
}

bool is_readable(int fd) {
    pollfd ready{fd, POLLIN, 0};
    return poll(&ready, 1, 0) == 1;
}

/// An entry with room for private data behind it.
struct CmEntry {
    alignas(fi_eq_cm_entry) char storage[sizeof(fi_eq_cm_entry) + 32] = {};

    [[nodiscard]] const fi_eq_cm_entry& entry() const {
        return *reinterpret_cast<const fi_eq_cm_entry*>(storage);
    }
    [[nodiscard]] const char* data() const { return storage + sizeof(fi_eq_cm_entry); }
};

std::span<const std::byte> bytes(std::string_view text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}

void an_empty_queue_says_again(void** state) {
    Rig& rig = rig_of(state);
    assert_int_equal(rig.open(), 0);
    assert_ptr_equal(rig.eq->fid.context, &rig);
    std::uint32_t event = 0;
    fi_eq_entry entry{};
    fi_eq_err_entry error{};
    assert_int_equal(fi_eq_read(rig.eq, &event, &entry, sizeof entry, 0), -FI_EAGAIN);
    assert_int_equal(fi_eq_readerr(rig.eq, &error, 0), -FI_EAGAIN);
    assert_int_equal(fi_eq_sread(rig.eq, &event, &entry, sizeof entry, 0, 0), -FI_EAGAIN);
    assert_int_equal(fi_eq_read(rig.eq, &event, &entry, sizeof entry, FI_MORE), -FI_EBADFLAGS);
}

void what_is_written_is_read_in_order(void** state) {
    Rig& rig = rig_of(state);
    assert_int_equal(rig.open(), 0);
    for (std::uint64_t i = 0; i < 4; ++i) {
        const fi_eq_entry entry{&rig.eq->fid, nullptr, i};
        assert_int_equal(fi_eq_write(rig.eq, FI_NOTIFY, &entry, sizeof entry, 0), sizeof entry);
    }
    const fi_eq_entry one_too_many{};
    assert_int_equal(fi_eq_write(rig.eq, FI_NOTIFY, &one_too_many, sizeof one_too_many, 0),
                     -FI_EAGAIN);
    for (std::uint64_t i = 0; i < 4; ++i) {
        std::uint32_t event = ~0U;
        fi_eq_entry entry{};
        assert_int_equal(fi_eq_read(rig.eq, &event, &entry, sizeof entry, FI_PEEK), sizeof entry);
        assert_int_equal(fi_eq_read(rig.eq, &event, &entry, sizeof entry, 0), sizeof entry);
        assert_int_equal(event, FI_NOTIFY);
        assert_int_equal(entry.data, i);
    }
    std::uint32_t event = 0;
    assert_int_equal(fi_eq_read(rig.eq, &event, nullptr, 0, 0), -FI_EAGAIN);
}

void writing_needs_the_flag_of_the_queue(void** state) {
    Rig& rig = rig_of(state);
    assert_int_equal(rig.open(FI_WAIT_UNSPEC, 0), 0);
    const fi_eq_entry entry{};
    assert_int_equal(fi_eq_write(rig.eq, FI_NOTIFY, &entry, sizeof entry, 0), -FI_EINVAL);
}

void a_buffer_too_short_keeps_the_event(void** state) {
    Rig& rig = rig_of(state);
    assert_int_equal(rig.open(), 0);
    const fi_eq_entry entry{};
    fi_eq_write(rig.eq, FI_NOTIFY, &entry, sizeof entry, 0);
    std::uint32_t event = 0;
    char small[8];
    assert_int_equal(fi_eq_read(rig.eq, &event, small, sizeof small, 0), -FI_ETOOSMALL);
    fi_eq_entry got{};
    assert_int_equal(fi_eq_read(rig.eq, &event, &got, sizeof got, 0), sizeof got);
}

void connection_events_bring_as_much_data_as_fits(void** state) {
    Rig& rig = rig_of(state);
    assert_int_equal(rig.open(), 0);
    struct fid source {};
    fi::InfoPtr info = fi::make_info();
    fi_info* const expected = info.get();
    rig.queue().push_cm(FI_CONNREQ, &source, std::move(info), bytes("hello"));
    std::uint32_t event = 0;
    CmEntry cm{};
    // seen twice, freed once: by the program
    assert_int_equal(fi_eq_read(rig.eq, &event, &cm, sizeof(fi_eq_cm_entry), FI_PEEK),
                     sizeof(fi_eq_cm_entry));
    assert_int_equal(fi_eq_read(rig.eq, &event, &cm, sizeof(fi_eq_cm_entry) + 3, 0),
                     sizeof(fi_eq_cm_entry) + 3);
    assert_int_equal(event, FI_CONNREQ);
    assert_ptr_equal(cm.entry().fid, &source);
    assert_ptr_equal(cm.entry().info, expected);
    assert_memory_equal(cm.data(), "hel\0", 4);
    fi_freeinfo(cm.entry().info);
}

void unseen_requests_are_freed_with_the_queue(void** state) {
    Rig& rig = rig_of(state);
    assert_int_equal(rig.open(), 0);
    struct fid source {};
    rig.queue().push_cm(FI_CONNREQ, &source, fi::make_info(), {});
    rig.queue().push_cm(FI_CONNECTED, &source, nullptr, {});
    rig.queue().forget(&source);
    std::uint32_t event = 0;
    CmEntry cm{};
    assert_int_equal(fi_eq_read(rig.eq, &event, &cm, sizeof cm, 0), -FI_EAGAIN);
    rig.queue().push_cm(FI_CONNREQ, &source, fi::make_info(), {});  // freed by teardown
}

void an_error_is_announced_and_read_once(void** state) {
    Rig& rig = rig_of(state);
    assert_int_equal(rig.open(), 0);
    struct fid source {};
    int context = 0;
    rig.queue().push_error(&source, &context, FI_ECONNREFUSED, 7, bytes("sorry"));
    std::uint32_t event = 0;
    CmEntry cm{};
    assert_int_equal(fi_eq_read(rig.eq, &event, &cm, sizeof cm, 0), -FI_EAVAIL);
    char data[3] = {};
    fi_eq_err_entry error{};
    error.err_data = data;
    error.err_data_size = sizeof data;
    assert_int_equal(fi_eq_readerr(rig.eq, &error, FI_PEEK), sizeof error);
    assert_ptr_equal(error.err_data, data);
    assert_int_equal(error.err_data_size, 3);
    assert_memory_equal(data, "sor", 3);
    fi_eq_err_entry own{};
    assert_int_equal(fi_eq_readerr(rig.eq, &own, 0), sizeof own);
    assert_ptr_equal(own.fid, &source);
    assert_ptr_equal(own.context, &context);
    assert_int_equal(own.err, FI_ECONNREFUSED);
    assert_int_equal(own.prov_errno, 7);
    assert_int_equal(own.err_data_size, 5);
    assert_memory_equal(own.err_data, "sorry", 5);
    assert_int_equal(fi_eq_readerr(rig.eq, &own, 0), -FI_EAGAIN);
}

int setup_old(void** state) {
    *state = new Rig(FI_VERSION(1, 4));
    return 0;
}

void old_programs_have_no_buffer_for_error_data(void** state) {
    Rig& rig = rig_of(state);
    assert_int_equal(rig.open(), 0);
    rig.queue().push_error(nullptr, nullptr, FI_ECONNREFUSED, 0, bytes("sorry"));
    char data[5] = {};
    fi_eq_err_entry error{};
    error.err_data = data;
    error.err_data_size = sizeof data;  // not theirs to set before 1.5
    assert_int_equal(fi_eq_readerr(rig.eq, &error, 0), sizeof error);
    assert_ptr_not_equal(error.err_data, data);
    assert_memory_equal(error.err_data, "sorry", 5);
}

void the_descriptor_is_readable_while_events_wait(void** state) {
    Rig& rig = rig_of(state);
    assert_int_equal(rig.open(FI_WAIT_FD), 0);
    const int fd = rig.fd();
    assert_false(is_readable(fd));
    struct fid* fids[] = {&rig.eq->fid};
    assert_int_equal(fi_trywait(rig.fabric, fids, 1), 0);
    const fi_eq_entry entry{};
    fi_eq_write(rig.eq, FI_NOTIFY, &entry, sizeof entry, 0);
    assert_true(is_readable(fd));
    assert_int_equal(fi_trywait(rig.fabric, fids, 1), -FI_EAGAIN);
    std::uint32_t event = 0;
    fi_eq_entry got{};
    fi_eq_read(rig.eq, &event, &got, sizeof got, 0);
    assert_false(is_readable(fd));
    fi_wait_obj kind = FI_WAIT_NONE;
    assert_int_equal(fi_control(&rig.eq->fid, FI_GETWAITOBJ, &kind), 0);
    assert_int_equal(kind, FI_WAIT_FD);
}

void a_sleeper_is_woken_by_a_write(void** state) {
    Rig& rig = rig_of(state);
    for (const fi_wait_obj kind : {FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_YIELD, FI_WAIT_POLLFD}) {
        assert_int_equal(rig.open(kind), 0);
        std::thread writer([&] {
            const fi_eq_entry entry{nullptr, nullptr, 42};
            fi_eq_write(rig.eq, FI_NOTIFY, &entry, sizeof entry, 0);
        });
        std::uint32_t event = 0;
        fi_eq_entry got{};
        const ssize_t count = fi_eq_sread(rig.eq, &event, &got, sizeof got, -1, 0);
        writer.join();
        assert_int_equal(count, sizeof got);
        assert_int_equal(got.data, 42);
        fi_close(&rig.eq->fid);
        rig.eq = nullptr;
    }
}

void sleeping_ends_after_the_timeout(void** state) {
    Rig& rig = rig_of(state);
    assert_int_equal(rig.open(), 0);
    std::uint32_t event = 0;
    fi_eq_entry got{};
    const auto start = std::chrono::steady_clock::now();
    assert_int_equal(fi_eq_sread(rig.eq, &event, &got, sizeof got, 20, 0), -FI_EAGAIN);
    assert_true(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(20));
}

void without_a_wait_object_nobody_sleeps(void** state) {
    Rig& rig = rig_of(state);
    assert_int_equal(rig.open(FI_WAIT_NONE), 0);
    std::uint32_t event = 0;
    fi_eq_entry got{};
    int fd = -1;
    assert_int_equal(fi_eq_sread(rig.eq, &event, &got, sizeof got, -1, 0), -FI_ENOSYS);
    assert_int_equal(fi_control(&rig.eq->fid, FI_GETWAIT, &fd), -FI_ENODATA);
    assert_int_equal(fi_control(&rig.eq->fid, FI_GETWAITOBJ, &fd), -FI_ENODATA);
    assert_int_equal(fi_control(&rig.eq->fid, FI_BACKLOG, &fd), -FI_ENOSYS);
}

void poll_descriptors_are_counted_before_they_are_given(void** state) {
    Rig& rig = rig_of(state);
    assert_int_equal(rig.open(FI_WAIT_POLLFD), 0);
    fi_wait_pollfd wanted{};
    assert_int_equal(fi_control(&rig.eq->fid, FI_GETWAIT, &wanted), -FI_ETOOSMALL);
    assert_int_equal(wanted.nfds, 1);
    pollfd fd{};
    wanted.fd = &fd;
    assert_int_equal(fi_control(&rig.eq->fid, FI_GETWAIT, &wanted), 0);
    assert_int_equal(fd.events, POLLIN);
    assert_true(fd.fd >= 0);
}

void impossible_queues_are_refused(void** state) {
    Rig& rig = rig_of(state);
    assert_int_equal(rig.open(FI_WAIT_MUTEX_COND), -FI_EINVAL);
    fi_eq_attr attr{};
    const int unknown = 1000;
    std::memcpy(&attr.wait_obj, &unknown, sizeof attr.wait_obj);
    assert_int_equal(fi_eq_open(rig.fabric, &attr, &rig.eq, nullptr), -FI_EINVAL);
    fi_wait_attr wait{};
    std::memcpy(&wait.wait_obj, &unknown, sizeof wait.wait_obj);
    fid_wait* set = nullptr;
    assert_int_equal(fi_wait_open(rig.fabric, &wait, &set), -FI_EINVAL);
    assert_int_equal(rig.open(FI_WAIT_SET), -FI_EINVAL);  // without the set
    assert_int_equal(rig.open(FI_WAIT_UNSPEC, FI_READ), -FI_EINVAL);
    assert_null(rig.eq);
}

/// Something that has events of its own, as a connection channel has.
class CountingSource final : public fi::EventSource {
public:
    explicit CountingSource(bool& alive) : alive_(alive) { alive_ = true; }
    ~CountingSource() override {
        close(fd_);
        alive_ = false;
    }
    [[nodiscard]] int fd() const noexcept override { return fd_; }
    void drain(fi::EventQueue& queue) override {
        eventfd_t count = 0;
        if (eventfd_read(fd_, &count) == 0) queue.push(FI_NOTIFY, {nullptr, nullptr, count});
    }
    void happen() { eventfd_write(fd_, 1); }

private:
    bool& alive_;
    int fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
};

void sources_are_drained_and_awaited(void** state) {
    Rig& rig = rig_of(state);
    assert_int_equal(rig.open(FI_WAIT_FD), 0);
    bool alive = false;
    auto owned = std::make_unique<CountingSource>(alive);
    CountingSource& source = *owned;
    assert_null(rig.queue().find_source(&rig));
    assert_true(rig.queue().add_source(&rig, std::move(owned)).has_value());
    assert_ptr_equal(rig.queue().find_source(&rig), &source);
    assert_false(is_readable(rig.fd()));
    source.happen();
    assert_true(is_readable(rig.fd()));
    struct fid* fids[] = {&rig.eq->fid};
    assert_int_equal(fi_trywait(rig.fabric, fids, 1), -FI_EAGAIN);
    std::uint32_t event = 0;
    fi_eq_entry got{};
    assert_int_equal(fi_eq_read(rig.eq, &event, &got, sizeof got, 0), sizeof got);
    assert_int_equal(fi_trywait(rig.fabric, fids, 1), 0);
    std::thread later([&] { source.happen(); });
    const ssize_t count = fi_eq_sread(rig.eq, &event, &got, sizeof got, -1, 0);
    later.join();
    assert_int_equal(count, sizeof got);
    fi_close(&rig.eq->fid);
    rig.eq = nullptr;
    assert_false(alive);
}

struct SetRig : Rig {
    fid_wait* set = nullptr;
    ~SetRig() {
        if (eq != nullptr) fi_close(&eq->fid);
        eq = nullptr;
        if (set != nullptr) fi_close(&set->fid);
    }
};
int setup_set(void** state) {
    *state = new SetRig;
    return 0;
}
int teardown_set(void** state) {
    delete static_cast<SetRig*>(*state);
    return 0;
}

void a_wait_set_sleeps_for_its_members(void** state) {
    SetRig& rig = *static_cast<SetRig*>(*state);
    fi_wait_attr wait_attr{FI_WAIT_UNSPEC, 0};
    assert_int_equal(fi_wait_open(rig.fabric, &wait_attr, &rig.set), 0);
    fi_eq_attr attr{};
    attr.flags = FI_WRITE;
    attr.wait_obj = FI_WAIT_SET;
    attr.wait_set = rig.set;
    assert_int_equal(fi_eq_open(rig.fabric, &attr, &rig.eq, nullptr), 0);
    assert_int_equal(fi_close(&rig.set->fid), -FI_EBUSY);
    assert_int_equal(fi_wait(rig.set, 0), -FI_ETIMEDOUT);
    std::thread writer([&] {
        const fi_eq_entry entry{};
        fi_eq_write(rig.eq, FI_NOTIFY, &entry, sizeof entry, 0);
    });
    const int woken = fi_wait(rig.set, -1);
    writer.join();
    assert_int_equal(woken, 0);
    std::uint32_t event = 0;
    fi_eq_entry got{};
    assert_int_equal(fi_eq_read(rig.eq, &event, &got, sizeof got, 0), sizeof got);
    assert_int_equal(fi_wait(rig.set, 1), -FI_ETIMEDOUT);
}

void parents_cannot_be_closed_before_their_children(void** state) {
    Rig& rig = rig_of(state);
    assert_int_equal(rig.open(), 0);
    assert_int_equal(fi_close(&rig.fabric->fid), -FI_EBUSY);
    assert_int_equal(fi_close(&rig.eq->fid), 0);
    rig.eq = nullptr;
    assert_int_equal(fi_close(&rig.fabric->fid), 0);
    rig.fabric = nullptr;
}

void fabrics_need_names_that_we_know(void** state) {
    (void)state;
    fi_fabric_attr attr{};
    fid_fabric* fabric = nullptr;
    assert_int_equal(fi_fabric(&attr, &fabric, nullptr), -FI_EINVAL);
    attr.name = const_cast<char*>("x");
    assert_int_equal(fi_fabric(&attr, &fabric, nullptr), -FI_EINVAL);
    attr.prov_name = const_cast<char*>("psm3");
    assert_int_equal(fi_fabric(&attr, &fabric, nullptr), -FI_ENODEV);
    assert_int_equal(fi_fabric(nullptr, &fabric, nullptr), -FI_EINVAL);
    assert_int_equal(fi_fabric2(nullptr, &fabric, 0, nullptr), -FI_EINVAL);
    assert_null(fabric);
    attr.prov_name = const_cast<char*>("ofi_rxm;TCP");
    assert_int_equal(fi_fabric(&attr, &fabric, nullptr), 0);
    assert_int_equal(fi_close(&fabric->fid), 0);
}

void the_text_of_an_error_is_written_and_returned(void** state) {
    Rig& rig = rig_of(state);
    assert_int_equal(rig.open(), 0);
    char text[64] = {};
    assert_string_equal(fi_eq_strerror(rig.eq, FI_ECONNREFUSED, nullptr, text, sizeof text),
                        fi_strerror(FI_ECONNREFUSED));
    assert_string_equal(text, fi_strerror(FI_ECONNREFUSED));
}

#define EQ_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

}  // namespace

int main() {
    const CMUnitTest tests[] = {
        EQ_TEST(an_empty_queue_says_again),
        EQ_TEST(what_is_written_is_read_in_order),
        EQ_TEST(writing_needs_the_flag_of_the_queue),
        EQ_TEST(a_buffer_too_short_keeps_the_event),
        EQ_TEST(connection_events_bring_as_much_data_as_fits),
        EQ_TEST(unseen_requests_are_freed_with_the_queue),
        EQ_TEST(an_error_is_announced_and_read_once),
        cmocka_unit_test_setup_teardown(old_programs_have_no_buffer_for_error_data, setup_old,
                                        teardown),
        EQ_TEST(the_descriptor_is_readable_while_events_wait),
        EQ_TEST(a_sleeper_is_woken_by_a_write),
        EQ_TEST(sleeping_ends_after_the_timeout),
        EQ_TEST(without_a_wait_object_nobody_sleeps),
        EQ_TEST(poll_descriptors_are_counted_before_they_are_given),
        EQ_TEST(impossible_queues_are_refused),
        EQ_TEST(sources_are_drained_and_awaited),
        cmocka_unit_test_setup_teardown(a_wait_set_sleeps_for_its_members, setup_set, teardown_set),
        EQ_TEST(parents_cannot_be_closed_before_their_children),
        cmocka_unit_test(fabrics_need_names_that_we_know),
        EQ_TEST(the_text_of_an_error_is_written_and_returned),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
