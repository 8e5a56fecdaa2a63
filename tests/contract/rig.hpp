// SPDX-License-Identifier: BSD-3-Clause
// What the contract's tests are written with: the device under test, both ends of a connection
// over it in this process, and patience. Every test frees what it made in its teardown, because a
// failed assertion leaves by longjmp.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/device/device.hpp"
#include "tests/support/cmocka.hpp"

namespace compat::contract {

using namespace compat::core;

/// The device under test, and what its transport forces on it.
struct Subject {
    Device* device = nullptr;
    SocketAddress address;                  ///< to listen at; port 0
    std::optional<SocketAddress> address6;  ///< the same in IPv6, if there is one
    SocketAddress foreign;                  ///< an address of no device here
    bool exact_private_data = true;         ///< else it arrives padded
    bool cpu_atomics = true;                ///< remote atomics are atomic to those of the CPU
    /// Else what was posted around a failed request may have been executed or not, and its status
    /// is one of a kind: RDMA devices differ.
    bool exact_errors = true;
    /// A completed write or send has been carried out at the target. Else it has been sent:
    /// settle() before looking, and what the target refuses ends the connection without a word of
    /// why.
    bool acknowledges = true;
    bool holds_messages = true;  ///< one that has no receive yet waits; else the connection ends
    bool keeps_rights = true;  ///< else memory is read without the right, and after deregistration
    bool tells_solicited = true;     ///< else every message is as a solicited one
    bool either_side_begins = true;  ///< else the connecting one has to send first
    bool any_iova = true;            ///< else its place in a page is that of the address
    bool holds_memory = true;        ///< a region's pages stay when they are unmapped
    bool answers_come_last = false;  ///< an answer is told of after what it answers
    bool places_in_order = true;     ///< a write's last byte is seen when all of it can be
};
void set_subject(Subject subject);
const Subject& subject();
const Limits& limits();

/// Long enough for a sanitizer on a busy machine; a test that waits so long has failed.
inline constexpr auto kPatience = std::chrono::seconds(30);

/// Calls until it is true; false when patience ends.
bool eventually(const std::function<bool()>& condition);

AccessFlags full_access();

/// Memory with its registration.
class Buffer {
public:
    Buffer(ProtectionDomain& pd, std::size_t length, AccessFlags access = full_access());
    Buffer(const Buffer&) = delete;
    ~Buffer();

    [[nodiscard]] std::byte* data() const { return data_; }
    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] Sge sge(std::size_t offset, std::size_t length) const;
    [[nodiscard]] Sge sge() const { return sge(0, size_); }
    [[nodiscard]] std::uint64_t address(std::size_t offset = 0) const;
    [[nodiscard]] std::uint32_t rkey() const { return mr_->rkey(); }
    [[nodiscard]] MemoryRegion& mr() const { return *mr_; }
    [[nodiscard]] std::uint64_t& word(std::size_t index) const;
    void deregister() { mr_.reset(); }
    void unmap();
    void withdraw() const;  ///< unmapped while registered; nothing else gets the addresses
    void fill(int value) const;
    void fill_pattern(unsigned seed) const;  ///< no two near bytes alike, by seed

private:
    std::byte* data_ = nullptr;
    std::size_t size_;
    std::unique_ptr<MemoryRegion> mr_;
};
std::byte pattern(std::size_t position, unsigned seed);
bool holds_pattern(const std::byte* data, std::size_t length, std::size_t position, unsigned seed);
bool holds_only(const std::byte* data, std::size_t length, int value);

struct SideOptions {
    std::uint32_t send_depth = 16;
    std::uint32_t receive_depth = 16;
    std::uint32_t max_sge = 4;
    std::uint32_t max_inline = 64;
    std::uint32_t cq_depth = 64;
    bool one_cq = false;  ///< for sends and receives
    bool with_srq = false;
    bool imm_without_receive = false;
    AccessFlags access = kRemoteAccess;
    std::uint8_t rnr_retry_count = 7;
    std::uint8_t read_depth = 255;
};

/// What several connections of one side may share, in the order of creation.
struct Resources {
    explicit Resources(const SideOptions& options);
    std::unique_ptr<ProtectionDomain> pd;
    std::unique_ptr<CompletionChannel> channel;
    std::unique_ptr<CompletionQueue> send_cq;
    std::unique_ptr<CompletionQueue> other_cq;
    CompletionQueue* receive_cq = nullptr;
    std::unique_ptr<SharedReceiveQueue> srq;
    std::unique_ptr<CmChannel> cm;
};

/// One end of a connection.
struct Side {
    explicit Side(const SideOptions& how, std::shared_ptr<Resources> shared = {});
    SideOptions options;
    std::shared_ptr<Resources> resources;
    std::deque<Buffer> buffers;
    std::unique_ptr<CmId> id;
    std::unique_ptr<QueuePair> qp;

    [[nodiscard]] ProtectionDomain& pd() const { return *resources->pd; }
    [[nodiscard]] CompletionQueue& send_cq() const { return *resources->send_cq; }
    [[nodiscard]] CompletionQueue& receive_cq() const { return *resources->receive_cq; }
    [[nodiscard]] CmChannel& cm() const { return *resources->cm; }
    Buffer& buffer(std::size_t length, AccessFlags access = full_access());
    [[nodiscard]] QpAttr qp_attr() const;
    void make_id();  ///< on cm()
    void make_qp();
    [[nodiscard]] ConnectionParameters parameters(std::span<const std::byte> data = {}) const;
};

struct Listening {
    std::unique_ptr<CmChannel> channel;
    std::unique_ptr<CmId> id;
    explicit Listening(const SocketAddress& address = subject().address);
    std::unique_ptr<CmId> next_request(std::vector<std::byte>* private_data = nullptr) const;
};

struct Pair {
    Side active;
    Side passive;
};
struct PairOptions {
    SideOptions active;
    SideOptions passive;
    std::shared_ptr<Resources> active_resources;
    std::shared_ptr<Resources> passive_resources;
};
inline PairOptions both(const SideOptions& options) {
    return {options, options, {}, {}};
}

/// *state of every test.
class Fixture {
public:
    ~Fixture();
    Pair& connect(const PairOptions& options = {});
    Side& side(const SideOptions& options = {});
    Listening& listening(const SocketAddress& address = subject().address);
    void run(std::function<void()> body);  ///< on a thread of its own
    void join();

    std::atomic<bool> stop{false};  ///< set before threads are joined in teardown
    std::atomic<int> wrong{0};      ///< threads count here what they may not assert
    std::atomic<int> done{0};       ///< and here what went well

private:
    friend int teardown(void** state);
    // what the threads use outlives them
    std::deque<Listening> listening_;
    std::deque<Pair> pairs_;
    std::deque<Side> sides_;
    std::vector<std::thread> threads_;
};
int setup(void** state);
int teardown(void** state);
inline Fixture& fixture_of(void** state) {
    return *static_cast<Fixture*>(*state);
}

#define CONTRACT_TEST(function) \
    cmocka_unit_test_setup_teardown(function, compat::contract::setup, compat::contract::teardown)

// --- connecting by hand

/// Resolves and connects; the outcome is an event of side.cm().
void start_connect(Side& side, const SocketAddress& peer, std::span<const std::byte> data = {});
/// Takes over the request, with a QP, and accepts.
void accept(Side& side, std::unique_ptr<CmId> request, std::span<const std::byte> data = {});
/// The next event, which has to be of that type.
CmEvent expect_event(CmChannel& channel, CmEventType type);
void expect_no_event(CmChannel& channel);
const char* text_of(CmEventType type);
std::vector<std::byte> bytes_of(std::size_t length, unsigned seed);

// --- posting and polling

struct Remote {
    std::uint32_t rkey = 0;
    std::uint64_t address = 0;
};
inline Remote at(const Buffer& buffer, std::size_t offset = 0) {
    return {buffer.rkey(), buffer.address(offset)};
}

/// A WorkRequest that owns its elements.
struct Post {
    std::uint64_t wr_id = 0;
    Opcode opcode = Opcode::write;
    std::vector<Sge> sges = {};
    Remote remote = {};
    SendFlags flags = SendFlag::signaled;
    std::uint64_t imm = 0;
    std::uint64_t operand = 0;
    std::uint64_t compare = 0;
    FlushType flush_type = FlushType::visibility;
    std::uint64_t flush_length = 0;

    [[nodiscard]] WorkRequest request() const;
};
inline constexpr SendFlags kUnsignaled{};

Status post(const Side& side, const Post& what);
Status post(const Side& side, const std::vector<Post>& batch, std::size_t* posted = nullptr);
Status post_receive(const Side& side, std::uint64_t wr_id, std::vector<Sge> sges = {});
/// The same, asserted.
void must_post(const Side& side, const Post& what);
void must_post(const Side& side, const std::vector<Post>& batch);
void must_post_receive(const Side& side, std::uint64_t wr_id, std::vector<Sge> sges = {});

/// The next completion; empty when patience ends. For threads.
std::optional<WorkCompletion> next_completion(CompletionQueue& cq);
/// The same, asserted, with its wr_id and status.
WorkCompletion expect(CompletionQueue& cq, std::uint64_t wr_id,
                      WcStatus status = WcStatus::success);
/// A while of polling gives nothing.
void expect_nothing(CompletionQueue& cq);
/// As expect(), and where errors are not exact any failure.
WorkCompletion expect_alike(CompletionQueue& cq, std::uint64_t wr_id, WcStatus status);
/// The next completion is an error of whatever kind.
WorkCompletion expect_failure(CompletionQueue& cq, std::uint64_t wr_id);
/// The target has refused this request, the only one: it says so, or the connection has ended.
void expect_refused(const Side& side, std::uint64_t wr_id, WcStatus status);
/// What side has posted, and seen complete, is done at the target.
void settle(const Side& side);
/// All bytes that active has written before this are at the target, and the connection works.
void expect_working(Pair& pair);

void assert_error(const Status& status, Errc code);
template <class T>
void assert_error(const Result<T>& result, Errc code) {
    assert_false(result.has_value());
    assert_int_equal(result.error().code, code);
}

// --- the suite: one list a subject, for main()

struct Group {
    const char* name;
    std::span<const CMUnitTest> tests;
};
std::span<const CMUnitTest> data_tests();
std::span<const CMUnitTest> queue_tests();
std::span<const CMUnitTest> error_tests();
std::span<const CMUnitTest> receive_tests();
std::span<const CMUnitTest> atomic_tests();
std::span<const CMUnitTest> flush_tests();
std::span<const CMUnitTest> event_tests();
std::span<const CMUnitTest> connection_tests();
std::span<const CMUnitTest> memory_tests();
std::span<const CMUnitTest> fork_tests();

/// Runs the groups named on the command line, or all. The exit status for main().
int run_contract(int argc, char** argv);

}  // namespace compat::contract
