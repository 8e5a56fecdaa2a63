// SPDX-License-Identifier: BSD-3-Clause
// operator new that fails on demand. A program that links compat_fake_device has it.
#pragma once

namespace compat::test {

/// The nth allocation of this thread from now on throws std::bad_alloc (1: the next one); 0: none.
void fail_new(int nth) noexcept;
/// Whether the last fail_new() came true.
bool new_has_failed() noexcept;

/// Allocations in its scope neither count nor fail: those of the test's own machinery.
class NewFailurePaused {
public:
    NewFailurePaused() noexcept;
    ~NewFailurePaused();
    NewFailurePaused(const NewFailurePaused&) = delete;
    NewFailurePaused& operator=(const NewFailurePaused&) = delete;
};

}  // namespace compat::test
