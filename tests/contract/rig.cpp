// SPDX-License-Identifier: BSD-3-Clause
#include "tests/contract/rig.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

namespace compat::contract {
namespace {

// How long nothing has to happen. What should happen takes far less.
constexpr auto kQuiet = std::chrono::milliseconds(10);

constexpr std::uint64_t kSettling = 0x5e771e;

Subject g_subject;

void make_non_blocking(int fd) {
    assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

template <class T>
std::unique_ptr<T> value_of(Result<std::unique_ptr<T>> result) {
    if (!result)
        std::printf("%s: error %d, errno %d\n", __PRETTY_FUNCTION__,
                    static_cast<int>(result.error().code), result.error().device_errno);
    assert_true(result.has_value());
    assert_non_null(result->get());
    return std::move(*result);
}

std::chrono::steady_clock::time_point patience_end() {
    return std::chrono::steady_clock::now() + kPatience;
}

/// COMPAT_TEST_MEMORY=file: in a file of its own, which stays open until the process ends.
void* new_memory(std::size_t length) {
    const char* kind = std::getenv("COMPAT_TEST_MEMORY");
    const bool in_file = kind != nullptr && std::string_view(kind) == "file";
    int file = -1;
    if (in_file) {
        file = memfd_create("contract", MFD_CLOEXEC);
        assert_int_equal(ftruncate(file, static_cast<off_t>(length)), 0);
    }
    void* mapped = mmap(nullptr, length, PROT_READ | PROT_WRITE,
                        in_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, file, 0);
    assert_true(mapped != MAP_FAILED);
    return mapped;
}

}  // namespace

void set_subject(Subject subject) {
    g_subject = std::move(subject);
}
const Subject& subject() {
    return g_subject;
}
const Limits& limits() {
    return g_subject.device->limits();
}

bool eventually(const std::function<bool()>& condition) {
    const auto end = patience_end();
    while (!condition()) {
        if (std::chrono::steady_clock::now() > end) return false;
        std::this_thread::yield();
    }
    return true;
}

AccessFlags full_access() {
    AccessFlags access = Access::local_write | Access::remote_write;
    access |= Access::remote_read;
    if (limits().atomics) access |= Access::remote_atomic;
    if (limits().flush) access |= Access::flush_visible;
    return access;
}

// --- Buffer

Buffer::Buffer(ProtectionDomain& pd, std::size_t length, AccessFlags access) : size_(length) {
    data_ = static_cast<std::byte*>(new_memory(length));
    MrAttr attr;
    attr.address = data_;
    attr.length = size_;
    attr.access = access;
    mr_ = value_of(pd.register_memory(attr));
}

Buffer::~Buffer() {
    mr_.reset();
    unmap();
}

void Buffer::unmap() {
    if (data_ != nullptr) munmap(std::exchange(data_, nullptr), size_);
}

void Buffer::withdraw() const {
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    assert_ptr_equal(mmap(data_, size_, PROT_NONE, kFlags, -1, 0), data_);
}

Sge Buffer::sge(std::size_t offset, std::size_t length) const {
    return {data_ + offset, static_cast<std::uint32_t>(length), mr_->lkey()};
}
std::uint64_t Buffer::address(std::size_t offset) const {
    return reinterpret_cast<std::uintptr_t>(data_) + offset;
}
std::uint64_t& Buffer::word(std::size_t index) const {
    return reinterpret_cast<std::uint64_t*>(data_)[index];
}
void Buffer::fill(int value) const {
    std::memset(data_, value, size_);
}
void Buffer::fill_pattern(unsigned seed) const {
    for (std::size_t i = 0; i < size_; ++i) data_[i] = pattern(i, seed);
}

std::byte pattern(std::size_t position, unsigned seed) {
    const auto mixed = (position + seed * 7919U) * 2654435761U;
    return static_cast<std::byte>(mixed >> 24 ^ mixed >> 11);
}

bool holds_pattern(const std::byte* data, std::size_t length, std::size_t position, unsigned seed) {
    for (std::size_t i = 0; i < length; ++i)
        if (data[i] != pattern(position + i, seed)) return false;
    return true;
}

bool holds_only(const std::byte* data, std::size_t length, int value) {
    for (std::size_t i = 0; i < length; ++i)
        if (data[i] != static_cast<std::byte>(value)) return false;
    return true;
}

// --- Resources, Side, Listening

Resources::Resources(const SideOptions& options) {
    Device& device = *subject().device;
    pd = value_of(device.allocate_pd());
    channel = value_of(device.create_completion_channel());
    make_non_blocking(channel->fd());
    send_cq = value_of(device.create_cq(options.cq_depth, channel.get()));
    receive_cq = send_cq.get();
    if (!options.one_cq) {
        other_cq = value_of(device.create_cq(options.cq_depth, channel.get()));
        receive_cq = other_cq.get();
    }
    if (options.with_srq) srq = value_of(pd->create_srq(options.receive_depth, options.max_sge));
    cm = value_of(device.create_cm_channel());
    make_non_blocking(cm->fd());
}

Side::Side(const SideOptions& how, std::shared_ptr<Resources> shared)
    : options(how), resources(shared ? std::move(shared) : std::make_shared<Resources>(options)) {}

Buffer& Side::buffer(std::size_t length, AccessFlags access) {
    return buffers.emplace_back(pd(), length, access);
}

QpAttr Side::qp_attr() const {
    QpAttr attr;
    attr.pd = resources->pd.get();
    attr.send_cq = resources->send_cq.get();
    attr.receive_cq = resources->receive_cq;
    attr.srq = resources->srq.get();
    attr.send_depth = options.send_depth;
    attr.receive_depth = options.receive_depth;
    attr.max_send_sge = attr.max_receive_sge = options.max_sge;
    attr.max_inline = options.max_inline;
    attr.imm_without_receive = options.imm_without_receive;
    attr.access = options.access;
    return attr;
}

void Side::make_id() {
    id = value_of(subject().device->create_cm_id(resources->cm.get()));
}
void Side::make_qp() {
    qp = value_of(id->create_qp(qp_attr()));
}

ConnectionParameters Side::parameters(std::span<const std::byte> data) const {
    ConnectionParameters parameters;
    parameters.private_data = data;
    parameters.responder_resources = parameters.initiator_depth = options.read_depth;
    parameters.rnr_retry_count = options.rnr_retry_count;
    return parameters;
}

Listening::Listening(const SocketAddress& address)
    : channel(value_of(subject().device->create_cm_channel())),
      id(value_of(subject().device->create_cm_id(channel.get()))) {
    make_non_blocking(channel->fd());
    assert_true(id->bind(address).has_value());
    assert_true(id->listen(0).has_value());
}

std::unique_ptr<CmId> Listening::next_request(std::vector<std::byte>* private_data) const {
    CmEvent event = expect_event(*channel, CmEventType::connect_request);
    assert_ptr_equal(event.id, id.get());
    assert_non_null(event.request.get());
    if (private_data != nullptr) *private_data = std::move(event.private_data);
    return std::move(event.request);
}

// --- Fixture

Fixture::~Fixture() {
    stop = true;
    join();
    while (!pairs_.empty()) pairs_.pop_back();
    sides_.clear();
}

Pair& Fixture::connect(const PairOptions& options) {
    Pair& pair = pairs_.emplace_back(Pair{Side(options.active, options.active_resources),
                                          Side(options.passive, options.passive_resources)});
    const Listening& listener = listening();
    start_connect(pair.active, listener.id->local_address());
    accept(pair.passive, listener.next_request());
    expect_event(pair.active.cm(), CmEventType::established);
    expect_event(pair.passive.cm(), CmEventType::established);
    if (!subject().either_side_begins) settle(pair.active);
    return pair;
}

Side& Fixture::side(const SideOptions& options) {
    return sides_.emplace_back(options);
}
Listening& Fixture::listening(const SocketAddress& address) {
    return listening_.emplace_back(address);
}
void Fixture::run(std::function<void()> body) {
    threads_.emplace_back(std::move(body));
}
void Fixture::join() {
    for (std::thread& thread : threads_)
        if (thread.joinable()) thread.join();
}

int setup(void** state) {
    *state = new Fixture;
    return 0;
}
int teardown(void** state) {
    delete static_cast<Fixture*>(*state);
    return 0;
}

// --- connecting by hand

void start_connect(Side& side, const SocketAddress& peer, std::span<const std::byte> data) {
    if (!side.id) side.make_id();
    assert_true(side.id->resolve({}, peer, 2000).has_value());
    side.make_qp();
    assert_true(side.id->connect(side.parameters(data)).has_value());
}

void accept(Side& side, std::unique_ptr<CmId> request, std::span<const std::byte> data) {
    side.id = std::move(request);
    assert_true(side.id->migrate(side.cm()).has_value());
    side.make_qp();
    assert_true(side.id->accept(side.parameters(data)).has_value());
}

const char* text_of(CmEventType type) {
    constexpr std::array kTexts{"connect_request", "established",  "rejected",      "unreachable",
                                "connect_error",   "disconnected", "device_removed"};
    static_assert(kTexts.size() == static_cast<std::size_t>(CmEventType::count_));
    return kTexts[static_cast<std::size_t>(type)];
}

CmEvent expect_event(CmChannel& channel, CmEventType type) {
    const auto end = patience_end();
    while (std::chrono::steady_clock::now() < end) {
        pollfd ready{channel.fd(), POLLIN, 0};
        ::poll(&ready, 1, 100);
        auto event = channel.get_event();
        if (!event) {
            assert_error(event, Errc::would_block);
            continue;
        }
        assert_string_equal(text_of(event->type), text_of(type));
        return std::move(*event);
    }
    std::printf("no event %s\n", text_of(type));
    assert_true(false);
    return {};
}

void expect_no_event(CmChannel& channel) {
    pollfd ready{channel.fd(), POLLIN, 0};
    assert_int_equal(::poll(&ready, 1, static_cast<int>(kQuiet.count())), 0);
    assert_error(channel.get_event(), Errc::would_block);
}

std::vector<std::byte> bytes_of(std::size_t length, unsigned seed) {
    std::vector<std::byte> bytes(length);
    for (std::size_t i = 0; i < length; ++i) bytes[i] = pattern(i, seed);
    return bytes;
}

// --- posting and polling

WorkRequest Post::request() const {
    WorkRequest request;
    request.wr_id = wr_id;
    request.opcode = opcode;
    request.flags = flags;
    request.flush_type = flush_type;
    request.rkey = remote.rkey;
    request.remote_address = remote.address;
    request.sges = sges;
    request.imm = imm;
    request.flush_length = flush_length;
    request.operand = operand;
    request.compare = compare;
    return request;
}

namespace {

/// Where the device has plain posts, every other one that can be is.
bool goes_plain(const Side& side, const Post& what) {
    static std::atomic<unsigned> eligible{0};  // tests post by several threads
    const bool plain = (what.opcode == Opcode::write || what.opcode == Opcode::read ||
                        what.opcode == Opcode::send) &&
                       what.sges.size() == 1 && !what.flags.has(SendFlag::inlined) &&
                       side.qp->is_plain(what.sges[0].length);
    return plain && eligible++ % 2 == 0;
}

Status post_plainly(const Side& side, const Post& what) {
    PlainRequest request(what.opcode);
    request.wr_id = what.wr_id;
    request.flags = what.flags.bits();
    request.remote_address = what.remote.address;
    request.rkey = what.remote.rkey;
    request.sge = what.sges[0];
    if (what.opcode == Opcode::write) return side.qp->plain_write(request);
    return what.opcode == Opcode::read ? side.qp->plain_read(request)
                                       : side.qp->plain_send(request);
}

}  // namespace

Status post(const Side& side, const Post& what) {
    if (goes_plain(side, what)) return post_plainly(side, what);
    const WorkRequest request = what.request();
    return side.qp->post_send({&request, 1});
}

Status post(const Side& side, const std::vector<Post>& batch, std::size_t* posted) {
    std::vector<WorkRequest> requests;
    for (const Post& one : batch) requests.push_back(one.request());
    return side.qp->post_send(requests, posted);
}

Status post_receive(const Side& side, std::uint64_t wr_id, std::vector<Sge> sges) {
    const ReceiveRequest request{wr_id, sges};
    if (side.resources->srq) return side.resources->srq->post_receive(request);
    return side.qp->post_receive(request);
}

void must_post(const Side& side, const Post& what) {
    assert_true(post(side, what).has_value());
}
void must_post(const Side& side, const std::vector<Post>& batch) {
    std::size_t posted = 0;
    assert_true(post(side, batch, &posted).has_value());
    assert_int_equal(posted, batch.size());
}
void must_post_receive(const Side& side, std::uint64_t wr_id, std::vector<Sge> sges) {
    assert_true(post_receive(side, wr_id, std::move(sges)).has_value());
}

std::optional<WorkCompletion> next_completion(CompletionQueue& cq) {
    const auto end = patience_end();
    WorkCompletion wc;
    do {
        const auto count = cq.poll({&wc, 1});
        if (!count) return std::nullopt;
        if (*count == 1) return wc;
        std::this_thread::yield();
    } while (std::chrono::steady_clock::now() < end);
    return std::nullopt;
}

WorkCompletion expect(CompletionQueue& cq, std::uint64_t wr_id, WcStatus status) {
    const auto wc = next_completion(cq);
    if (!wc) {
        std::printf("no completion: wr_id %llu\n", static_cast<unsigned long long>(wr_id));
        assert_true(wc.has_value());
    }
    if (wc->status != status || wc->wr_id != wr_id) {
        std::printf("wr_id %llu %s, expected wr_id %llu %s; then",
                    static_cast<unsigned long long>(wc->wr_id), wc_status_text(wc->status),
                    static_cast<unsigned long long>(wr_id), wc_status_text(status));
        WorkCompletion more;
        for (int i = 0; i < 60 && cq.poll({&more, 1}).value_or(0) == 1; ++i)
            std::printf(" %llu %s,", static_cast<unsigned long long>(more.wr_id),
                        wc_status_text(more.status));
        std::printf("\n");
    }
    assert_string_equal(wc_status_text(wc->status), wc_status_text(status));
    assert_int_equal(wc->wr_id, wr_id);
    return *wc;
}

WorkCompletion expect_alike(CompletionQueue& cq, std::uint64_t wr_id, WcStatus status) {
    return subject().exact_errors ? expect(cq, wr_id, status) : expect_failure(cq, wr_id);
}

WorkCompletion expect_failure(CompletionQueue& cq, std::uint64_t wr_id) {
    const auto wc = next_completion(cq);
    assert_true(wc.has_value());
    assert_int_equal(wc->wr_id, wr_id);
    assert_int_not_equal(wc->status, WcStatus::success);
    return *wc;
}

void expect_nothing(CompletionQueue& cq) {
    const auto end = std::chrono::steady_clock::now() + kQuiet;
    WorkCompletion wc;
    do {
        const auto count = cq.poll({&wc, 1});
        assert_true(count.has_value());
        if (*count != 0)
            std::printf("unexpected completion: wr_id %llu %s\n",
                        static_cast<unsigned long long>(wc.wr_id), wc_status_text(wc.status));
        assert_int_equal(*count, 0);
        std::this_thread::yield();
    } while (std::chrono::steady_clock::now() < end);
}

void expect_refused(const Side& side, std::uint64_t wr_id, WcStatus status) {
    if (subject().acknowledges) {
        expect(side.send_cq(), wr_id, status);
        return;
    }
    expect_event(side.cm(), CmEventType::disconnected);
    WorkCompletion wc;
    while (side.send_cq().poll({&wc, 1}).value_or(0) == 1) assert_int_equal(wc.wr_id, wr_id);
}

void settle(const Side& side) {
    if (subject().acknowledges) return;
    must_post(side, {.wr_id = kSettling, .opcode = Opcode::read});
    expect(side.send_cq(), kSettling);
}

void expect_working(Pair& pair) {
    const Buffer& from = pair.active.buffer(16);
    const Buffer& to = pair.passive.buffer(16);
    from.fill_pattern(99);
    must_post(pair.active, {.wr_id = 4711, .sges = {from.sge()}, .remote = at(to)});
    expect(pair.active.send_cq(), 4711);
    settle(pair.active);
    assert_true(holds_pattern(to.data(), to.size(), 0, 99));
}

void assert_error(const Status& status, Errc code) {
    assert_false(status.has_value());
    assert_int_equal(status.error().code, code);
}

// --- main

int run_contract(int argc, char** argv) {
    const Group groups[] = {
        {"data", data_tests()},      {"queues", queue_tests()},
        {"errors", error_tests()},   {"receives", receive_tests()},
        {"atomics", atomic_tests()}, {"flush", flush_tests()},
        {"events", event_tests()},   {"connections", connection_tests()},
        {"memory", memory_tests()},  {"fork", fork_tests()},
    };
    int failed = 0;
    int run = 0;
    for (const Group& group : groups) {
        bool wanted = argc < 2;
        for (int i = 1; i < argc; ++i) wanted |= std::string_view(argv[i]) == group.name;
        if (!wanted) continue;
        ++run;
        failed += _cmocka_run_group_tests(group.name, group.tests.data(), group.tests.size(),
                                          nullptr, nullptr);
    }
    if (run == 0) std::fprintf(stderr, "no such group of tests\n");
    return run == 0 || failed != 0 ? 1 : 0;
}

}  // namespace compat::contract
