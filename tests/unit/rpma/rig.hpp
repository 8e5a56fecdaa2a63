// SPDX-License-Identifier: BSD-3-Clause
// A peer on a fake device, and the objects a test makes from it: what is left is deleted after the
// test, and then nothing of the device may be alive.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rpma_compat/err_map.hpp"
#include "tests/support/cmocka.hpp"
#include "tests/support/fake_device.hpp"
#include "tests/support/new_failure.hpp"

namespace compat::rpma {

using test::Call;
using test::FakeDevice;

constexpr const char* kAddress = "127.0.0.1";
constexpr const char* kPort = "7204";
constexpr std::uint64_t kRemoteAddress = 0x7f00'1234'5000;
constexpr std::uint64_t kRemoteLength = 4096;
constexpr std::uint32_t kRemoteKey = 0xabcd;
constexpr int kAllUsages = 0xff;
constexpr std::size_t kDescriptorSize = 21;

/// An op_context that no other test value resembles.
inline const void* const kContext = reinterpret_cast<const void*>(0x5eed'0000'1111);
constexpr std::uint64_t kWrId = 0x5eed'0000'1111;

struct Rig {
    FakeDevice device;
    ibv_context* context = nullptr;
    rpma_peer* peer = nullptr;
    rpma_ep* ep = nullptr;
    rpma_conn_cfg* cfg = nullptr;
    rpma_srq_cfg* srq_cfg = nullptr;
    rpma_srq* srq = nullptr;
    rpma_conn_req* req = nullptr;
    rpma_conn* conn = nullptr;
    rpma_mr_local* local = nullptr;
    rpma_mr_remote* remote = nullptr;
    rpma_peer_cfg* peer_cfg = nullptr;
    alignas(8) std::array<char, 256> memory{};
};

int set_up(void** state);
int tear_down(void** state);

inline Rig& of(void** state) {
    return *static_cast<Rig*>(*state);
}

// Each makes the rig's object of that name.
void make_cfg(Rig& rig);
void make_srq(Rig& rig, std::uint32_t rcq_size);
void make_ep(Rig& rig);
void make_request(Rig& rig);
void make_incoming_request(Rig& rig, const std::string& private_data = {});
void connect(Rig& rig, const std::string& private_data = {});  ///< rig.req becomes rig.conn
void make_conn(Rig& rig);
void make_local(Rig& rig, int usage = kAllUsages);
void make_remote(Rig& rig, int usage = kAllUsages);
void apply_direct_write(Rig& rig, bool supported);

using Descriptor = std::array<std::uint8_t, kDescriptorSize>;
Descriptor remote_descriptor(int usage);

test::FakeQp& qp_of(Rig& rig);    ///< the newest
test::FakeCmId& id_of(Rig& rig);  ///< the newest
void set_nonblocking(int fd);

/// What an out-parameter holds that must not be written.
template <class Object>
Object* untouched() {
    static char somewhere;
    return reinterpret_cast<Object*>(&somewhere);
}

/// What every *_delete function does without an object.
template <class Object>
void check_delete_of_nothing(int (*remove)(Object**)) {
    assert_int_equal(remove(nullptr), RPMA_E_INVAL);
    Object* none = nullptr;
    assert_int_equal(remove(&none), kSuccess);
    assert_null(none);
}

/// Lines that reached the log function while it lives; the thresholds are put back at its end.
class CapturedLog {
public:
    explicit CapturedLog(rpma_log_level threshold = RPMA_LOG_LEVEL_DEBUG);
    ~CapturedLog();
    CapturedLog(const CapturedLog&) = delete;
    CapturedLog& operator=(const CapturedLog&) = delete;

    struct Line {
        rpma_log_level level;
        std::string file;
        int line;
        std::string function;
        std::string format;
        std::string text;
    };
    [[nodiscard]] static const std::vector<Line>& lines();
    /// The first line of this level that contains the text, or null.
    [[nodiscard]] static const Line* find(rpma_log_level level, const std::string& text);

private:
    rpma_log_level old_threshold_ = RPMA_LOG_LEVEL_WARNING;
};

/// A call under test that makes an Object from the device.
template <class Object>
struct Trial {
    std::function<void()> prepare;  ///< before each call, with no failure in force; may be empty
    std::function<int(Object**)> make;
    std::function<int(Object**)> drop;
    /// What the call may leave in its out-parameter when it fails; else it stays untouched.
    bool null_on_failure = false;
};

namespace detail {

template <class Object>
void check_failed_trial(const Trial<Object>& trial, const FakeDevice& device, std::size_t live,
                        const Object* object) {
    if (!trial.null_on_failure || object != nullptr) assert_ptr_equal(object, untouched<Object>());
    assert_int_equal(device.live(), live);
}

template <class Object>
void check_good_trial(const Trial<Object>& trial, int rc, Object* object) {
    assert_int_equal(rc, kSuccess);
    assert_ptr_not_equal(object, untouched<Object>());
    assert_non_null(object);
    assert_int_equal(trial.drop(&object), kSuccess);
    assert_null(object);
}

}  // namespace detail

/// Lets the 1st, 2nd, … call of the device fail, until the trial reaches none that does: each gives
/// the expected code, leaves the out-parameter alone, and leaks nothing. The number of calls.
template <class Object>
int fail_each_call(FakeDevice& device, const Trial<Object>& trial, core::Error error,
                   const std::function<int(int nth)>& expected, int first = 1) {
    for (int nth = first;; ++nth) {
        assert_true(nth < 100);
        const std::size_t live = device.live();
        if (trial.prepare) trial.prepare();
        Object* object = untouched<Object>();
        device.fail_any(nth, error);
        const int rc = trial.make(&object);
        device.fail_nothing();
        if (!device.has_failed()) {
            detail::check_good_trial(trial, rc, object);
            assert_int_equal(device.live(), live);
            return nth - 1;
        }
        assert_int_equal(rc, expected(nth));
        detail::check_failed_trial(trial, device, live, object);
    }
}

/// With every error that a device can give.
template <class Object>
int fail_each_call_to_provider(FakeDevice& device, const Trial<Object>& trial, int first = 1) {
    int calls = 0;
    for (const ErrRow& row : kErrMap)
        calls = fail_each_call(
            device, trial, {row.core, 0}, [](int) { return RPMA_E_PROVIDER; }, first);
    return calls;
}

/// Lets the 1st, 2nd, … allocation fail: RPMA_E_NOMEM, and the rest as above.
template <class Object>
int fail_each_allocation(FakeDevice& device, const Trial<Object>& trial) {
    for (int nth = 1;; ++nth) {
        assert_true(nth < 100);
        const std::size_t live = device.live();
        if (trial.prepare) trial.prepare();
        Object* object = untouched<Object>();
        test::fail_new(nth);
        const int rc = trial.make(&object);
        const bool failed = test::new_has_failed();
        test::fail_new(0);
        if (!failed) {
            detail::check_good_trial(trial, rc, object);
            assert_int_equal(device.live(), live);
            return nth - 1;
        }
        assert_int_equal(rc, RPMA_E_NOMEM);
        detail::check_failed_trial(trial, device, live, object);
    }
}

}  // namespace compat::rpma

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
