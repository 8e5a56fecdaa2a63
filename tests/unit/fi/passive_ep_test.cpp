// SPDX-License-Identifier: BSD-3-Clause
// fi_compat/passive_ep.hpp on the software device: what happens to requests without memory.
#include "fi_compat/passive_ep.hpp"

#include <arpa/inet.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>

#include <array>
#include <cstring>

#include "tests/support/cmocka.hpp"
#include "tests/support/new_failure.hpp"

namespace {

using namespace compat;

constexpr int kPatienceMs = 10'000;

struct Rig {
    fi_info* info = nullptr;
    fid_fabric* fabric = nullptr;
    fid_domain* domain = nullptr;
    fid_eq* passive_eq = nullptr;
    fid_eq* active_eq = nullptr;
    fid_cq* cq = nullptr;
    fid_pep* pep = nullptr;
    fid_ep* ep = nullptr;
    sockaddr_in address{};
    alignas(fi_eq_cm_entry) std::array<std::byte, 512> event{};

    Rig() {
        fi_info* hints = fi_allocinfo();
        hints->ep_attr->type = FI_EP_MSG;
        hints->caps = FI_MSG;
        assert_int_equal(fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", "0", FI_SOURCE, hints, &info),
                         0);
        fi_freeinfo(hints);
        assert_int_equal(fi_fabric(info->fabric_attr, &fabric, nullptr), 0);
        assert_int_equal(fi_domain(fabric, info, &domain, nullptr), 0);
        fi_eq_attr eq_attr{};
        eq_attr.wait_obj = FI_WAIT_UNSPEC;
        assert_int_equal(fi_eq_open(fabric, &eq_attr, &passive_eq, nullptr), 0);
        assert_int_equal(fi_eq_open(fabric, &eq_attr, &active_eq, nullptr), 0);
        assert_int_equal(fi_cq_open(domain, nullptr, &cq, nullptr), 0);
        assert_int_equal(fi_passive_ep(fabric, info, &pep, nullptr), 0);
        assert_int_equal(fi_pep_bind(pep, &passive_eq->fid, 0), 0);
        assert_int_equal(fi_listen(pep), 0);
        std::size_t length = sizeof address;
        assert_int_equal(fi_getname(&pep->fid, &address, &length), 0);
    }
    ~Rig() {
        drop_ep();
        for (struct ::fid* fid :
             {&pep->fid, &cq->fid, &active_eq->fid, &passive_eq->fid, &domain->fid, &fabric->fid})
            fi_close(fid);
        fi_freeinfo(info);
    }
    void drop_ep() {
        if (ep != nullptr) fi_close(&ep->fid);
        ep = nullptr;
    }
    void connect() {
        assert_int_equal(fi_endpoint(domain, info, &ep, nullptr), 0);
        assert_int_equal(fi_ep_bind(ep, &active_eq->fid, 0), 0);
        assert_int_equal(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 0);
        assert_int_equal(fi_connect(ep, &address, "data", 4), 0);
    }
    ssize_t next(fid_eq* eq, std::uint32_t* number) {
        return fi_eq_sread(eq, number, event.data(), event.size(), kPatienceMs, 0);
    }
};

int setup(void** state) {
    *state = new Rig;
    return 0;
}
int teardown(void** state) {
    delete static_cast<Rig*>(*state);
    return 0;
}

// The peer must not wait for an answer that nobody can give.
void request_that_cannot_be_announced_is_rejected(void** state) {
    Rig& rig = *static_cast<Rig*>(*state);
    bool failed = true;
    int rejected = 0;
    for (int nth = 1; failed; ++nth) {
        assert_in_range(nth, 1, 100);
        rig.connect();
        std::uint32_t number = 0;
        test::fail_new(nth);
        ssize_t announced = rig.next(rig.passive_eq, &number);
        failed = test::new_has_failed();
        test::fail_new(0);
        if (announced == -FI_ENOMEM) {
            ++rejected;
            assert_int_equal(rig.next(rig.active_eq, &number), -FI_EAVAIL);
            fi_eq_err_entry error{};
            assert_int_equal(fi_eq_readerr(rig.active_eq, &error, 0), sizeof error);
            assert_int_equal(error.err, FI_ECONNREFUSED);
        } else {
            assert_int_equal(announced, sizeof(fi_eq_cm_entry) + 4);
            const auto& request = *reinterpret_cast<fi_eq_cm_entry*>(rig.event.data());
            assert_int_equal(fi_reject(rig.pep, request.info->handle, nullptr, 0), 0);
            fi_freeinfo(request.info);
            assert_int_equal(rig.next(rig.active_eq, &number), -FI_EAVAIL);
            fi_eq_err_entry error{};
            fi_eq_readerr(rig.active_eq, &error, 0);
        }
        rig.drop_ep();
    }
    assert_in_range(rejected, 2, 100);
}

/// The event of a request that has come.
fi_info* next_request(Rig& rig) {
    rig.connect();
    std::uint32_t number = 0;
    assert_int_equal(rig.next(rig.passive_eq, &number), sizeof(fi_eq_cm_entry) + 4);
    assert_int_equal(number, FI_CONNREQ);
    return reinterpret_cast<fi_eq_cm_entry*>(rig.event.data())->info;
}

void handle_of_an_answered_request_is_refused(void** state) {
    Rig& rig = *static_cast<Rig*>(*state);
    fi_info* info = next_request(rig);
    assert_int_equal(fi_reject(rig.pep, info->handle, nullptr, 0), 0);
    assert_int_equal(fi_reject(rig.pep, info->handle, nullptr, 0), -FI_EINVAL);
    fid_ep* late = nullptr;
    assert_int_equal(fi_endpoint(rig.domain, info, &late, nullptr), -FI_EINVAL);
    fi_freeinfo(info);
}

void handle_of_a_request_whose_listener_is_gone_is_refused(void** state) {
    Rig& rig = *static_cast<Rig*>(*state);
    fi_info* info = next_request(rig);
    assert_int_equal(fi_close(&rig.pep->fid), 0);
    fid_ep* late = nullptr;
    assert_int_equal(fi_endpoint(rig.domain, info, &late, nullptr), -FI_EINVAL);
    fi_freeinfo(info);
    assert_int_equal(fi_passive_ep(rig.fabric, rig.info, &rig.pep, nullptr), 0);
}

}  // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(request_that_cannot_be_announced_is_rejected, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(handle_of_an_answered_request_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(handle_of_a_request_whose_listener_is_gone_is_refused,
                                        setup, teardown),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
