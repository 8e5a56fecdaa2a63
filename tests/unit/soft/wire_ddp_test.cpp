// SPDX-License-Identifier: BSD-3-Clause
#include <cstring>
#include <limits>

#include "core/device/soft/wire/ddp.hpp"
#include "tests/unit/soft/wire_frame.hpp"

namespace {

using namespace compat::core::soft::wire;
using namespace compat::test;

// What the specifications say of every opcode, written out a second time.
struct Expected {
    RdmapOpcode opcode;
    bool tagged;
    std::uint32_t queue;
    std::size_t content;
};
constexpr Expected kExpected[] = {
    {RdmapOpcode::write, true, 0, 0},
    {RdmapOpcode::read_request, false, 1, 28},
    {RdmapOpcode::read_response, true, 0, 0},
    {RdmapOpcode::send, false, 0, 0},
    {RdmapOpcode::send_invalidate, false, 0, 0},
    {RdmapOpcode::send_solicited, false, 0, 0},
    {RdmapOpcode::send_solicited_invalidate, false, 0, 0},
    {RdmapOpcode::terminate, false, 2, 0},
    {RdmapOpcode::immediate, false, 0, 8},
    {RdmapOpcode::immediate_solicited, false, 0, 8},
    {RdmapOpcode::atomic_request, false, 1, 52},
    {RdmapOpcode::atomic_response, false, 3, 12},
    {RdmapOpcode::flush_request, false, 1, 28},
    {RdmapOpcode::flush_response, false, 3, 8},
    {RdmapOpcode::presence, false, 3, 48},
};

void assert_violates(const std::optional<TerminateCode>& violation, TerminateCode expected) {
    assert_true(violation.has_value());
    assert_string_equal(terminate_text(*violation), terminate_text(expected));
    assert_true(*violation == expected);
}

void assert_headers_equal(const TaggedHeader& left, const TaggedHeader& right) {
    assert_int_equal(left.opcode, right.opcode);
    assert_int_equal(left.last, right.last);
    assert_int_equal(left.extension, right.extension);
    assert_int_equal(left.stag, right.stag);
    assert_int_equal(left.offset, right.offset);
}

void assert_headers_equal(const UntaggedHeader& left, const UntaggedHeader& right) {
    assert_int_equal(left.opcode, right.opcode);
    assert_int_equal(left.last, right.last);
    assert_int_equal(left.extension, right.extension);
    assert_int_equal(left.word, right.word);
    assert_int_equal(left.queue, right.queue);
    assert_int_equal(left.msn, right.msn);
    assert_int_equal(left.message_offset, right.message_offset);
}

UntaggedHeader untagged(RdmapOpcode opcode) {
    UntaggedHeader header;
    header.opcode = opcode;
    header.queue = kExpected[static_cast<std::size_t>(opcode)].queue;
    return header;
}

Frame segment(const UntaggedHeader& header, std::size_t payload_bytes) {
    Frame frame;
    frame.size = encode_header(header, frame.space()) + payload_bytes;
    return frame;
}

void tagged_headers_have_these_bytes(void**) {
    Frame out;
    assert_encodes(encode_header(TaggedHeader{}, out.space()), out,
                   "c140 00000000 0000000000000000");
    const TaggedHeader write{.last = false, .stag = 0x01020304, .offset = 0x1122334455667788};
    assert_encodes(encode_header(write, out.space()), out, "8140 01020304 1122334455667788");
    const TaggedHeader response{.opcode = RdmapOpcode::read_response,
                                .stag = 0xFFFFFFFF,
                                .offset = std::numeric_limits<std::uint64_t>::max()};
    assert_encodes(encode_header(response, out.space()), out, "c142 ffffffff ffffffffffffffff");
}

void untagged_headers_have_these_bytes(void**) {
    Frame out;
    assert_encodes(encode_header(UntaggedHeader{}, out.space()), out,
                   "4143 00000000 00000000 00000001 00000000");
    const UntaggedHeader middle{.opcode = RdmapOpcode::send_solicited_invalidate,
                                .last = false,
                                .word = 0x0A0B0C0D,
                                .msn = 0xFFFFFFFF,
                                .message_offset = 0x00010000};
    assert_encodes(encode_header(middle, out.space()), out,
                   "0146 0a0b0c0d 00000000 ffffffff 00010000");
    UntaggedHeader announced = untagged(RdmapOpcode::immediate);
    announced.extension = true;
    assert_encodes(encode_header(announced, out.space()), out,
                   "4158 00000000 00000000 00000001 00000000");
    assert_encodes(encode_header(untagged(RdmapOpcode::terminate), out.space()), out,
                   "4147 00000000 00000002 00000001 00000000");
    assert_encodes(encode_header(untagged(RdmapOpcode::flush_response), out.space()), out,
                   "414d 00000000 00000003 00000001 00000000");
}

void headers_are_not_encoded_into_too_little_space(void**) {
    Frame out;
    assert_int_equal(encode_header(TaggedHeader{}, out.space().first(13)), 0);
    assert_int_equal(encode_header(UntaggedHeader{}, out.space().first(17)), 0);
    assert_int_equal(out.bytes[0], 0);
}

void header_bytes_follow_the_tag_bit(void**) {
    for (unsigned first = 0; first < 256; ++first)
        assert_int_equal(header_bytes(std::byte(first)), first >= 0x80 ? 14 : 18);
}

void any_header_survives_encoding_and_parsing(void**) {
    Random random(4);
    for (int round = 0; round < 20000; ++round) {
        const Expected& expected = kExpected[random.below(std::size(kExpected))];
        Frame frame;
        if (expected.tagged) {
            const TaggedHeader header{expected.opcode, random.flip(), random.flip(),
                                      random.any<std::uint32_t>(), random.any<std::uint64_t>()};
            frame.size = encode_header(header, frame.space());
            const auto parsed = parse_header(frame.view());
            assert_false(parsed.violation.has_value());
            assert_true(parsed.header.tagged);
            assert_headers_equal(parsed.header.tagged_header, header);
        } else {
            UntaggedHeader header{expected.opcode,
                                  random.flip(),
                                  random.flip(),
                                  random.any<std::uint32_t>(),
                                  expected.queue,
                                  random.any<std::uint32_t>(),
                                  random.any<std::uint32_t>()};
            if (expected.content != 0) {
                header.last = true;
                header.message_offset = 0;
            }
            frame.size = encode_header(header, frame.space());
            const auto parsed = parse_header(frame.view());
            assert_false(parsed.violation.has_value());
            assert_false(parsed.header.tagged);
            assert_headers_equal(parsed.header.untagged_header, header);
        }
        assert_int_equal(parse_header(frame.view()).header.opcode(), expected.opcode);
        assert_int_equal(parse_header(frame.view()).header.bytes(), frame.size);
    }
}

void short_headers_are_length_errors(void**) {
    assert_violates(parse_header({}).violation, terminate::mpa_length);
    Frame frame;
    frame.size = encode_header(TaggedHeader{}, frame.space());
    for (std::size_t size = 0; size < frame.size; ++size)
        assert_violates(parse_segment(frame.view().first(size)).violation, terminate::mpa_length);
    frame.size = encode_header(UntaggedHeader{}, frame.space());
    for (std::size_t size = 0; size < frame.size; ++size)
        assert_violates(parse_segment(frame.view().first(size)).violation, terminate::mpa_length);
}

void each_wrong_version_is_named(void**) {
    for (unsigned version = 0; version < 4; ++version) {
        if (version == 1) continue;
        Frame tagged;
        tagged.size = encode_header(TaggedHeader{}, tagged.space());
        Frame plain;
        plain.size = encode_header(UntaggedHeader{}, plain.space());
        Frame rdmap = tagged;
        tagged.bytes[0] = std::byte(0xC0 | version);
        plain.bytes[0] = std::byte(0x40 | version);
        rdmap.bytes[1] = std::byte(version << 6);
        assert_violates(parse_header(tagged.view()).violation, terminate::ddp_tagged_version);
        assert_violates(parse_header(plain.view()).violation, terminate::ddp_untagged_version);
        assert_violates(parse_header(rdmap.view()).violation, terminate::rdmap_version);
    }
}

void opcodes_pass_with_their_own_tag_bit_only(void**) {
    for (unsigned opcode = 0; opcode < 16; ++opcode)
        for (const bool tagged : {false, true}) {
            const bool known = opcode < std::size(kExpected);
            Frame frame;
            frame.size = 18;
            frame.bytes[0] = std::byte(tagged ? 0xC1 : 0x41);
            frame.bytes[1] = std::byte(0x40 | opcode);
            if (known) frame.bytes[9] = std::byte(kExpected[opcode].queue);
            const auto parsed = parse_header(frame.view());
            if (known && kExpected[opcode].tagged == tagged)
                assert_false(parsed.violation.has_value());
            else
                assert_violates(parsed.violation, terminate::rdmap_opcode);
        }
}

void opcodes_pass_on_their_own_queue_only(void**) {
    for (const Expected& expected : kExpected) {
        if (expected.tagged || expected.opcode == RdmapOpcode::terminate) continue;
        for (std::uint32_t queue : {0U, 1U, 2U, 3U, 4U, 0xFFFFFFFFU}) {
            UntaggedHeader header = untagged(expected.opcode);
            header.queue = queue;
            const auto parsed = parse_header(segment(header, 0).view());
            if (queue == expected.queue)
                assert_false(parsed.violation.has_value());
            else
                assert_violates(parsed.violation, terminate::ddp_untagged_queue);
        }
    }
}

void terminate_passes_whatever_its_header_says(void**) {
    UntaggedHeader header = untagged(RdmapOpcode::terminate);
    header.queue = 7;
    header.last = false;
    header.msn = 99;
    header.message_offset = 5;
    assert_false(parse_segment(segment(header, 4).view()).violation.has_value());
}

void messages_of_fixed_size_must_be_one_segment_of_that_size(void**) {
    for (const Expected& expected : kExpected) {
        assert_int_equal(fixed_content_bytes(expected.opcode), expected.content);
        if (expected.content == 0) continue;
        UntaggedHeader header = untagged(expected.opcode);
        const Frame exact = segment(header, expected.content);
        const auto parsed = parse_segment(exact.view());
        assert_false(parsed.violation.has_value());
        assert_int_equal(parsed.segment.payload.size(), expected.content);
        assert_violates(parse_segment(segment(header, expected.content + 1).view()).violation,
                        terminate::ddp_untagged_too_long);
        assert_violates(parse_segment(segment(header, expected.content - 1).view()).violation,
                        terminate::rdmap_stream_catastrophe);
        header.last = false;
        assert_violates(parse_header(segment(header, expected.content).view()).violation,
                        terminate::ddp_untagged_offset);
        header.last = true;
        header.message_offset = 4;
        assert_violates(parse_header(segment(header, expected.content).view()).violation,
                        terminate::ddp_untagged_offset);
    }
}

void reserved_bits_are_ignored_but_ours_is_reported(void**) {
    Frame frame;
    frame.size = encode_header(UntaggedHeader{}, frame.space());
    frame.bytes[0] |= std::byte{0x3C};
    frame.bytes[1] |= std::byte{0x20};
    assert_false(parse_header(frame.view()).violation.has_value());
    assert_false(parse_header(frame.view()).header.extension());
    frame.bytes[1] |= std::byte{0x10};
    assert_true(parse_header(frame.view()).header.extension());
}

void payload_is_what_follows_the_header(void**) {
    Frame tagged;
    tagged.size = encode_header(TaggedHeader{.stag = 5}, tagged.space());
    tagged = tagged + ascii("tagged");
    const auto write = parse_segment(tagged.view());
    assert_false(write.violation.has_value());
    assert_bytes_equal(write.segment.payload, ascii("tagged").view());
    assert_ptr_equal(write.segment.payload.data(), tagged.bytes.data() + 14);
    Frame plain;
    plain.size = encode_header(UntaggedHeader{}, plain.space());
    plain = plain + ascii("plain");
    const auto send = parse_segment(plain.view());
    assert_bytes_equal(send.segment.payload, ascii("plain").view());
    plain.size = 18;
    assert_true(parse_segment(plain.view()).segment.payload.empty());
}

// ---- contents -----------------------------------------------------------------------------------

void read_request_has_these_bytes(void**) {
    const ReadRequest request{0x01020304, 0x1112131415161718, 0x21222324, 0x31323334,
                              0x4142434445464748};
    Frame out;
    assert_encodes(encode(request, out.space()), out,
                   "01020304 1112131415161718 21222324 31323334 4142434445464748");
    assert_true(parse_read_request(out.view()) == request);
}

void atomic_requests_have_these_bytes(void**) {
    Frame out;
    const AtomicRequest add{
        .request_id = 7, .stag = 0xAABBCCDD, .offset = 0x1000, .add_swap_data = 5};
    assert_encodes(encode(add, out.space()), out,
                   "00000000 00000007 aabbccdd 0000000000001000 0000000000000005 "
                   "0000000000000000 0000000000000000 0000000000000000");
    assert_true(parse_atomic_request(out.view()) == add);
    const AtomicRequest swap{AtomicOpcode::compare_swap, 8, 1, 2, 3, ~std::uint64_t{0}, 4,
                             ~std::uint64_t{0}};
    assert_encodes(encode(swap, out.space()), out,
                   "00000002 00000008 00000001 0000000000000002 0000000000000003 "
                   "ffffffffffffffff 0000000000000004 ffffffffffffffff");
    assert_true(parse_atomic_request(out.view()) == swap);
}

void atomic_operations_other_than_add_and_swap_are_refused(void**) {
    Frame out;
    out.size = encode(AtomicRequest{}, out.space());
    for (unsigned operation = 0; operation < 16; ++operation) {
        out.bytes[3] = std::byte(operation);
        const bool known = operation == 0 || operation == 2;
        assert_int_equal(parse_atomic_request(out.view()).has_value(), known);
    }
    out.bytes[3] = std::byte{0xF2};  // bits above the operation are reserved
    assert_true(parse_atomic_request(out.view())->operation == AtomicOpcode::compare_swap);
}

void atomic_response_has_these_bytes(void**) {
    const AtomicResponse response{0x01020304, 0x1112131415161718};
    Frame out;
    assert_encodes(encode(response, out.space()), out, "01020304 1112131415161718");
    assert_true(parse_atomic_response(out.view()) == response);
}

void immediate_of_verbs_takes_the_first_four_bytes(void**) {
    Frame out;
    assert_encodes(encode_immediate(immediate_of_verbs(0x01020304), out.space()), out,
                   "01020304 00000000");
    const auto data = parse_immediate(out.view());
    assert_true(data.has_value());
    assert_int_equal(verbs_of_immediate(*data), 0x01020304);
    assert_encodes(encode_immediate(0x1112131415161718, out.space()), out, "1112131415161718");
    assert_int_equal(*parse_immediate(out.view()), 0x1112131415161718);
}

void flush_request_has_the_shape_of_a_read_request(void**) {
    const FlushRequest request{0x01020304, 0x1112131415161718, FlushType::persistent, 0x31323334,
                               0x4142434445464748};
    Frame out;
    assert_encodes(encode(request, out.space()), out,
                   "01020304 1112131415161718 00000001 31323334 4142434445464748");
    assert_true(parse_flush_request(out.view()) == request);
    out.bytes[15] = std::byte{2};
    assert_false(parse_flush_request(out.view()).has_value());
    out.bytes[12] = std::byte{0x80};
    out.bytes[15] = std::byte{0};
    assert_false(parse_flush_request(out.view()).has_value());
}

void flush_response_has_these_bytes(void**) {
    const FlushResponse response{0x01020304, 5};
    Frame out;
    assert_encodes(encode(response, out.space()), out, "01020304 00000005");
    assert_true(parse_flush_response(out.view()) == response);
}

void presence_has_these_bytes(void**) {
    const Presence presence{.process = 0x01020304,
                            .descriptor = 5,
                            .inode = 0x1112131415161718,
                            .nonce = 0x2122232425262728,
                            .nonce_address = 0x3132333435363738,
                            .slot = 0x41424344,
                            .epoch = 0x51525354,
                            .pd = 0x61626364,
                            .access = 7};
    Frame out;
    assert_encodes(encode(presence, out.space()), out,
                   "01020304 00000005 1112131415161718 2122232425262728 3132333435363738 "
                   "41424344 51525354 61626364 00000007");
    assert_true(parse_presence(out.view()) == presence);
}

void contents_of_another_size_are_refused(void**) {
    Frame out;
    for (std::size_t size = 0; size <= 60; ++size) {
        const auto bytes = out.space().first(size);
        assert_int_equal(parse_read_request(bytes).has_value(), size == 28);
        assert_int_equal(parse_atomic_request(bytes).has_value(), size == 52);
        assert_int_equal(parse_atomic_response(bytes).has_value(), size == 12);
        assert_int_equal(parse_immediate(bytes).has_value(), size == 8);
        assert_int_equal(parse_flush_request(bytes).has_value(), size == 28);
        assert_int_equal(parse_flush_response(bytes).has_value(), size == 8);
        assert_int_equal(parse_presence(bytes).has_value(), size == 48);
        assert_int_equal(encode(ReadRequest{}, bytes), size < 28 ? 0 : 28);
        assert_int_equal(encode(AtomicRequest{}, bytes), size < 52 ? 0 : 52);
        assert_int_equal(encode(AtomicResponse{}, bytes), size < 12 ? 0 : 12);
        assert_int_equal(encode_immediate(0, bytes), size < 8 ? 0 : 8);
        assert_int_equal(encode(FlushRequest{}, bytes), size < 28 ? 0 : 28);
        assert_int_equal(encode(FlushResponse{}, bytes), size < 8 ? 0 : 8);
        assert_int_equal(encode(Presence{}, bytes), size < 48 ? 0 : 48);
    }
}

void every_opcode_has_words_of_its_own(void**) {
    for (const Expected& left : kExpected)
        for (const Expected& right : kExpected) {
            const bool same = std::strcmp(opcode_text(left.opcode), opcode_text(right.opcode)) == 0;
            assert_int_equal(same, left.opcode == right.opcode);
        }
    assert_string_equal(opcode_text(RdmapOpcode{15}), "unknown opcode");
}

}  // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(tagged_headers_have_these_bytes),
        cmocka_unit_test(untagged_headers_have_these_bytes),
        cmocka_unit_test(headers_are_not_encoded_into_too_little_space),
        cmocka_unit_test(header_bytes_follow_the_tag_bit),
        cmocka_unit_test(any_header_survives_encoding_and_parsing),
        cmocka_unit_test(short_headers_are_length_errors),
        cmocka_unit_test(each_wrong_version_is_named),
        cmocka_unit_test(opcodes_pass_with_their_own_tag_bit_only),
        cmocka_unit_test(opcodes_pass_on_their_own_queue_only),
        cmocka_unit_test(terminate_passes_whatever_its_header_says),
        cmocka_unit_test(messages_of_fixed_size_must_be_one_segment_of_that_size),
        cmocka_unit_test(reserved_bits_are_ignored_but_ours_is_reported),
        cmocka_unit_test(payload_is_what_follows_the_header),
        cmocka_unit_test(read_request_has_these_bytes),
        cmocka_unit_test(atomic_requests_have_these_bytes),
        cmocka_unit_test(atomic_operations_other_than_add_and_swap_are_refused),
        cmocka_unit_test(atomic_response_has_these_bytes),
        cmocka_unit_test(immediate_of_verbs_takes_the_first_four_bytes),
        cmocka_unit_test(flush_request_has_the_shape_of_a_read_request),
        cmocka_unit_test(flush_response_has_these_bytes),
        cmocka_unit_test(presence_has_these_bytes),
        cmocka_unit_test(contents_of_another_size_are_refused),
        cmocka_unit_test(every_opcode_has_words_of_its_own),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
