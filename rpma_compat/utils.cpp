// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <string>

#include "core/core.hpp"
#include "rpma_compat/context.hpp"
#include "rpma_compat/err_map.hpp"
#include "rpma_compat/log.hpp"

namespace compat::rpma {
namespace {

struct TextRow {
    int value;
    const char* text;
};

constexpr std::array kErrTexts{
    TextRow{kSuccess, "Success"},
    TextRow{RPMA_E_NOSUPP, "Not supported"},
    TextRow{RPMA_E_PROVIDER, "Provider error occurred"},
    TextRow{RPMA_E_NOMEM, "Out of memory"},
    TextRow{RPMA_E_INVAL, "Invalid argument"},
    TextRow{RPMA_E_NO_COMPLETION, "No next completion available"},
    TextRow{RPMA_E_NO_EVENT, "No next event available"},
    TextRow{RPMA_E_AGAIN, "Temporary error, try again"},
    TextRow{RPMA_E_SHARED_CHANNEL, "Completion channel is shared"},
    TextRow{RPMA_E_NOT_SHARED_CHNL, "Completion channel is not shared"},
};

constexpr std::array kEventTexts{
    TextRow{RPMA_CONN_UNDEFINED, "Undefined connection event"},
    TextRow{RPMA_CONN_ESTABLISHED, "Connection established"},
    TextRow{RPMA_CONN_CLOSED, "Connection closed"},
    TextRow{RPMA_CONN_LOST, "Connection lost"},
    TextRow{RPMA_CONN_REJECTED, "Connection rejected"},
    TextRow{RPMA_CONN_UNREACHABLE, "Connection unreachable"},
};

template <class Rows>
const char* text_of(const Rows& rows, int value, const char* otherwise) {
    for (const TextRow& row : rows)
        if (row.value == value) return row.text;
    return otherwise;
}

struct ContextTypeRow {
    int type;
    core::Resolve resolve;
    core::Direction direction;
};
constexpr std::array kContextTypes{
    ContextTypeRow{RPMA_UTIL_IBV_CONTEXT_LOCAL, core::Resolve::passive, core::Direction::local},
    ContextTypeRow{RPMA_UTIL_IBV_CONTEXT_REMOTE, core::Resolve::active, core::Direction::remote},
};

int get_context(const char* addr, const ContextTypeRow& row, ibv_context** out) {
    connect_core_log();
    const auto address = core::resolve_address(addr, nullptr, row.resolve);
    if (!address) return COMPAT_RPMA_FAILED(provider, "address resolution", address.error());
    const auto device = core::device_for_address(*address, row.direction);
    if (!device) {
        const std::string call = std::string("device look-up for ") + addr;
        return COMPAT_RPMA_FAILED(provider, call.c_str(), device.error());
    }
    *out = context_of(**device);
    return kSuccess;
}

}  // namespace
}  // namespace compat::rpma

using namespace compat;
using namespace compat::rpma;

const char* rpma_err_2str(int ret) {
    return text_of(kErrTexts, ret, "Unknown error");
}

const char* rpma_utils_conn_event_2str(rpma_conn_event conn_event) {
    return text_of(kEventTexts, number_of(conn_event), "Unsupported connection event");
}

int rpma_utils_get_ibv_context(const char* addr, rpma_util_ibv_context_type type,
                               ibv_context** ibv_ctx_ptr) {
    return c_boundary([&] {
        if (addr == nullptr || ibv_ctx_ptr == nullptr) return RPMA_E_INVAL;
        for (const ContextTypeRow& row : kContextTypes)
            if (row.type == number_of(type)) return get_context(addr, row, ibv_ctx_ptr);
        return RPMA_E_INVAL;
    });
}

int rpma_utils_ibv_context_is_odp_capable(ibv_context* ibv_ctx, int* is_odp_capable) {
    return c_boundary([&] {
        if (ibv_ctx == nullptr || is_odp_capable == nullptr) return RPMA_E_INVAL;
        *is_odp_capable = 0;
        core::Device* const device = device_of(ibv_ctx);
        if (device == nullptr) {
            COMPAT_RPMA_LOG(RPMA_LOG_LEVEL_ERROR,
                            "the context belongs to no device of this library");
            return RPMA_E_PROVIDER;
        }
        *is_odp_capable = device->limits().on_demand_paging ? 1 : 0;
        return kSuccess;
    });
}
