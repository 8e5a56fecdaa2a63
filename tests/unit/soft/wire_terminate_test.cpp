// SPDX-License-Identifier: BSD-3-Clause
#include <cstring>

#include "core/device/soft/wire/ddp.hpp"
#include "core/device/soft/wire/terminate.hpp"
#include "tests/unit/soft/wire_frame.hpp"

namespace {

using namespace compat::core::soft::wire;
using namespace compat::test;

constexpr TerminateCode kCodes[] = {
#define COMPAT_NAME(name, layer, type, code, text) terminate::name,
    COMPAT_TERMINATE_CODES(COMPAT_NAME)
#undef COMPAT_NAME
};

Terminate parsed(const Frame& frame, bool own_peer = false) {
    const auto message = parse_terminate(frame.view(), own_peer);
    assert_true(message.has_value());
    return *message;
}

void assert_same(const Terminate& left, const Terminate& right) {
    assert_true(left.code == right.code);
    assert_int_equal(left.has_length, right.has_length);
    assert_int_equal(left.ddp_length, right.ddp_length);
    assert_int_equal(left.has_ddp_header, right.has_ddp_header);
    assert_bytes_equal(left.ddp_header, right.ddp_header);
    assert_int_equal(left.has_rdmap_header, right.has_rdmap_header);
    assert_bytes_equal(left.rdmap_header, right.rdmap_header);
    assert_int_equal(left.has_message_count, right.has_message_count);
    assert_int_equal(left.message_count, right.message_count);
}

Terminate about_write() {
    Terminate message{.code = terminate::ddp_tagged_invalid_stag,
                      .has_length = true,
                      .ddp_length = 18,
                      .has_ddp_header = true};
    encode_header(TaggedHeader{.stag = 0xAABBCCDD, .offset = 0x1000}, message.ddp_header);
    return message;
}

Terminate about_read() {
    Terminate message{.code = terminate::rdmap_access,
                      .has_length = true,
                      .ddp_length = 46,
                      .has_ddp_header = true,
                      .has_rdmap_header = true};
    encode_header(UntaggedHeader{.opcode = RdmapOpcode::read_request, .queue = 1, .msn = 9},
                  message.ddp_header);
    encode(ReadRequest{1, 2, 3, 4, 5}, message.rdmap_header);
    return message;
}

void bare_codes_have_these_bytes(void**) {
    const struct {
        TerminateCode code;
        std::string_view bytes;
    } rows[] = {
        {terminate::mpa_crc, "20020000"},           {terminate::mpa_no_rtr, "20070000"},
        {terminate::rdmap_opcode, "02060000"},      {terminate::ddp_untagged_no_buffer, "12020000"},
        {terminate::ddp_tagged_bounds, "11010000"}, {terminate::rdmap_protection, "01ff0000"},
    };
    for (const auto& row : rows) {
        Frame out;
        assert_encodes(encode_terminate({.code = row.code}, out.space()), out, row.bytes);
        assert_true(parsed(out).code == row.code);
    }
}

void terminate_about_a_write_has_these_bytes(void**) {
    Frame out;
    assert_encodes(encode_terminate(about_write(), out.space()), out,
                   "1100c000 0012 c140 aabbccdd 0000000000001000");
    assert_same(parsed(out), about_write());
    assert_int_equal(parsed(out).ddp_header_bytes(), 14);
}

void terminate_about_a_read_has_these_bytes(void**) {
    Frame out;
    assert_encodes(encode_terminate(about_read(), out.space()), out,
                   "0102e000 002e 4141 00000000 00000001 00000009 00000000 "
                   "00000001 0000000000000002 00000003 00000004 0000000000000005");
    assert_same(parsed(out), about_read());
    assert_int_equal(parsed(out).ddp_header_bytes(), 18);
}

void message_count_comes_last_and_is_read_from_our_peers_only(void**) {
    for (Terminate message : {Terminate{.code = terminate::mpa_crc}, about_write(), about_read()}) {
        Frame without;
        without.size = encode_terminate(message, without.space());
        message.has_message_count = true;
        message.message_count = 0x01020304;
        Frame out;
        out.size = encode_terminate(message, out.space());
        assert_bytes_equal(out.view(), (without + hex("01020304")).view());
        assert_same(parsed(out, true), message);
        assert_false(parsed(out, false).has_message_count);
        assert_int_equal(parsed(out, false).message_count, 0);
        assert_false(parsed(without, true).has_message_count);
    }
}

void every_known_code_survives_with_and_without_headers(void**) {
    for (const TerminateCode code : kCodes)
        for (Terminate message : {Terminate{}, about_write(), about_read()}) {
            message.code = code;
            Frame out;
            out.size = encode_terminate(message, out.space());
            assert_true(out.size != 0 && out.size <= kMaxTerminateBytes);
            assert_same(parsed(out), message);
        }
}

void every_known_code_has_words(void**) {
    for (const TerminateCode code : kCodes)
        assert_string_not_equal(terminate_text(code), "unknown terminate code");
    assert_string_equal(terminate_text({3, 0, 0}), "unknown terminate code");
}

void known_codes_are_all_different(void**) {
    for (const TerminateCode& left : kCodes)
        for (const TerminateCode& right : kCodes) assert_int_equal(left == right, &left == &right);
}

// What Linux siw sends: nibbles of the first byte and the header bits at the wrong end.
void swapped_form_of_siw_is_understood(void**) {
    const Terminate write = parsed(hex("11000300 0004 c140 aabbccdd 0000000000001000"));
    assert_true(write.code == terminate::ddp_tagged_invalid_stag);
    assert_true(write.has_length && write.has_ddp_header && !write.has_rdmap_header);
    assert_int_equal(write.ddp_length, 4);
    assert_true(parse_header(std::span(write.ddp_header).first(14)).header.tagged_header.stag ==
                0xAABBCCDD);
    const Terminate no_buffer =
        parsed(hex("21020300 0004 4143 00000000 00000000 00000005 00000000"));
    assert_true(no_buffer.code == terminate::ddp_untagged_no_buffer);
    assert_true(no_buffer.has_ddp_header);
    const Terminate read =
        parsed(hex("10020700 001c 4141 00000000 00000001 00000009 00000000 "
                   "00000001 0000000000000002 00000003 00000004 0000000000000005"));
    assert_true(read.code == terminate::rdmap_access);
    assert_bytes_equal(read.rdmap_header, about_read().rdmap_header);
    assert_true(parsed(hex("02020000")).code == terminate::mpa_crc);
    assert_true(parsed(hex("50060000")).code == (TerminateCode{5, 0, 6}));
}

void only_the_ambiguous_code_of_siw_reads_as_standard(void**) {
    assert_true(parsed(hex("20060000")).code == terminate::mpa_ird_too_small);
    assert_true(parsed(hex("02060000")).code == terminate::rdmap_opcode);
}

void less_than_a_control_word_is_nothing(void**) {
    const Frame frame = hex("200200");
    for (std::size_t size = 0; size <= frame.size; ++size)
        assert_false(parse_terminate(frame.view().first(size), true).has_value());
}

void parts_that_are_cut_short_read_as_absent(void**) {
    Frame out;
    out.size = encode_terminate(about_read(), out.space());
    for (std::size_t size = 4; size < out.size; ++size) {
        const auto message = parse_terminate(out.view().first(size), true);
        assert_true(message.has_value());
        assert_true(message->code == terminate::rdmap_access);
        assert_int_equal(message->has_length, size >= 6);
        assert_int_equal(message->has_ddp_header, size >= 24);
        assert_false(message->has_rdmap_header);
        assert_false(message->has_message_count);
    }
}

void too_small_an_output_is_not_touched(void**) {
    Terminate message = about_read();
    message.has_message_count = true;
    Frame out;
    const std::size_t whole = encode_terminate(message, out.space());
    assert_int_equal(whole, kMaxTerminateBytes);
    Frame untouched;
    for (std::size_t space = 0; space < whole; ++space)
        assert_int_equal(encode_terminate(message, untouched.space().first(space)), 0);
    assert_int_equal(untouched.bytes[0], 0);
}

void rdmap_header_alone_is_left_out(void**) {
    Frame out;
    assert_encodes(
        encode_terminate({.code = terminate::rdmap_access, .has_rdmap_header = true}, out.space()),
        out, "01020000");
}

}  // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(bare_codes_have_these_bytes),
        cmocka_unit_test(terminate_about_a_write_has_these_bytes),
        cmocka_unit_test(terminate_about_a_read_has_these_bytes),
        cmocka_unit_test(message_count_comes_last_and_is_read_from_our_peers_only),
        cmocka_unit_test(every_known_code_survives_with_and_without_headers),
        cmocka_unit_test(every_known_code_has_words),
        cmocka_unit_test(known_codes_are_all_different),
        cmocka_unit_test(swapped_form_of_siw_is_understood),
        cmocka_unit_test(only_the_ambiguous_code_of_siw_reads_as_standard),
        cmocka_unit_test(less_than_a_control_word_is_nothing),
        cmocka_unit_test(parts_that_are_cut_short_read_as_absent),
        cmocka_unit_test(too_small_an_output_is_not_touched),
        cmocka_unit_test(rdmap_header_alone_is_left_out),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
