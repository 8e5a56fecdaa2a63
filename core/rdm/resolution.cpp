// SPDX-License-Identifier: BSD-3-Clause
#include "core/rdm/resolution.hpp"

#include <new>

#include "core/base/helper_thread.hpp"

namespace compat::core::rdm {
namespace {

// A program that turns to thousands of peers at once shall not have as many threads for it.
constexpr int kMostAtOnce = 16;
constinit std::atomic<int> g_under_way{0};

}  // namespace

Result<std::shared_ptr<Resolution>> Resolution::start(std::unique_ptr<CmId> id,
                                                      const SocketAddress& source,
                                                      const SocketAddress& peer,
                                                      int timeout_ms) noexcept try {
    std::shared_ptr<Resolution> made(new Resolution(std::move(id), source, peer, timeout_ms));
    if (g_under_way.fetch_add(1) >= kMostAtOnce) {
        g_under_way.fetch_sub(1);
        return failure(Errc::would_block);
    }
    made->running_ = made;
    if (const int error = start_helper_thread("fabric-resolve", thread_main, made.get());
        error != 0) {
        made->running_.reset();
        g_under_way.fetch_sub(1);
        return failure(Errc::no_memory, error);
    }
    return made;
} catch (const std::bad_alloc&) {
    return failure(Errc::no_memory);
}

void* Resolution::thread_main(void* self) noexcept {
    // The last share may be this one: its endpoint is closed meanwhile.
    const std::shared_ptr<Resolution> own = std::move(static_cast<Resolution*>(self)->running_);
    own->status_ = own->id_->resolve(own->source_, own->peer_, own->timeout_ms_);
    g_under_way.fetch_sub(1);
    own->done_.store(true, std::memory_order_release);
    return nullptr;
}

Result<std::unique_ptr<CmId>> Resolution::take() noexcept {
    if (!status_) return failure(status_.error());
    return std::move(id_);
}

}  // namespace compat::core::rdm
