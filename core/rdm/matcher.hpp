// SPDX-License-Identifier: BSD-3-Clause
// Which message goes to which receive. One lock for the receives and for all endpoints that share
// them: a receive may start a transfer on any of their connections.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "core/base/lock.hpp"
#include "core/base/trace.hpp"
#include "core/rdm/endpoint.hpp"
#include "core/rdm/list.hpp"
#include "core/rdm/peer.hpp"
#include "core/rdm/wire.hpp"

namespace compat::core::rdm {

class Endpoint;

/// A receive that a program has posted, until its completion.
struct Posted : Linked<Posted> {
    MessageMatch match;
    void* context = nullptr;
    std::uint64_t flags = 0;
    std::uint64_t room = 0;         ///< bytes; of a multiple: left
    LocalBuffer* local = nullptr;   ///< of a multiple: one, where the next message goes
    std::uint32_t outstanding = 0;  ///< messages that are on their way into it
    std::uint16_t local_count = 0;
    bool entry = false;
    bool multiple = false;
    bool touched = false;    ///< a multiple that has got a message
    bool exhausted = false;  ///< it takes no more messages
    // For a trace:
    std::uint64_t traced = 0;  ///< its number; 0: none
    const char* status = Trace::kDropped;
    std::uint64_t received = 0;
};

/// What is known of a message when it arrives.
struct Arrival {
    Endpoint* endpoint = nullptr;
    Peer* peer = nullptr;
    Connection* connection = nullptr;  ///< null: it is gone, the message is complete
    Header header;
    std::span<const std::byte> message;  ///< with the header

    [[nodiscard]] std::span<const std::byte> payload() const noexcept {
        return message.subspan(kHeaderLength);
    }
};

/// A message that no receive has taken yet.
struct Unexpected : Linked<Unexpected> {
    Arrival arrival;
    PeerRef peer_ref;
    bool stayed = false;  ///< in the connection's buffer, not on the heap
    bool claimed = false;
    void* claimed_by = nullptr;
};

/// Where the bytes of one message go.
struct Placement {
    Posted* posted = nullptr;
    std::array<LocalBuffer, kMaxSegments> local;
    std::size_t local_count = 0;
    std::uint64_t room = 0;
    void* start = nullptr;
};

class Matcher final : public MessageQueue {
public:
    explicit Matcher(std::uint32_t depth) noexcept : depth_(depth) {}
    ~Matcher() override;
    Status prepare() noexcept;

    Status post(const MessageReceive& receive) noexcept override;
    Result<Completion> cancel(void* context) noexcept override;
    void set_min_multiple(std::uint64_t length) noexcept override;
    [[nodiscard]] std::size_t free_slots() noexcept override;

    void lock() noexcept {
        wanted_.fetch_add(1, std::memory_order_relaxed);
        lock_.lock();
        wanted_.fetch_sub(1, std::memory_order_relaxed);
    }
    /// False too when somebody waits for the lock: a program that polls all the time would hardly
    /// ever let go of it.
    bool try_lock() noexcept {
        return wanted_.load(std::memory_order_relaxed) == 0 && lock_.try_lock();
    }
    void unlock() noexcept { lock_.unlock(); }

    // With the lock held:

    /// The receive that takes the message; false when there is none.
    bool find_receive(const Arrival& arrival, Placement& out) noexcept;
    /// The message is in, or will never be; true when a multiple is the program's again.
    bool release(Posted& posted) noexcept;
    void keep(Unexpected& message) noexcept;
    /// The oldest message that matches; it stays in the list.
    Unexpected* find_message(const MessageMatch& match) noexcept;
    void unlink(Unexpected& message) noexcept;
    void claim(Unexpected& message, void* context) noexcept;
    Unexpected* find_claimed(void* context) noexcept;
    void claim_again(Unexpected& message) noexcept { claimed_.push(message); }
    /// Calls drops(message) for every message that no receive has taken; where the answer is true
    /// it has left the lists.
    template <class Drops>
    void sift(const Drops& drops) noexcept;
    /// A receive that is in no list. Errors: as post().
    Result<Posted*> take_record(const MessageReceive& receive) noexcept;
    static void place(Posted& posted, std::uint64_t length, Placement& out) noexcept;
    /// A post that is to be tried again.
    Status hold_back() noexcept {
        statistics_->add(Stat::queue_full, 1);
        return failure(Errc::would_block);
    }

private:
    static std::size_t queue_of(bool tagged) noexcept { return tagged ? 1 : 0; }
    [[nodiscard]] static bool accepts(const MessageMatch& match, const Arrival& arrival) noexcept;
    void free(Posted& posted) noexcept;
    void trace_post(Posted& posted) noexcept;
    void trace_end(Posted& posted) noexcept;
    static void fill(Posted& posted, const MessageReceive& receive) noexcept;
    bool make_room(Posted& posted, std::uint64_t length, Endpoint& endpoint) noexcept;
    void match_kept(Posted& posted, Unexpected* message) noexcept;

    Lock lock_;
    std::atomic<std::uint32_t> wanted_{0};  ///< callers of lock()
    std::uint32_t depth_;
    std::uint64_t min_multiple_ = 64;
    std::unique_ptr<Posted[]> records_;
    std::unique_ptr<LocalBuffer[]> locals_;  ///< kMaxSegments a record
    List<Posted> free_;
    std::uint32_t free_count_ = 0;
    std::array<List<Posted>, 2> posted_;
    std::array<List<Unexpected>, 2> kept_;
    List<Unexpected> claimed_;
    Statistics statistics_;
    const std::unique_ptr<Trace> trace_ = Trace::create();  ///< null: none is wanted
    std::uint64_t traced_ = 0;
};

template <class Drops>
void Matcher::sift(const Drops& drops) noexcept {
    for (List<Unexpected>* list : {&kept_[0], &kept_[1], &claimed_}) {
        for (Unexpected* at = list->first(); at != nullptr;) {
            Unexpected& message = *at;
            at = list->next(message);
            // The message may be gone after the answer.
            list->remove(message);
            if (!drops(message)) list->put_before(at, message);
        }
    }
}

}  // namespace compat::core::rdm
