// SPDX-License-Identifier: BSD-3-Clause
#include "fi_compat/av.hpp"

#include <cstring>
#include <string>
#include <vector>

#include "fi_compat/address.hpp"
#include "tests/unit/fi/ep_rig.hpp"

namespace compat::fi {
namespace {

struct AvRig : EpRig {
    ~AvRig() {
        if (av != nullptr) fi_close(&av->fid);
    }
    void open_av(std::uint32_t format = FI_SOCKADDR_IN, std::uint64_t flags = 0,
                 fi_av_type type = FI_AV_MAP) {
        open_domain({.format_of_addresses = format});
        fi_av_attr attr{};
        attr.type = type;
        attr.flags = flags;
        assert_int_equal(fi_av_open(domain, &attr, &av, &marker), 0);
    }
    fid_av* av = nullptr;
};

AvRig& av_rig(void** state) {
    return *static_cast<AvRig*>(*state);
}
int set_up(void** state) {
    *state = new AvRig;
    return 0;
}
int tear_down(void** state) {
    delete static_cast<AvRig*>(*state);
    return 0;
}

sockaddr_in in_of(std::uint32_t host, std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(host);
    address.sin_port = htons(port);
    return address;
}
constexpr std::uint32_t kLocal = INADDR_LOOPBACK;

std::string text_at(fid_av* av, fi_addr_t address) {
    alignas(16) char raw[256];
    std::size_t length = sizeof raw;
    assert_int_equal(fi_av_lookup(av, address, raw, &length), 0);
    char text[256];
    std::size_t room = sizeof text;
    assert_ptr_equal(fi_av_straddr(av, raw, text, &room), text);
    assert_int_equal(room, std::strlen(text) + 1);
    return text;
}

void addresses_count_from_zero_and_fill_holes(void** state) {
    AvRig& rig = av_rig(state);
    rig.open_av();
    const sockaddr_in addresses[] = {in_of(kLocal, 1), in_of(kLocal, 2), in_of(kLocal, 3)};
    fi_addr_t got[3];
    assert_int_equal(fi_av_insert(rig.av, addresses, 3, got, 0, nullptr), 3);
    for (fi_addr_t at = 0; at < 3; ++at) assert_int_equal(got[at], at);
    assert_int_equal(fi_av_remove(rig.av, &got[1], 1, 0), 0);
    assert_int_equal(fi_av_remove(rig.av, &got[1], 1, 0), -FI_EINVAL);
    const sockaddr_in other = in_of(kLocal, 9);
    fi_addr_t again = FI_ADDR_NOTAVAIL;
    assert_int_equal(fi_av_insert(rig.av, &other, 1, &again, FI_MORE, nullptr), 1);
    assert_int_equal(again, 1);
    assert_string_equal(text_at(rig.av, 1).c_str(), "fi_sockaddr_in://127.0.0.1:9");
    assert_int_equal(fi_av_remove(rig.av, got, 1, 1), -FI_EBADFLAGS);
}

void an_address_inserted_twice_is_one_and_stays_until_it_is_removed_twice(void** state) {
    AvRig& rig = av_rig(state);
    rig.open_av(FI_SOCKADDR_IN, 0, FI_AV_TABLE);
    const sockaddr_in address = in_of(kLocal, 5);
    fi_addr_t first = 7;
    fi_addr_t second = 8;
    assert_int_equal(fi_av_insert(rig.av, &address, 1, &first, 0, nullptr), 1);
    assert_int_equal(fi_av_insert(rig.av, &address, 1, &second, 0, nullptr), 1);
    assert_int_equal(first, second);
    assert_int_equal(fi_av_remove(rig.av, &first, 1, 0), 0);
    assert_string_equal(text_at(rig.av, first).c_str(), "fi_sockaddr_in://127.0.0.1:5");
    assert_int_equal(fi_av_remove(rig.av, &first, 1, 0), 0);
    std::size_t length = 0;
    assert_int_equal(fi_av_lookup(rig.av, first, nullptr, &length), -FI_EINVAL);
}

void what_cannot_be_an_address_is_told_one_by_one(void** state) {
    AvRig& rig = av_rig(state);
    rig.open_av();
    const sockaddr_in addresses[] = {in_of(kLocal, 1), in_of(INADDR_ANY, 2), in_of(kLocal, 3)};
    fi_addr_t got[3];
    int errors[3] = {-1, -1, -1};
    assert_int_equal(fi_av_insert(rig.av, addresses, 3, got, FI_SYNC_ERR, errors), 2);
    assert_int_equal(got[0], 0);
    assert_true(got[1] == FI_ADDR_NOTAVAIL);
    assert_int_equal(got[2], 1);
    assert_int_equal(errors[0], 0);
    assert_int_equal(errors[1], FI_EINVAL);
    assert_int_equal(errors[2], 0);
    assert_int_equal(fi_av_insert(rig.av, addresses, 1, nullptr, 0, nullptr), 1);
    assert_int_equal(fi_av_insert(rig.av, addresses, 1, got, FI_SYNC_ERR, nullptr), -FI_EINVAL);
    assert_int_equal(fi_av_insert(rig.av, addresses, 1, got, FI_RECV, nullptr), -FI_EBADFLAGS);
    assert_int_equal(fi_av_insert(rig.av, nullptr, 1, got, 0, nullptr), -FI_EINVAL);
    assert_int_equal(fi_av_insert(rig.av, nullptr, 0, got, 0, nullptr), 0);
}

void a_short_buffer_gets_what_fits_and_the_whole_length(void** state) {
    AvRig& rig = av_rig(state);
    rig.open_av();
    const sockaddr_in address = in_of(kLocal, 5);
    assert_int_equal(fi_av_insert(rig.av, &address, 1, nullptr, 0, nullptr), 1);
    unsigned char raw[sizeof address];
    std::memset(raw, 0xee, sizeof raw);
    std::size_t length = 4;
    assert_int_equal(fi_av_lookup(rig.av, 0, raw, &length), 0);
    assert_int_equal(length, sizeof address);
    assert_memory_equal(raw, &address, 4);
    assert_int_equal(raw[4], 0xee);
    for (const fi_addr_t bad : {fi_addr_t{1}, fi_addr_t{1} << 40, FI_ADDR_NOTAVAIL})
        assert_int_equal(fi_av_lookup(rig.av, bad, raw, &length), -FI_EINVAL);
}

void formats_differ_in_how_addresses_lie_in_an_array(void**) {
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_addr = in6addr_loopback;
    six.sin6_port = htons(6);
    const sockaddr_in four = in_of(kLocal, 4);
    std::vector<char> mixed(sizeof four + sizeof six);
    std::memcpy(mixed.data(), &four, sizeof four);
    std::memcpy(mixed.data() + sizeof four, &six, sizeof six);
    const char packed[] = "fi_sockaddr_in://127.0.0.1:4\0fi_sockaddr_in6://[::1]:6";
    const char* pointers[] = {packed, packed + std::strlen(packed) + 1};
    const struct {
        std::uint32_t format;
        const void* addresses;
    } rows[] = {
        {FI_SOCKADDR, mixed.data()},    {FI_FORMAT_UNSPEC, mixed.data()},
        {FI_SOCKADDR_IP, mixed.data()}, {FI_ADDR_STR, packed},
        {FI_ADDR_STR, pointers},
    };
    for (const auto& row : rows) {
        AvRig rig;
        rig.open_av(row.format);
        assert_int_equal(fi_av_insert(rig.av, row.addresses, 2, nullptr, 0, nullptr), 2);
        assert_string_equal(text_at(rig.av, 0).c_str(), "fi_sockaddr_in://127.0.0.1:4");
        assert_string_equal(text_at(rig.av, 1).c_str(), "fi_sockaddr_in6://[::1]:6");
    }
}

void names_and_ports_count_up(void** state) {
    AvRig& rig = av_rig(state);
    rig.open_av();
    fi_addr_t got[4];
    assert_int_equal(fi_av_insertsvc(rig.av, "127.0.0.1", "700", got, 0, nullptr), 1);
    assert_string_equal(text_at(rig.av, got[0]).c_str(), "fi_sockaddr_in://127.0.0.1:700");
    assert_int_equal(fi_av_insertsym(rig.av, "127.0.0.9", 2, "0799", 2, got, 0, nullptr), 4);
    const char* expected[] = {"127.0.0.9:799", "127.0.0.9:800", "127.0.0.10:799", "127.0.0.10:800"};
    for (int at = 0; at < 4; ++at)
        assert_string_equal(text_at(rig.av, got[at]).c_str() + std::strlen("fi_sockaddr_in://"),
                            expected[at]);
    assert_int_equal(
        fi_av_insertsvc(rig.av, "fi_sockaddr_in://127.0.0.1:31", nullptr, got, 0, nullptr), 1);
    assert_string_equal(text_at(rig.av, got[0]).c_str(), "fi_sockaddr_in://127.0.0.1:31");
    assert_int_equal(fi_av_insertsym(rig.av, "nowhere.invalid", 2, "1", 1, got, 0, nullptr), 0);
    assert_true(got[0] == FI_ADDR_NOTAVAIL && got[1] == FI_ADDR_NOTAVAIL);
    assert_int_equal(fi_av_insertsvc(rig.av, nullptr, "1", got, 0, nullptr), -FI_EINVAL);
}

void an_asynchronous_vector_answers_on_its_event_queue(void** state) {
    AvRig& rig = av_rig(state);
    rig.open_av(FI_SOCKADDR_IN, FI_EVENT);
    const sockaddr_in addresses[] = {in_of(kLocal, 1), in_of(INADDR_ANY, 2)};
    fi_addr_t got[2];
    assert_int_equal(fi_av_insert(rig.av, addresses, 2, got, 0, &got), -FI_ENOEQ);
    assert_int_equal(fi_av_bind(rig.av, &rig.eq->fid, 1), -FI_EBADFLAGS);
    assert_int_equal(fi_av_bind(rig.av, &rig.eq->fid, 0), 0);
    assert_int_equal(fi_av_bind(rig.av, &rig.eq->fid, 0), -FI_EINVAL);
    assert_int_equal(fi_av_insert(rig.av, addresses, 2, got, 0, &got), 0);
    assert_int_equal(rig.event(), -FI_EAVAIL);
    const fi_eq_err_entry error = rig.event_error();
    assert_ptr_equal(error.fid, &rig.av->fid);
    assert_ptr_equal(error.context, &got);
    assert_int_equal(error.data, 1);
    assert_int_equal(error.err, FI_EINVAL);
    assert_int_equal(rig.event(), FI_AV_COMPLETE);
    const auto& done = *reinterpret_cast<const fi_eq_entry*>(rig.last_event.data());
    assert_ptr_equal(done.fid, &rig.av->fid);
    assert_ptr_equal(done.context, &got);
    assert_int_equal(done.data, 1);
    int errors[2];
    assert_int_equal(fi_av_insert(rig.av, addresses, 2, got, FI_SYNC_ERR, errors), -FI_EBADFLAGS);
}

void impossible_vectors_are_refused(void** state) {
    AvRig& rig = av_rig(state);
    rig.open_domain({});
    fi_av_attr attr{};
    attr.name = "shared";
    assert_int_equal(fi_av_open(rig.domain, &attr, &rig.av, nullptr), -FI_ENOSYS);
    attr = {};
    attr.flags = FI_RECV;
    assert_int_equal(fi_av_open(rig.domain, &attr, &rig.av, nullptr), -FI_EINVAL);
    attr = {};
    set_enum(attr.type, 77);
    assert_int_equal(fi_av_open(rig.domain, &attr, &rig.av, nullptr), -FI_EINVAL);
    assert_null(rig.av);
    attr = {};
    assert_int_equal(fi_av_open(rig.domain, &attr, &rig.av, nullptr), 0);
    assert_int_equal(attr.type, FI_AV_TABLE);
    assert_int_equal(fi_close(&rig.domain->fid), -FI_EBUSY);
}

#define AV_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

}  // namespace
}  // namespace compat::fi

int main() {
    using namespace compat::fi;
    const CMUnitTest tests[] = {
        AV_TEST(addresses_count_from_zero_and_fill_holes),
        AV_TEST(an_address_inserted_twice_is_one_and_stays_until_it_is_removed_twice),
        AV_TEST(what_cannot_be_an_address_is_told_one_by_one),
        AV_TEST(a_short_buffer_gets_what_fits_and_the_whole_length),
        cmocka_unit_test(formats_differ_in_how_addresses_lie_in_an_array),
        AV_TEST(names_and_ports_count_up),
        AV_TEST(an_asynchronous_vector_answers_on_its_event_queue),
        AV_TEST(impossible_vectors_are_refused),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
