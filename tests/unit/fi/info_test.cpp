// SPDX-License-Identifier: BSD-3-Clause
#include "fi_compat/info.hpp"

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_ext.h>

#include <cstdlib>
#include <cstring>

#include "fi_compat/exports.hpp"
#include "tests/support/cmocka.hpp"

namespace {

using namespace compat;

/// An info on the stack with something in every member, as programs build them.
struct Original {
    std::uint8_t key[3] = {1, 2, 3};
    char source[8] = "source";
    char destination[12] = "destination";
    char domain_name[5] = "eth9";
    char fabric_name[4] = "net";
    char prov_name[4] = "abc";
    fi_tx_attr tx{};
    fi_rx_attr rx{};
    fi_ep_attr ep{};
    fi_domain_attr domain{};
    fi_fabric_attr fabric{};
    fi_info info{};

    Original() {
        tx.tclass = 0xaaaa;
        rx.iov_limit = 7;
        ep.auth_key = key;
        ep.auth_key_size = sizeof key;
        domain.name = domain_name;
        domain.auth_key = key;
        domain.auth_key_size = sizeof key;
        domain.mr_cnt = 11;
        domain.tclass = 12;
        domain.max_ep_auth_key = 13;
        domain.max_group_id = 14;
        domain.max_err_cntr_value = 15;
        fabric.name = fabric_name;
        fabric.prov_name = prov_name;
        fabric.api_version = FI_VERSION(9, 9);
        info.caps = FI_MSG;
        info.src_addr = source;
        info.src_addrlen = sizeof source;
        info.dest_addr = destination;
        info.dest_addrlen = sizeof destination;
        info.tx_attr = &tx;
        info.rx_attr = &rx;
        info.ep_attr = &ep;
        info.domain_attr = &domain;
        info.fabric_attr = &fabric;
    }
};

void null_makes_an_empty_info_of_full_size(void**) {
    fi_info* info = fi_allocinfo();
    assert_non_null(info);
    assert_true(info->caps == 0 && info->next == nullptr && info->nic == nullptr);
    assert_true(info->tx_attr && info->rx_attr && info->ep_attr && info->domain_attr);
    assert_non_null(info->fabric_attr);
    assert_null(info->fabric_attr->prov_name);
    assert_int_equal(info->domain_attr->max_err_cntr_value, 0);
    fi_freeinfo(info);
}

void copies_share_nothing_with_the_original(void**) {
    Original original;
    fi_info* copy = fi_dupinfo(&original.info);
    assert_memory_equal(copy->src_addr, "source", 7);
    assert_true(copy->src_addr != original.source && copy->src_addrlen == 8);
    assert_string_equal(copy->dest_addr, "destination");
    assert_true(copy->dest_addr != original.destination);
    assert_string_equal(copy->domain_attr->name, "eth9");
    assert_true(copy->domain_attr->name != original.domain_name);
    assert_true(copy->domain_attr->auth_key != original.key);
    assert_memory_equal(copy->ep_attr->auth_key, original.key, 3);
    assert_string_equal(copy->fabric_attr->name, "net");
    assert_string_equal(copy->fabric_attr->prov_name, "abc");
    assert_int_equal(copy->domain_attr->max_err_cntr_value, 15);
    // programs free and replace what they find
    std::free(copy->fabric_attr->prov_name);
    copy->fabric_attr->prov_name = strdup("other");
    fi_freeinfo(copy);
}

void missing_structures_stay_missing(void**) {
    fi_info info{};
    info.caps = FI_RMA;
    fi_info* copy = fi_dupinfo(&info);
    assert_int_equal(copy->caps, FI_RMA);
    assert_null(copy->tx_attr);
    assert_null(copy->fabric_attr);
    fi_freeinfo(copy);
    fi_freeinfo(nullptr);
}

void a_list_is_copied_one_by_one_and_freed_as_a_whole(void**) {
    fi_info* first = fi_allocinfo();
    first->next = fi_allocinfo();
    fi_info* copy = fi_dupinfo(first);
    assert_null(copy->next);
    fi_freeinfo(copy);
    fi_freeinfo(first);
}

void older_layouts_end_where_they_ended(void**) {
    struct Row {
        const fi::InfoLayout& layout;
        std::uint32_t tx_tclass;
        bool has_keys;
        std::uint32_t api_version;
        std::size_t max_ep_auth_key;
        std::uint32_t max_group_id;
        std::uint64_t max_err_cntr_value;
    };
    const Row rows[] = {
        {fi::kLayout10, 0, false, 0, 0, 0, 0},
        {fi::kLayout11, 0, true, FI_VERSION(9, 9), 0, 0, 0},
        {fi::kLayout12, 0, true, FI_VERSION(9, 9), 0, 0, 0},
        {fi::kLayout13, 0xaaaa, true, FI_VERSION(9, 9), 0, 0, 0},
        {fi::kLayout17, 0xaaaa, true, FI_VERSION(9, 9), 13, 0, 0},
        {fi::kLayout18, 0xaaaa, true, FI_VERSION(9, 9), 13, 14, 0},
        {fi::kLayout19, 0xaaaa, true, FI_VERSION(9, 9), 13, 14, 15},
    };
    Original original;
    for (const Row& row : rows) {
        fi_info* copy = fi::exported_dupinfo(row.layout, &original.info);
        assert_int_equal(copy->tx_attr->tclass, row.tx_tclass);
        assert_int_equal(copy->ep_attr->auth_key != nullptr, row.has_keys);
        assert_int_equal(copy->domain_attr->auth_key != nullptr, row.has_keys);
        assert_int_equal(copy->fabric_attr->api_version, row.api_version);
        assert_int_equal(copy->domain_attr->max_ep_auth_key, row.max_ep_auth_key);
        assert_int_equal(copy->domain_attr->max_group_id, row.max_group_id);
        assert_int_equal(copy->domain_attr->max_err_cntr_value, row.max_err_cntr_value);
        assert_string_equal(copy->domain_attr->name, "eth9");
        fi_freeinfo(copy);
    }
}

void a_key_size_that_is_no_size_copies_no_key(void**) {
    Original original;
    original.ep.auth_key_size = FI_AV_AUTH_KEY;
    fi_info* copy = fi_dupinfo(&original.info);
    assert_null(copy->ep_attr->auth_key);
    fi_freeinfo(copy);
}

struct CountingNic {
    fid_nic nic{};
    static inline int alive = 0;

    static int close(struct fid* face) {
        --alive;
        delete reinterpret_cast<CountingNic*>(face);
        return 0;
    }
    static int control(struct fid*, int command, void* argument) {
        if (command != FI_DUP) return -FI_ENOSYS;
        *static_cast<fid_nic**>(argument) = &make()->nic;
        return 0;
    }
    static CountingNic* make() {
        static fi_ops ops = {sizeof(fi_ops), close, nullptr, control, nullptr, nullptr, nullptr};
        auto* made = new CountingNic;
        made->nic.fid.fclass = FI_CLASS_NIC;
        made->nic.fid.ops = &ops;
        ++alive;
        return made;
    }
};

void a_nic_is_copied_and_closed_by_its_own_table(void**) {
    fi_info* info = fi_allocinfo();
    info->nic = &CountingNic::make()->nic;
    fi_info* copy = fi_dupinfo(info);
    assert_non_null(copy->nic);
    assert_int_equal(CountingNic::alive, 2);
    fi_freeinfo(copy);
    fi_freeinfo(info);
    assert_int_equal(CountingNic::alive, 0);
}

struct Log {
    fid_logging log{};
    int lines = 0;
};
Log g_log;

int log_enabled(const fi_provider*, fi_log_level, fi_log_subsys, std::uint64_t) {
    return 1;
}
int log_ready(const fi_provider*, fi_log_level, fi_log_subsys, std::uint64_t, std::uint64_t*) {
    return 1;
}
void log_line(const fi_provider* provider, fi_log_level, fi_log_subsys, const char* function, int,
              const char* text) {
    assert_non_null(provider);
    assert_string_equal(function, "somewhere");
    assert_string_equal(text, "number 7");
    ++g_log.lines;
}

void a_program_may_take_over_the_log(void**) {
    static fi_ops_log ops = {sizeof(fi_ops_log), log_enabled, log_ready, log_line};
    g_log.log.ops = &ops;
    assert_int_equal(fi_log_enabled(nullptr, FI_LOG_WARN, FI_LOG_CORE), 0);
    assert_int_equal(fi_import_log(FI_VERSION(1, 13), 0, &g_log.log), 0);
    assert_int_equal(fi_log_enabled(nullptr, FI_LOG_DEBUG, FI_LOG_CORE), 1);
    fi_log(nullptr, FI_LOG_WARN, FI_LOG_CORE, "somewhere", 1, "number %d", 7);
    assert_int_equal(g_log.lines, 1);
}

void only_the_log_can_be_opened(void**) {
    struct fid* face = nullptr;
    assert_int_equal(fi_open(FI_VERSION(1, 13), "mr_cache", nullptr, 0, 0, &face, nullptr),
                     -FI_ENOSYS);
    assert_int_equal(fi_open(FI_VERSION(9, 0), "logging", nullptr, 0, 0, &face, nullptr),
                     -FI_ENOSYS);
    assert_int_equal(fi_open(FI_VERSION(1, 13), "Logging", nullptr, 0, 1, &face, nullptr),
                     -FI_EBADFLAGS);
    assert_int_equal(fi_open(FI_VERSION(1, 13), nullptr, nullptr, 0, 0, &face, nullptr),
                     -FI_EINVAL);
    assert_null(face);
    assert_int_equal(fi_open(FI_VERSION(1, 13), "Logging", nullptr, 0, 0, &face, nullptr), 0);
    assert_int_equal(fi_import_fid(face, nullptr, 0), -FI_EINVAL);
    assert_int_equal(fi_close(face), 0);
}

void parameters_are_listed_with_their_values(void**) {
    setenv("FI_PROVIDER", "tcp", 1);
    fi_param* params = nullptr;
    int count = 0;
    assert_int_equal(fi_getparams(&params, &count), 0);
    bool has_provider = false;
    bool has_device = false;
    for (int i = 0; i < count; ++i) {
        assert_non_null(params[i].help_string);
        if (std::strcmp(params[i].name, "FI_PROVIDER") == 0)
            has_provider = std::strcmp(params[i].value, "tcp") == 0;
        if (std::strcmp(params[i].name, "FABRIC_COMPAT_DEVICE") == 0) has_device = true;
    }
    fi_freeparams(params);
    fi_freeparams(nullptr);
    unsetenv("FI_PROVIDER");
    assert_true(has_provider && has_device);
}

}  // namespace

int main() {
    unsetenv("FI_LOG_LEVEL");
    const CMUnitTest tests[] = {
        cmocka_unit_test(null_makes_an_empty_info_of_full_size),
        cmocka_unit_test(copies_share_nothing_with_the_original),
        cmocka_unit_test(missing_structures_stay_missing),
        cmocka_unit_test(a_list_is_copied_one_by_one_and_freed_as_a_whole),
        cmocka_unit_test(older_layouts_end_where_they_ended),
        cmocka_unit_test(a_key_size_that_is_no_size_copies_no_key),
        cmocka_unit_test(a_nic_is_copied_and_closed_by_its_own_table),
        cmocka_unit_test(only_the_log_can_be_opened),
        cmocka_unit_test(a_program_may_take_over_the_log),
        cmocka_unit_test(parameters_are_listed_with_their_values),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
