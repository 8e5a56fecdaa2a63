// SPDX-License-Identifier: BSD-3-Clause
// core/engine/splitter.hpp: every byte of an operation goes to its place, in as many requests as
// the device needs.
#include "core/engine/splitter.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include "tests/support/cmocka.hpp"

namespace compat::core {
namespace {

constexpr SplitLimits kLimits{.max_sge = 3, .max_sge_read = 1, .max_message = 1000};

struct Pieces {
    std::vector<WorkRequest> requests;
    std::vector<std::vector<Sge>> sges;
};

Pieces split(const Operation& operation, const SplitLimits& limits) {
    Pieces pieces;
    std::array<Sge, kMaxSegments> storage;
    Splitter splitter(operation, limits);
    while (!splitter.finished()) {
        WorkRequest request = splitter.next(operation, storage);
        pieces.sges.emplace_back(request.sges.begin(), request.sges.end());
        request.sges = {};
        pieces.requests.push_back(request);
    }
    return pieces;
}

std::uint64_t bytes_of(const std::vector<Sge>& sges) {
    std::uint64_t bytes = 0;
    for (const Sge& sge : sges) bytes += sge.length;
    return bytes;
}

void* at(std::uintptr_t address) {
    return reinterpret_cast<void*>(address);
}

void one_buffer_to_one_range_is_one_request(void**) {
    const LocalBuffer local{at(0x1000), 500, 7};
    const RemoteRange remote{0x9000, 500, 42};
    const Operation operation{
        .opcode = Opcode::write, .local = {&local, 1}, .remote = {&remote, 1}, .length = 500};
    const Pieces pieces = split(operation, kLimits);
    assert_int_equal(pieces.requests.size(), 1);
    assert_int_equal(pieces.requests[0].opcode, Opcode::write);
    assert_int_equal(pieces.requests[0].remote_address, 0x9000);
    assert_int_equal(pieces.requests[0].rkey, 42);
    assert_int_equal(pieces.sges[0].size(), 1);
    assert_ptr_equal(pieces.sges[0][0].address, at(0x1000));
    assert_int_equal(pieces.sges[0][0].length, 500);
    assert_int_equal(pieces.sges[0][0].lkey, 7);
}

void nothing_is_one_request_that_still_names_its_target(void**) {
    const RemoteRange remote{0x9000, 0, 42};
    const Operation operation{.opcode = Opcode::read, .remote = {&remote, 1}};
    const Pieces pieces = split(operation, kLimits);
    assert_int_equal(pieces.requests.size(), 1);
    assert_int_equal(pieces.requests[0].rkey, 42);
    assert_int_equal(pieces.sges[0].size(), 0);
}

void counting_the_longest_operation_takes_no_time(void**) {
    constexpr std::uint64_t kLength = UINT64_MAX / 2;
    const LocalBuffer local{at(0x1000), kLength, 7};
    const RemoteRange remote[] = {{0x9000, 2500, 42}, {0x9000, kLength - 2500, 42}};
    const Operation operation{
        .opcode = Opcode::write, .local = {&local, 1}, .remote = remote, .length = kLength};
    const std::uint64_t second = (kLength - 2500 + 999) / 1000;
    assert_int_equal(Splitter::count(operation, kLimits), 3 + second);
}

void a_longer_message_than_the_device_takes_is_cut(void**) {
    const LocalBuffer local{at(0x1000), 2500, 7};
    const RemoteRange remote{0x9000, 2500, 42};
    const Operation operation{
        .opcode = Opcode::write, .local = {&local, 1}, .remote = {&remote, 1}, .length = 2500};
    const Pieces pieces = split(operation, kLimits);
    assert_int_equal(pieces.requests.size(), 3);
    assert_int_equal(bytes_of(pieces.sges[2]), 500);
    assert_int_equal(pieces.requests[2].remote_address, 0x9000 + 2000);
    assert_ptr_equal(pieces.sges[2][0].address, at(0x1000 + 2000));
}

void only_the_last_piece_of_a_write_with_data_carries_the_data(void**) {
    const LocalBuffer local{at(0x1000), 1001, 7};
    const RemoteRange remote{0x9000, 1001, 42};
    const Operation operation{.opcode = Opcode::write_imm,
                              .local = {&local, 1},
                              .remote = {&remote, 1},
                              .length = 1001,
                              .imm = 99};
    const Pieces pieces = split(operation, kLimits);
    assert_int_equal(pieces.requests.size(), 2);
    assert_int_equal(pieces.requests[0].opcode, Opcode::write);
    assert_int_equal(pieces.requests[1].opcode, Opcode::write_imm);
    assert_int_equal(pieces.requests[1].imm, 99);
}

void reads_keep_to_the_sges_that_a_read_may_have(void**) {
    const LocalBuffer local[] = {{at(0x1000), 10, 1}, {at(0x2000), 10, 2}};
    const RemoteRange remote{0x9000, 20, 42};
    const Operation operation{
        .opcode = Opcode::read, .local = local, .remote = {&remote, 1}, .length = 20};
    const Pieces pieces = split(operation, kLimits);
    assert_int_equal(pieces.requests.size(), 2);
    assert_int_equal(pieces.requests[1].remote_address, 0x9000 + 10);
    assert_int_equal(pieces.sges[1][0].lkey, 2);
}

void a_buffer_beyond_four_gigabytes_is_cut_into_sges(void**) {
    constexpr std::uint64_t kLong = (std::uint64_t{1} << 32) + 5;
    const LocalBuffer local{at(0x1000), kLong, 7};
    const RemoteRange remote{0x9000, kLong, 42};
    const Operation operation{
        .opcode = Opcode::write, .local = {&local, 1}, .remote = {&remote, 1}, .length = kLong};
    const Pieces pieces =
        split(operation, {.max_sge = 4, .max_sge_read = 4, .max_message = UINT64_MAX});
    assert_int_equal(pieces.requests.size(), 1);
    assert_int_equal(pieces.sges[0].size(), 3);
    assert_true(bytes_of(pieces.sges[0]) == kLong);
}

void a_commit_flushes_every_range_after_the_writes(void**) {
    const LocalBuffer local{at(0x1000), 30, 7};
    const RemoteRange remote[] = {{0x9000, 10, 1}, {0x9500, 0, 2}, {0xa000, 20, 3}};
    const Operation operation{.opcode = Opcode::write,
                              .flags = OpFlag::commit,
                              .local = {&local, 1},
                              .remote = remote,
                              .length = 30};
    const Pieces pieces = split(operation, kLimits);
    assert_int_equal(pieces.requests.size(), 4);
    for (const std::size_t flush : {2U, 3U}) {
        assert_int_equal(pieces.requests[flush].opcode, Opcode::flush);
        assert_int_equal(pieces.requests[flush].flush_type, FlushType::persistent);
    }
    assert_int_equal(pieces.requests[2].rkey, 1);
    assert_int_equal(pieces.requests[2].flush_length, 10);
    assert_int_equal(pieces.requests[3].rkey, 3);
    assert_int_equal(pieces.requests[3].remote_address, 0xa000);
    assert_int_equal(pieces.requests[3].flush_length, 20);
}

void a_delivered_write_ends_with_a_read_of_the_probe(void**) {
    SplitLimits limits = kLimits;
    limits.probe = {.remote_address = 0x7000, .rkey = 5, .sink = {at(0x3000), 1, 6}};
    const LocalBuffer local{at(0x1000), 1500, 7};
    const RemoteRange remote{0x9000, 1500, 42};
    Operation operation{.opcode = Opcode::write,
                        .flags = OpFlag::deliver,
                        .local = {&local, 1},
                        .remote = {&remote, 1},
                        .length = 1500};
    const Pieces pieces = split(operation, limits);
    assert_int_equal(Splitter::count(operation, limits), 3);
    assert_int_equal(pieces.requests.size(), 3);
    assert_int_equal(pieces.requests[1].opcode, Opcode::write);
    assert_int_equal(pieces.requests[2].opcode, Opcode::read);
    assert_int_equal(pieces.requests[2].remote_address, 0x7000);
    assert_int_equal(pieces.requests[2].rkey, 5);
    assert_int_equal(pieces.sges[2].size(), 1);
    assert_ptr_equal(pieces.sges[2][0].address, at(0x3000));
    assert_int_equal(pieces.sges[2][0].lkey, 6);
    // What brings its own answer needs none, nor does a device that says it by itself.
    assert_int_equal(Splitter::count(operation, kLimits), 2);
    operation.flags = {};
    assert_int_equal(Splitter::count(operation, limits), 2);
    operation.flags = OpFlag::deliver;
    operation.opcode = Opcode::read;
    assert_int_equal(Splitter::count(operation, limits), 2);
    const Operation nothing{.opcode = Opcode::write, .flags = OpFlag::deliver};
    assert_int_equal(Splitter::count(nothing, limits), 1);
}

void a_commit_of_nothing_flushes_nothing(void**) {
    const RemoteRange remote{0x9000, 0, 1};
    const Operation operation{
        .opcode = Opcode::write, .flags = OpFlag::commit, .remote = {&remote, 1}};
    assert_int_equal(Splitter::count(operation, kLimits), 1);
}

/// Cuts length into up to kMaxSegments parts.
template <class Part>
std::vector<Part> random_parts(std::mt19937& random, std::uint64_t length) {
    std::vector<Part> parts;
    std::uintptr_t address = 0x10000;
    while (length != 0 && parts.size() + 1 < kMaxSegments) {
        const std::uint64_t part = 1 + random() % length;
        Part next{};
        if constexpr (std::is_same_v<Part, LocalBuffer>)
            next = {at(address), part, static_cast<std::uint32_t>(parts.size())};
        else
            next = {address, part, static_cast<std::uint32_t>(parts.size())};
        parts.push_back(next);
        address += part + random() % 3;
        length -= part;
    }
    if (length != 0) parts.back().length += length;
    return parts;
}

std::uintptr_t local_byte(const std::vector<LocalBuffer>& parts, std::uint64_t offset) {
    for (const LocalBuffer& part : parts) {
        if (offset < part.length) return reinterpret_cast<std::uintptr_t>(part.address) + offset;
        offset -= part.length;
    }
    return 0;
}

std::uint64_t remote_byte(const std::vector<RemoteRange>& parts, std::uint64_t offset) {
    for (const RemoteRange& part : parts) {
        if (offset < part.length) return part.address + offset;
        offset -= part.length;
    }
    return 0;
}

void every_byte_goes_to_its_place_whatever_the_lists(void**) {
    std::mt19937 random(7204);
    for (int round = 0; round < 2000; ++round) {
        const std::uint64_t length = 1 + random() % 5000;
        const auto local = random_parts<LocalBuffer>(random, length);
        const auto remote = random_parts<RemoteRange>(random, length);
        const SplitLimits limits{.max_sge = 1 + static_cast<std::uint32_t>(random() % 5),
                                 .max_sge_read = 1,
                                 .max_message = 1 + random() % 3000};
        const Operation operation{
            .opcode = Opcode::write, .local = local, .remote = remote, .length = length};
        const Pieces pieces = split(operation, limits);
        assert_int_equal(pieces.requests.size(), Splitter::count(operation, limits));
        std::uint64_t offset = 0;
        for (std::size_t piece = 0; piece < pieces.requests.size(); ++piece) {
            assert_in_range(pieces.sges[piece].size(), 1, limits.max_sge);
            assert_in_range(bytes_of(pieces.sges[piece]), 1, limits.max_message);
            std::uint64_t to = pieces.requests[piece].remote_address;
            for (const Sge& sge : pieces.sges[piece]) {
                const auto from = reinterpret_cast<std::uintptr_t>(sge.address);
                for (std::uint32_t byte = 0; byte < sge.length; ++byte, ++offset, ++to) {
                    assert_true(from + byte == local_byte(local, offset));
                    assert_true(to == remote_byte(remote, offset));
                }
            }
        }
        assert_int_equal(offset, length);
    }
}

}  // namespace
}  // namespace compat::core

int main() {
    using namespace compat::core;
    const CMUnitTest tests[] = {
        cmocka_unit_test(one_buffer_to_one_range_is_one_request),
        cmocka_unit_test(nothing_is_one_request_that_still_names_its_target),
        cmocka_unit_test(counting_the_longest_operation_takes_no_time),
        cmocka_unit_test(a_longer_message_than_the_device_takes_is_cut),
        cmocka_unit_test(only_the_last_piece_of_a_write_with_data_carries_the_data),
        cmocka_unit_test(reads_keep_to_the_sges_that_a_read_may_have),
        cmocka_unit_test(a_buffer_beyond_four_gigabytes_is_cut_into_sges),
        cmocka_unit_test(a_commit_flushes_every_range_after_the_writes),
        cmocka_unit_test(a_delivered_write_ends_with_a_read_of_the_probe),
        cmocka_unit_test(a_commit_of_nothing_flushes_nothing),
        cmocka_unit_test(every_byte_goes_to_its_place_whatever_the_lists),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
