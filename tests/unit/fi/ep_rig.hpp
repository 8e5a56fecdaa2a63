// SPDX-License-Identifier: BSD-3-Clause
// Libfabric objects on a fake device, used through the C interface as a program would.
#pragma once

#include <arpa/inet.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "fi_compat/domain.hpp"
#include "fi_compat/endpoint.hpp"
#include "fi_compat/fabric.hpp"
#include "tests/support/cmocka.hpp"
#include "tests/support/fake_device.hpp"

namespace compat::fi {

constexpr std::size_t kInject = 128;
constexpr std::size_t kIov = 4;
constexpr std::uint64_t kRemoteAddress = 0x10000;
constexpr std::uint64_t kRemoteKey = 0xabcd;

/// Writes a number as C code may: one that the enumeration does not have.
template <class Enum>
void set_enum(Enum& value, int number) {
    static_assert(sizeof(Enum) == sizeof number);
    std::memcpy(&value, &number, sizeof number);
}

/// What a test changes before open().
struct RigOptions {
    std::uint32_t api = FI_VERSION(1, 17);
    std::uint64_t caps = FI_MSG | FI_RMA | FI_FENCE | FI_RMA_EVENT;
    std::uint64_t mode = 0;
    std::uint64_t op_flags = 0;
    std::uint64_t bind = 0;
    int mr_mode = 0;
    std::uint32_t format_of_addresses = FI_FORMAT_UNSPEC;
    fi_cq_format format = FI_CQ_FORMAT_TAGGED;
    std::size_t cq_size = 64;
    bool connected = true;
};

struct EpRig {
    EpRig() {
        device.current_limits.max_sge = 8;
        device.current_limits.max_sge_read = 8;
        device.current_limits.max_inline = 64;
        device.current_limits.max_qp_wr = 256;
        device.current_limits.max_message = 1U << 20;
        device.current_limits.imm_bytes = 8;
        device.current_limits.unregistered_local = true;
        device.current_limits.requested_keys = true;
        device.current_limits.remote_access_events = true;
        device.current_limits.imm_without_receive = true;
        device.current_limits.flush = true;
        device.current_limits.placed_when_complete = true;
        device.current_limits.max_connect_data = 56;
        device.current_limits.max_accept_data = 196;
        device.current_limits.max_reject_data = 148;
    }
    ~EpRig() {
        for (struct ::fid* fid : {fid_of(ep), fid_of(cq), fid_of(cntr), fid_of(domain), fid_of(eq)})
            if (fid != nullptr) fi_close(fid);
        if (fabric != nullptr) fi_close(&fabric->fid);
        free_info(info);
    }

    template <class Object>
    static struct ::fid* fid_of(Object* object) {
        return object != nullptr ? &object->fid : nullptr;
    }

    void open(const RigOptions& options = {}) {
        open_domain(options);
        fi_cq_attr attr{};
        attr.size = options.cq_size;
        attr.format = options.format;
        attr.wait_obj = FI_WAIT_UNSPEC;
        assert_int_equal(fi_cq_open(domain, &attr, &cq, nullptr), 0);
        assert_int_equal(fi_endpoint(domain, info, &ep, &marker), 0);
        if (!options.connected) return;
        assert_int_equal(fi_ep_bind(ep, &eq->fid, 0), 0);
        assert_int_equal(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV | options.bind), 0);
        connect();
    }

    void open_domain(const RigOptions& options) {
        info = fi_dupinfo_of(options);
        fabric = (new Fabric(*find_provider("compat"), "fake", options.api, nullptr))->face();
        fi_eq_attr attr{};
        attr.wait_obj = FI_WAIT_NONE;
        assert_int_equal(fi_eq_open(fabric, &attr, &eq, nullptr), 0);
        domain = (new Domain(Fabric::of(fabric), device, std::move(*device.allocate_pd()), *info,
                             nullptr))
                     ->face();
    }

    static fi_info* fi_dupinfo_of(const RigOptions& options) {
        fi_info* made = make_info().release();
        made->caps = options.caps;
        made->mode = options.mode;
        made->addr_format = options.format_of_addresses;
        made->ep_attr->type = FI_EP_MSG;
        made->ep_attr->max_msg_size = 1U << 20;
        made->domain_attr->mr_mode = options.mr_mode;
        made->domain_attr->cq_data_size = 8;
        made->tx_attr->inject_size = kInject;
        made->tx_attr->iov_limit = kIov;
        made->tx_attr->rma_iov_limit = kIov;
        made->tx_attr->size = 32;
        made->tx_attr->op_flags = options.op_flags;
        made->rx_attr->iov_limit = kIov;
        made->rx_attr->size = 8;
        made->rx_attr->mode = options.mode;
        return made;
    }

    static sockaddr_in target_address() {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(7204);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return address;
    }

    void connect() {
        const sockaddr_in address = target_address();
        assert_int_equal(fi_connect(ep, &address, nullptr, 0), 0);
        id().deliver(core::CmEventType::established);
        assert_int_equal(event(), FI_CONNECTED);
    }

    /// The number of the next event, or the negative result of reading it.
    long event() {
        std::uint32_t number = 0;
        last_size = fi_eq_read(eq, &number, last_event.data(), last_event.size(), 0);
        return last_size < 0 ? last_size : static_cast<long>(number);
    }
    fi_eq_err_entry event_error() {
        fi_eq_err_entry error{};
        assert_int_equal(fi_eq_readerr(eq, &error, 0), sizeof error);
        return error;
    }

    test::FakeCmId& id() { return *device.cm_ids().back(); }
    test::FakeQp& qp() { return *device.qps().back(); }
    const test::PostedSend& last() { return qp().posted.back(); }
    [[nodiscard]] bool is_signaled() { return last().request.flags.has(core::SendFlag::signaled); }

    void finish(core::WcStatus status = core::WcStatus::success, std::uint32_t vendor_error = 0) {
        core::WorkCompletion wc;
        wc.wr_id = last().request.wr_id;
        wc.status = status;
        wc.vendor_error = vendor_error;
        qp().complete_send(wc);
    }
    /// Everything that was posted and is signaled, and what goes out because of that. Not to be
    /// mixed with finish().
    void finish_all() {
        fi_cq_tagged_entry read;
        fi_cq_read(cq, nullptr, 0);
        for (; finished_ < qp().posted.size(); ++finished_) {
            const core::WorkRequest& request = qp().posted[finished_].request;
            if (!request.flags.has(core::SendFlag::signaled)) continue;
            core::WorkCompletion wc;
            wc.wr_id = request.wr_id;
            qp().complete_send(wc);
            while (fi_cq_read(cq, &read, 1) == 1) {
            }
        }
    }
    fi_cq_tagged_entry entry() {
        fi_cq_tagged_entry read{};
        assert_int_equal(fi_cq_read(cq, &read, 1), 1);
        return read;
    }
    void nothing() {
        fi_cq_tagged_entry read{};
        assert_int_equal(fi_cq_read(cq, &read, 1), -FI_EAGAIN);
    }
    fi_cq_err_entry error() {
        fi_cq_tagged_entry read{};
        fi_cq_err_entry failed{};
        assert_int_equal(fi_cq_read(cq, &read, 1), -FI_EAVAIL);
        assert_int_equal(fi_cq_readerr(cq, &failed, 0), 1);
        return failed;
    }

    test::FakeDevice device;
    fi_info* info = nullptr;
    fid_fabric* fabric = nullptr;
    fid_eq* eq = nullptr;
    fid_domain* domain = nullptr;
    fid_cq* cq = nullptr;
    fid_cntr* cntr = nullptr;
    fid_ep* ep = nullptr;
    int marker = 0;  ///< its address is a context
    ssize_t last_size = 0;
    alignas(16) std::array<std::byte, 512> last_event{};
    alignas(64) std::array<std::byte, 4096> memory{};

private:
    std::size_t finished_ = 0;
};

inline EpRig& rig_of(void** state) {
    return *static_cast<EpRig*>(*state);
}
inline int set_up_rig(void** state) {
    *state = new EpRig;
    return 0;
}
inline int tear_down_rig(void** state) {
    delete static_cast<EpRig*>(*state);
    return 0;
}

}  // namespace compat::fi

#define RIGGED(test) cmocka_unit_test_setup_teardown(test, set_up_rig, tear_down_rig)
