// SPDX-License-Identifier: BSD-3-Clause
#include <netinet/in.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include <cstring>
#include <string>

#include "fi_compat/tostr_names.hpp"
#include "tests/support/cmocka.hpp"

namespace {

using namespace compat;

template <class Value>
std::string text_of(Value value, fi_type type) {
    return fi_tostr(&value, type);
}

void flags_are_their_names_with_commas(void**) {
    assert_string_equal(text_of<std::uint64_t>(FI_MSG | FI_RMA, FI_TYPE_CAPS).c_str(),
                        "FI_MSG, FI_RMA");
    assert_string_equal(text_of<std::uint64_t>(FI_RMA | FI_WRITE, FI_TYPE_CQ_EVENT_FLAGS).c_str(),
                        "FI_RMA, FI_WRITE");
    assert_string_equal(text_of<std::uint64_t>(0, FI_TYPE_CAPS).c_str(), "");
}

void one_bit_has_another_name_in_another_place(void**) {
    const std::uint64_t bit = 1ULL << 59;
    assert_string_equal(text_of(bit, FI_TYPE_CAPS).c_str(), "FI_DIRECTED_RECV");
    assert_string_equal(text_of(bit, FI_TYPE_MODE).c_str(), "FI_CONTEXT");
    assert_string_equal(text_of(bit, FI_TYPE_OP_FLAGS).c_str(), "FI_CLAIM");
}

void unknown_bits_are_shown_in_hex(void**) {
    assert_string_equal(text_of<std::uint64_t>(FI_MSG | 1, FI_TYPE_CAPS).c_str(), "FI_MSG, 0x1");
}

void every_name_of_every_table_comes_out(void**) {
    for (int type = FI_TYPE_INFO; type <= FI_TYPE_WAIT_OBJ; ++type) {
        for (const fi::NameRow& row : fi::names_of(static_cast<fi_type>(type))) {
            char text[64];
            const std::uint64_t value = row.value;
            assert_non_null(fi_tostr_r(text, sizeof text, &value, static_cast<fi_type>(type)));
            assert_string_equal(text, row.name);
        }
    }
}

void enumerations_without_a_name_are_unknown(void**) {
    assert_string_equal(text_of(77, FI_TYPE_EP_TYPE).c_str(), "Unknown");
    assert_string_equal(text_of(77, static_cast<fi_type>(60)).c_str(), "Unknown type");
}

void nothing_has_no_text(void**) {
    char text[8];
    assert_null(fi_tostr(nullptr, FI_TYPE_CAPS));
    assert_null(fi_tostr_r(nullptr, 8, text, FI_TYPE_CAPS));
    assert_null(fi_tostr_r(text, 0, text, FI_TYPE_CAPS));
}

void a_short_buffer_gets_the_beginning(void**) {
    const std::uint64_t caps = FI_MSG | FI_RMA;
    char text[10] = "xxxxxxxxx";
    assert_ptr_equal(fi_tostr_r(text, 7, &caps, FI_TYPE_CAPS), text);
    assert_string_equal(text, "FI_MSG");
    assert_int_equal(text[8], 'x');
}

void the_version_is_ours(void**) {
    int ignored = 0;
    assert_string_equal(fi_tostr(&ignored, FI_TYPE_VERSION), "2.5.1");
    assert_int_equal(fi_version(), FI_VERSION(2, 5));
}

bool contains(const std::string& text, const char* part) {
    return text.find(part) != text.npos;
}

void an_info_prints_as_fi_info_shows_it(void**) {
    fi_info* info = fi_allocinfo();
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(7471);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    info->addr_format = FI_SOCKADDR_IN;
    info->src_addr = malloc(sizeof address);
    std::memcpy(info->src_addr, &address, sizeof address);
    info->src_addrlen = sizeof address;
    info->caps = FI_RMA;
    info->ep_attr->type = FI_EP_MSG;
    info->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
    info->fabric_attr->api_version = FI_VERSION(1, 18);
    char buffer[8192];
    fi_tostr_r(buffer, sizeof buffer, info, FI_TYPE_INFO);
    fi_freeinfo(info);
    const std::string text = buffer;
    assert_true(text.starts_with("fi_info:\n    caps: [ FI_RMA ]\n    mode: [  ]\n"));
    assert_true(contains(text, "    src_addr: fi_sockaddr_in://127.0.0.1:7471\n"));
    assert_true(contains(text, "    dest_addr: (null)\n"));
    assert_true(contains(text, "    fi_ep_attr:\n        type: FI_EP_MSG\n"));
    assert_true(contains(text, "        mr_mode: [ FI_MR_VIRT_ADDR, FI_MR_PROV_KEY ]\n"));
    assert_true(contains(text, "        api_version: 1.18\n"));
    assert_true(contains(text, "        name: (null)\n"));
}

void an_info_without_structures_prints_too(void**) {
    fi_info info{};
    const std::string text = fi_tostr(&info, FI_TYPE_INFO);
    assert_true(contains(text, "    fi_tx_attr: (null)\n"));
}

void the_other_structures_print(void**) {
    fi_cq_attr cq{};
    cq.size = 64;
    cq.format = FI_CQ_FORMAT_DATA;
    assert_true(contains(fi_tostr(&cq, FI_TYPE_CQ_ATTR), "format: FI_CQ_FORMAT_DATA\n"));
    fi_av_attr av{};
    av.type = FI_AV_TABLE;
    assert_true(contains(fi_tostr(&av, FI_TYPE_AV_ATTR), "type: FI_AV_TABLE\n"));
    fi_cntr_attr counter{};
    assert_true(contains(fi_tostr(&counter, FI_TYPE_CNTR_ATTR), "events: FI_CNTR_EVENTS_COMP\n"));
    fi_mr_attr region{};
    region.requested_key = 0x2a;
    assert_true(contains(fi_tostr(&region, FI_TYPE_MR_ATTR), "requested_key: 0x2a\n"));
    fi_cq_err_entry error{};
    error.err = FI_ETRUNC;
    assert_true(contains(fi_tostr(&error, FI_TYPE_CQ_ERR_ENTRY), fi_strerror(FI_ETRUNC)));
    fid face{FI_CLASS_CQ, nullptr, nullptr};
    assert_string_equal(fi_tostr(&face, FI_TYPE_FID), "FI_CLASS_CQ");
}

}  // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(flags_are_their_names_with_commas),
        cmocka_unit_test(one_bit_has_another_name_in_another_place),
        cmocka_unit_test(unknown_bits_are_shown_in_hex),
        cmocka_unit_test(every_name_of_every_table_comes_out),
        cmocka_unit_test(enumerations_without_a_name_are_unknown),
        cmocka_unit_test(nothing_has_no_text),
        cmocka_unit_test(a_short_buffer_gets_the_beginning),
        cmocka_unit_test(the_version_is_ours),
        cmocka_unit_test(an_info_prints_as_fi_info_shows_it),
        cmocka_unit_test(an_info_without_structures_prints_too),
        cmocka_unit_test(the_other_structures_print),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
