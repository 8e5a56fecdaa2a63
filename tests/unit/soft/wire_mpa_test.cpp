// SPDX-License-Identifier: BSD-3-Clause
#include "core/device/soft/wire/crc32c.hpp"
#include "core/device/soft/wire/mpa.hpp"
#include "tests/unit/soft/wire_frame.hpp"

namespace {

using namespace compat::core::soft::wire;
using namespace compat::test;

constexpr std::string_view kRequestKey = "4d504120494420526571204672616d65";
constexpr std::string_view kReplyKey = "4d504120494420526570204672616d65";

Frame request(std::string_view rest) {
    return hex(kRequestKey) + hex(rest);
}
Frame reply(std::string_view rest) {
    return hex(kReplyKey) + hex(rest);
}

void assert_malformed(const Frame& frame, bool expect_reply) {
    const auto result = parse_start_frame(frame.view(), expect_reply);
    assert_int_equal(result.status, Parse::malformed);
    assert_int_equal(result.consumed, 0);
    assert_non_null(result.reason);
}

StartFrame parse_complete(const Frame& frame, bool expect_reply) {
    const auto result = parse_start_frame(frame.view(), expect_reply);
    assert_int_equal(result.status, Parse::complete);
    assert_int_equal(result.consumed, frame.size);
    assert_int_equal(result.frame.reply, expect_reply);
    return result.frame;
}

void assert_frames_equal(const StartFrame& left, const StartFrame& right) {
    assert_int_equal(left.reply, right.reply);
    assert_int_equal(left.markers, right.markers);
    assert_int_equal(left.crc, right.crc);
    assert_int_equal(left.rejected, right.rejected);
    assert_int_equal(left.revision, right.revision);
    assert_int_equal(left.extension, right.extension);
    assert_int_equal(left.enhanced, right.enhanced);
    assert_int_equal(left.peer_to_peer, right.peer_to_peer);
    assert_int_equal(left.rtr_send, right.rtr_send);
    assert_int_equal(left.rtr_write, right.rtr_write);
    assert_int_equal(left.rtr_read, right.rtr_read);
    assert_int_equal(left.ird, right.ird);
    assert_int_equal(left.ord, right.ord);
    assert_bytes_equal(left.private_data, right.private_data);
}

// ---- start-up frames ----------------------------------------------------------------------------

void our_request_has_these_bytes(void**) {
    const Frame user = ascii("hi");
    const StartFrame frame{.crc = true,
                           .extension = kExtensionOffer,
                           .enhanced = true,
                           .peer_to_peer = true,
                           .rtr_write = true,
                           .rtr_read = true,
                           .ird = 128,
                           .ord = 16,
                           .private_data = user.view()};
    Frame out;
    out.size = encode_start_frame(frame, out.space());
    assert_bytes_equal(out.view(), request("51 02 0006 8080 c010 6869").view());
    assert_frames_equal(parse_complete(out, false), frame);
}

void our_reply_has_these_bytes(void**) {
    const StartFrame frame{.reply = true,
                           .extension = kExtensionAccept,
                           .enhanced = true,
                           .peer_to_peer = true,
                           .rtr_write = true,
                           .ird = 16,
                           .ord = kUnstatedDepth};
    Frame out;
    out.size = encode_start_frame(frame, out.space());
    assert_bytes_equal(out.view(), reply("12 02 0004 8010 bfff").view());
    assert_frames_equal(parse_complete(out, true), frame);
}

void plain_revision_1_request_is_taken(void**) {
    const Frame frame = request("c0 01 0003 616263");
    const StartFrame parsed = parse_complete(frame, false);
    assert_true(parsed.markers);
    assert_true(parsed.crc);
    assert_false(parsed.enhanced);
    assert_int_equal(parsed.revision, 1);
    assert_int_equal(parsed.ird, kUnstatedDepth);
    assert_int_equal(parsed.ord, kUnstatedDepth);
    assert_bytes_equal(parsed.private_data, ascii("abc").view());
}

void request_of_linux_siw_is_taken(void**) {
    const Frame frame = request("10 02 0004 0080 0080");
    const StartFrame parsed = parse_complete(frame, false);
    assert_true(parsed.enhanced);
    assert_false(parsed.peer_to_peer);
    assert_false(parsed.rtr_send || parsed.rtr_write || parsed.rtr_read);
    assert_int_equal(parsed.ird, 128);
    assert_int_equal(parsed.ord, 128);
    assert_int_equal(parsed.extension, 0);
    assert_int_equal(parsed.private_data.size(), 0);
}

void rejecting_reply_carries_private_data(void**) {
    const Frame frame = reply("20 02 0002 6e6f");
    const StartFrame parsed = parse_complete(frame, true);
    assert_true(parsed.rejected);
    assert_bytes_equal(parsed.private_data, ascii("no").view());
}

void every_single_flag_of_the_enhanced_words_is_told_apart(void**) {
    const struct {
        std::string_view words;
        bool StartFrame::*flag;
    } rows[] = {{"8000 0000", &StartFrame::peer_to_peer},
                {"4000 0000", &StartFrame::rtr_send},
                {"0000 8000", &StartFrame::rtr_write},
                {"0000 4000", &StartFrame::rtr_read}};
    for (const auto& row : rows) {
        const Frame frame = request("10 02 0004") + hex(row.words);
        const StartFrame parsed = parse_complete(frame, false);
        for (const auto& other : rows) assert_int_equal(parsed.*other.flag, other.flag == row.flag);
        assert_int_equal(parsed.ird, 0);
        assert_int_equal(parsed.ord, 0);
    }
}

void meaningless_bits_are_ignored(void**) {
    const Frame reserved = request("0c 02 0000");
    const StartFrame quiet = parse_complete(reserved, false);
    assert_int_equal(quiet.extension, 0);
    const Frame rejected_request = request("20 02 0000");
    assert_false(parse_complete(rejected_request, false).rejected);
    const Frame old_enhanced = request("10 01 0002 8000");
    const StartFrame old = parse_complete(old_enhanced, false);
    assert_false(old.enhanced);
    assert_int_equal(old.private_data.size(), 2);
}

void only_accept_without_offer_turns_extensions_on(void**) {
    assert_true(own_extensions(kExtensionAccept));
    assert_false(own_extensions(0));
    assert_false(own_extensions(kExtensionOffer));
    assert_false(own_extensions(kExtensionOffer | kExtensionAccept));
}

void wrong_start_frames_are_malformed(void**) {
    assert_malformed(reply("00 02 0000"), false);
    assert_malformed(request("00 02 0000"), true);
    assert_malformed(request("00 00 0000"), false);
    assert_malformed(request("00 03 0000"), false);
    assert_malformed(request("00 02 0201"), false);
    assert_malformed(request("10 02 0003 000000"), false);
    assert_malformed(ascii("GET / HTTP/1.1\r\n"), false);
    assert_malformed(ascii("G"), false);
}

void every_prefix_of_a_frame_needs_more(void**) {
    const Frame frame = request("50 02 0007 8010 8010 616263");
    for (std::size_t length = 0; length < frame.size; ++length) {
        const auto result = parse_start_frame(frame.view().first(length), false);
        assert_int_equal(result.status, Parse::need_more);
        assert_int_equal(result.consumed, 0);
    }
}

void bytes_behind_a_frame_are_left_alone(void**) {
    const Frame frame = request("00 01 0001 61") + hex("000e");
    const auto result = parse_start_frame(frame.view(), false);
    assert_int_equal(result.status, Parse::complete);
    assert_int_equal(result.consumed, frame.size - 2);
    assert_int_equal(result.frame.private_data.size(), 1);
}

void private_data_up_to_512_bytes_with_the_enhanced_ones_fits(void**) {
    Frame user;
    Frame out;
    StartFrame frame{.enhanced = true, .ird = 1, .ord = 1};
    user.size = kMaxStartPrivateData - kEnhancedBytes;
    frame.private_data = user.view();
    assert_int_equal(encode_start_frame(frame, out.space()), kMaxStartFrameBytes);
    out.size = kMaxStartFrameBytes;
    assert_frames_equal(parse_complete(out, false), frame);
    user.size += 1;
    frame.private_data = user.view();
    assert_int_equal(encode_start_frame(frame, out.space()), 0);
    frame.enhanced = false;
    user.size = kMaxStartPrivateData;
    frame.private_data = user.view();
    assert_int_equal(encode_start_frame(frame, out.space()), kMaxStartFrameBytes);
}

void frames_that_cannot_be_expressed_are_not_encoded(void**) {
    Frame out;
    assert_int_equal(encode_start_frame({.revision = 1, .enhanced = true}, out.space()), 0);
    assert_int_equal(encode_start_frame({.enhanced = true, .ird = 0x4000}, out.space()), 0);
    assert_int_equal(encode_start_frame({.enhanced = true, .ord = 0x4000}, out.space()), 0);
}

void too_small_an_output_is_not_touched(void**) {
    Frame out;
    for (std::size_t space = 0; space < kStartFrameBytes + kEnhancedBytes; ++space)
        assert_int_equal(encode_start_frame({.enhanced = true}, out.space().first(space)), 0);
    for (const std::byte each : out.bytes) assert_int_equal(each, 0);
}

void any_frame_survives_encoding_and_parsing(void**) {
    Random random(3);
    Frame user;
    random.fill(user.bytes);
    for (int round = 0; round < 5000; ++round) {
        StartFrame frame{.reply = random.flip(), .markers = random.flip(), .crc = random.flip()};
        frame.rejected = frame.reply && random.flip();
        frame.enhanced = random.flip();
        frame.revision = frame.enhanced || random.flip() ? 2 : 1;
        frame.extension = static_cast<std::uint8_t>(random.below(4));
        if (frame.enhanced) {
            frame.peer_to_peer = random.flip();
            frame.rtr_send = random.flip();
            frame.rtr_write = random.flip();
            frame.rtr_read = random.flip();
            frame.ird = static_cast<std::uint16_t>(random.below(0x4000));
            frame.ord = static_cast<std::uint16_t>(random.below(0x4000));
        }
        user.size = random.below(kMaxStartPrivateData - kEnhancedBytes + 1);
        frame.private_data = user.view();
        Frame out;
        out.size = encode_start_frame(frame, out.space());
        assert_frames_equal(parse_complete(out, frame.reply), frame);
    }
}

// ---- FPDU ---------------------------------------------------------------------------------------

void fpdu_sizes_are_multiples_of_four(void**) {
    for (std::size_t length = 0; length <= kMaxUlpduBytes; ++length) {
        assert_true(fpdu_padding(length) < 4);
        assert_int_equal(fpdu_bytes(length) % 4, 0);
        assert_int_equal(fpdu_bytes(length), 2 + length + fpdu_padding(length) + 4);
    }
    assert_int_equal(fpdu_padding(14), 0);
    assert_int_equal(fpdu_padding(15), 3);
}

void fitting_ulpdu_is_the_longest_that_fits(void**) {
    assert_int_equal(fitting_ulpdu(1448), 1442);  // MSS 1448: MULPDU of RFC 5044
    assert_int_equal(fitting_ulpdu(1449), 1442);
    assert_int_equal(fitting_ulpdu(7), 0);
    assert_int_equal(fitting_ulpdu(1 << 20), kMaxUlpduBytes);
    for (std::size_t bytes = fpdu_bytes(0); bytes < 3000; ++bytes) {
        assert_true(fpdu_bytes(fitting_ulpdu(bytes)) <= bytes);
        assert_true(fpdu_bytes(fitting_ulpdu(bytes) + 1) > bytes);
    }
}

void crc_travels_least_significant_byte_first(void**) {
    std::array<std::byte, kCrcBytes> out{};
    const std::array<std::byte, 32> zeros{};
    encode_crc(crc32c(zeros), out);
    assert_bytes_equal(out, hex("aa36918a").view());
    assert_int_equal(decode_crc(out), 0x8A9136AA);
    assert_true(crc_matches(zeros, out));
    assert_false(crc_matches(std::span(zeros).first(31), out));
}

constexpr std::string_view kZeroLengthWrite = "c140 00000000 0000000000000000";

void zero_length_write_has_the_bytes_that_siw_and_wireshark_take(void**) {
    Frame buffer = hex("0000") + hex(kZeroLengthWrite);
    buffer.size = seal_fpdu(buffer.space(), 14, true);
    assert_bytes_equal(buffer.view(), hex("000e c140 00000000 0000000000000000 a30572ab").view());
    const auto parsed = parse_fpdu(buffer.view(), true);
    assert_int_equal(parsed.status, Parse::complete);
    assert_int_equal(parsed.consumed, 20);
    assert_bytes_equal(parsed.ulpdu, hex(kZeroLengthWrite).view());
}

void fpdu_without_crc_ends_in_zeros_and_is_not_checked(void**) {
    Frame buffer = hex("0000 0102030405 ffffff ffffffff");
    buffer.size = seal_fpdu(buffer.space(), 5, false);
    assert_bytes_equal(buffer.view(), hex("0005 0102030405 00 00000000").view());
    assert_int_equal(parse_fpdu(buffer.view(), false).status, Parse::complete);
    assert_int_equal(parse_fpdu(buffer.view(), true).status, Parse::malformed);
}

void length_field_is_big_endian(void**) {
    std::array<std::byte, kFpduLengthBytes> out{};
    encode_fpdu_length(0x1234, out);
    assert_bytes_equal(out, hex("1234").view());
    assert_int_equal(decode_fpdu_length(out), 0x1234);
}

void fpdu_that_does_not_fit_is_not_sealed(void**) {
    Frame buffer;
    assert_int_equal(seal_fpdu(buffer.space().first(fpdu_bytes(10) - 1), 10, true), 0);
    assert_int_equal(seal_fpdu(buffer.space(), 0x10000, true), 0);
    assert_int_equal(seal_fpdu({}, 0, true), 0);
}

void every_prefix_of_an_fpdu_says_how_much_it_needs(void**) {
    for (std::size_t length = 0; length < 40; ++length) {
        Frame buffer;
        buffer.size = seal_fpdu(buffer.space(), length, true);
        for (std::size_t have = 0; have < buffer.size; ++have) {
            const auto parsed = parse_fpdu(buffer.view().first(have), true);
            assert_int_equal(parsed.status, Parse::need_more);
            assert_int_equal(parsed.needed, have < 2 ? 2 : buffer.size);
        }
        const auto parsed = parse_fpdu(buffer.view(), true);
        assert_int_equal(parsed.status, Parse::complete);
        assert_int_equal(parsed.ulpdu.size(), length);
    }
}

void every_flipped_bit_of_an_fpdu_is_noticed(void**) {
    Frame buffer = hex("0000") + hex(kZeroLengthWrite) + ascii("payload");
    buffer.size = seal_fpdu(buffer.space(), 21, true);
    for (std::size_t at = 0; at < buffer.size; ++at)
        for (unsigned bit = 0; bit < 8; ++bit) {
            Frame wrong = buffer;
            wrong.bytes.at(at) ^= std::byte(1U << bit);
            assert_int_not_equal(parse_fpdu(wrong.view(), true).status, Parse::complete);
        }
}

void several_fpdus_in_a_row_come_out_one_by_one(void**) {
    Frame stream;
    for (std::size_t length = 0; length < 20; ++length) {
        Frame one;
        one.bytes[2] = std::byte(length);
        one.size = seal_fpdu(one.space(), length, true);
        stream.append(one.view());
    }
    auto rest = stream.view();
    for (std::size_t length = 0; length < 20; ++length) {
        const auto parsed = parse_fpdu(rest, true);
        assert_int_equal(parsed.status, Parse::complete);
        assert_int_equal(parsed.ulpdu.size(), length);
        rest = rest.subspan(parsed.consumed);
    }
    assert_true(rest.empty());
}

}  // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(our_request_has_these_bytes),
        cmocka_unit_test(our_reply_has_these_bytes),
        cmocka_unit_test(plain_revision_1_request_is_taken),
        cmocka_unit_test(request_of_linux_siw_is_taken),
        cmocka_unit_test(rejecting_reply_carries_private_data),
        cmocka_unit_test(every_single_flag_of_the_enhanced_words_is_told_apart),
        cmocka_unit_test(meaningless_bits_are_ignored),
        cmocka_unit_test(only_accept_without_offer_turns_extensions_on),
        cmocka_unit_test(wrong_start_frames_are_malformed),
        cmocka_unit_test(every_prefix_of_a_frame_needs_more),
        cmocka_unit_test(bytes_behind_a_frame_are_left_alone),
        cmocka_unit_test(private_data_up_to_512_bytes_with_the_enhanced_ones_fits),
        cmocka_unit_test(frames_that_cannot_be_expressed_are_not_encoded),
        cmocka_unit_test(too_small_an_output_is_not_touched),
        cmocka_unit_test(any_frame_survives_encoding_and_parsing),
        cmocka_unit_test(fpdu_sizes_are_multiples_of_four),
        cmocka_unit_test(fitting_ulpdu_is_the_longest_that_fits),
        cmocka_unit_test(crc_travels_least_significant_byte_first),
        cmocka_unit_test(zero_length_write_has_the_bytes_that_siw_and_wireshark_take),
        cmocka_unit_test(fpdu_without_crc_ends_in_zeros_and_is_not_checked),
        cmocka_unit_test(length_field_is_big_endian),
        cmocka_unit_test(fpdu_that_does_not_fit_is_not_sealed),
        cmocka_unit_test(every_prefix_of_an_fpdu_says_how_much_it_needs),
        cmocka_unit_test(every_flipped_bit_of_an_fpdu_is_noticed),
        cmocka_unit_test(several_fpdus_in_a_row_come_out_one_by_one),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
