// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace compat::core {

/// What reading a completion queue has to drive besides the queue's own device queue: it delivers
/// to the completion queue with TrackedCq::push(). Called without locks of the completion queue.
class ProgressSource {
public:
    virtual ~ProgressSource() = default;
    virtual void progress() noexcept = 0;
    /// The reader is about to sleep: from now on somebody else makes the progress.
    virtual void hand_over() noexcept = 0;
};

}  // namespace compat::core
