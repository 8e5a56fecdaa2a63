// SPDX-License-Identifier: BSD-3-Clause
// Child processes: they inherit copies of everything, and nothing of it is theirs.
#include <sys/wait.h>
#include <unistd.h>

#include "tests/contract/rig.hpp"

namespace compat::contract {
namespace {

/// What a careless child does to what it inherited; the number of the first thing that succeeded.
int use_and_close(Side& side, const Post& write) {
    if (post(side, write)) return 1;
    if (side.id->disconnect()) return 2;
    side.qp->fail();
    side.qp.reset();
    side.id.reset();
    return 0;
}

void child_process_leaves_the_connection_alone(void** state) {
    Pair& pair = fixture_of(state).connect();
    const Buffer& local = pair.active.buffer(64);
    const Buffer& remote = pair.passive.buffer(64);
    const Post write{.wr_id = 1, .sges = {local.sge()}, .remote = at(remote)};
    for (Side* side : {&pair.active, &pair.passive}) {
        const pid_t child = fork();
        if (child == 0) _exit(use_and_close(*side, write));
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        expect_working(pair);
    }
    expect_no_event(pair.active.cm());
}

constexpr CMUnitTest kTests[] = {
    CONTRACT_TEST(child_process_leaves_the_connection_alone),
};

}  // namespace

std::span<const CMUnitTest> fork_tests() {
    return kTests;
}

}  // namespace compat::contract
