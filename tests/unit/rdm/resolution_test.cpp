// SPDX-License-Identifier: BSD-3-Clause
// core/rdm/resolution: a post does not wait for the way to a peer.
#include "core/rdm/resolution.hpp"

#include <latch>
#include <thread>
#include <vector>

#include "tests/support/cmocka.hpp"

namespace compat::core {
namespace {

using rdm::Resolution;

/// What the kernel and the test have to do with each other.
struct Way {
    std::latch open{1};
    std::atomic<int> alive{0};
    Status outcome;
};

class SlowCmId final : public CmId {
public:
    explicit SlowCmId(Way& way) : way_(way) { ++way_.alive; }
    ~SlowCmId() override { --way_.alive; }
    Status resolve(const SocketAddress&, const SocketAddress&, int) noexcept override {
        way_.open.wait();
        return way_.outcome;
    }
    Status bind(const SocketAddress&) noexcept override { return {}; }
    Status listen(int) noexcept override { return {}; }
    Result<std::unique_ptr<QueuePair>> create_qp(const QpAttr&) noexcept override {
        return failure(Errc::not_supported);
    }
    Status connect(const ConnectionParameters&) noexcept override { return {}; }
    Status accept(const ConnectionParameters&) noexcept override { return {}; }
    Status reject(std::span<const std::byte>) noexcept override { return {}; }
    Status disconnect() noexcept override { return {}; }
    Status migrate(CmChannel&) noexcept override { return {}; }
    [[nodiscard]] SocketAddress local_address() const noexcept override { return {}; }
    [[nodiscard]] SocketAddress peer_address() const noexcept override { return {}; }

private:
    Way& way_;
};

Result<std::shared_ptr<Resolution>> start(Way& way) {
    return Resolution::start(std::make_unique<SlowCmId>(way), {}, {}, 2000);
}

void wait_for(const Resolution& resolution) {
    while (!resolution.done()) std::this_thread::yield();
}

void the_caller_goes_on_until_the_way_is_known(void**) {
    Way way;
    const auto resolution = start(way);
    assert_true(resolution.has_value());
    assert_false((*resolution)->done());
    way.open.count_down();
    wait_for(**resolution);
    const auto id = (*resolution)->take();
    assert_true(id.has_value());
    assert_non_null(id->get());
}

void a_way_that_is_not_found_is_told(void**) {
    Way way;
    way.outcome = failure(Errc::unreachable, 110);
    const auto resolution = start(way);
    way.open.count_down();
    wait_for(**resolution);
    const auto id = (*resolution)->take();
    assert_false(id.has_value());
    assert_int_equal(id.error().code, Errc::unreachable);
    assert_int_equal(id.error().device_errno, 110);
}

void who_no_longer_cares_need_not_wait(void**) {
    Way way;
    auto resolution = start(way);
    resolution->reset();
    assert_int_equal(way.alive.load(), 1);
    way.open.count_down();
    while (way.alive.load() != 0) std::this_thread::yield();
}

void thousands_of_peers_are_no_thousands_of_threads(void**) {
    Way way;
    std::vector<std::shared_ptr<Resolution>> under_way;
    for (;;) {
        auto started = start(way);
        if (!started) {
            assert_int_equal(started.error().code, Errc::would_block);
            break;
        }
        under_way.push_back(std::move(*started));
        assert_true(under_way.size() <= 64);
    }
    way.open.count_down();
    for (const auto& resolution : under_way) wait_for(*resolution);
    assert_true(start(way).has_value());
}

}  // namespace
}  // namespace compat::core

int main() {
    using namespace compat::core;
    const CMUnitTest tests[] = {
        cmocka_unit_test(the_caller_goes_on_until_the_way_is_known),
        cmocka_unit_test(a_way_that_is_not_found_is_told),
        cmocka_unit_test(who_no_longer_cares_need_not_wait),
        cmocka_unit_test(thousands_of_peers_are_no_thousands_of_threads),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
