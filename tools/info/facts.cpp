// SPDX-License-Identifier: BSD-3-Clause
#include "tools/info/facts.hpp"

#include <dirent.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "core/core.hpp"
#include "fi_compat/getinfo_offer.hpp"
#include "fi_compat/tostr_names.hpp"
#include "tools/support/dropins.hpp"
#include "tools/support/elf_image.hpp"
#include "tools/support/file_map.hpp"

namespace compat::tools {
namespace {

template <class Object>
struct FactRow {
    const char* name;
    Value (*value)(const Object&);
};

constexpr std::array kDeviceFacts{
    FactRow<core::Device>{"kind",
                          [](const core::Device& device) -> Value {
                              return fi::kind_of(device) == fi::DeviceKind::rdma
                                         ? std::string("RDMA")
                                         : std::string("software");
                          }},
    FactRow<core::Device>{"transport",
                          [](const core::Device& device) -> Value {
                              if (fi::kind_of(device) != fi::DeviceKind::rdma)
                                  return std::string("iWARP over TCP, as InfiniBand behaves");
                              return device.limits().transport == core::Transport::iwarp
                                         ? std::string("iWARP")
                                         : std::string("InfiniBand");
                          }},
};

#define COMPAT_LIMIT(member)                                                                 \
    FactRow<core::Limits> {                                                                  \
#member, [](const core::Limits& limits) -> Value { return to_value(limits.member); } \
    }

template <class Number>
Value to_value(Number number) {
    return std::uint64_t{number};
}
Value to_value(bool yes) {
    return yes;
}

constexpr std::array kLimitFacts{COMPAT_LIMIT(max_qp_wr),
                                 COMPAT_LIMIT(max_sge),
                                 COMPAT_LIMIT(max_sge_read),
                                 COMPAT_LIMIT(max_inline),
                                 COMPAT_LIMIT(max_message),
                                 COMPAT_LIMIT(max_cqe),
                                 COMPAT_LIMIT(max_srq_wr),
                                 COMPAT_LIMIT(max_rd_atomic),
                                 COMPAT_LIMIT(imm_bytes),
                                 COMPAT_LIMIT(max_connect_data),
                                 COMPAT_LIMIT(max_accept_data),
                                 COMPAT_LIMIT(max_reject_data),
                                 COMPAT_LIMIT(atomics),
                                 COMPAT_LIMIT(flush),
                                 COMPAT_LIMIT(atomic_write),
                                 COMPAT_LIMIT(read_sink_needs_remote_write),
                                 COMPAT_LIMIT(on_demand_paging),
                                 COMPAT_LIMIT(unregistered_local),
                                 COMPAT_LIMIT(requested_keys),
                                 COMPAT_LIMIT(remote_access_events),
                                 COMPAT_LIMIT(imm_without_receive),
                                 COMPAT_LIMIT(placed_when_complete)};
#undef COMPAT_LIMIT

std::string flags_text(std::uint64_t value, fi_type type) {
    std::string text;
    fi::append_flags(text, value, type);
    return text;
}

std::string enum_text(std::uint64_t value, fi_type type) {
    std::string text;
    fi::append_enum(text, value, type);
    return text;
}

constexpr std::array kOfferFacts{
    FactRow<fi::Offer>{"device",
                       [](const fi::Offer& offer) -> Value { return offer.device.limits().name; }},
    FactRow<fi::Offer>{"protocol",
                       [](const fi::Offer& offer) -> Value {
                           return enum_text(offer.ep.protocol, FI_TYPE_PROTOCOL);
                       }},
    FactRow<fi::Offer>{
        "mode the program must honour",
        [](const fi::Offer& offer) -> Value { return flags_text(offer.info.mode, FI_TYPE_MODE); }},
    FactRow<fi::Offer>{"mr_mode the program must honour",
                       [](const fi::Offer& offer) -> Value {
                           return flags_text(static_cast<std::uint64_t>(offer.mr_needed),
                                             FI_TYPE_MR_MODE);
                       }},
    FactRow<fi::Offer>{"tx op_flags",
                       [](const fi::Offer& offer) -> Value {
                           return flags_text(offer.tx.op_flags, FI_TYPE_OP_FLAGS);
                       }},
    FactRow<fi::Offer>{"rx op_flags",
                       [](const fi::Offer& offer) -> Value {
                           return flags_text(offer.rx.op_flags, FI_TYPE_OP_FLAGS);
                       }},
    FactRow<fi::Offer>{"msg_order",
                       [](const fi::Offer& offer) -> Value {
                           return flags_text(offer.tx.msg_order, FI_TYPE_MSG_ORDER);
                       }},
    FactRow<fi::Offer>{"max_msg_size",
                       [](const fi::Offer& offer) -> Value { return offer.ep.max_msg_size; }},
    FactRow<fi::Offer>{"inject_size",
                       [](const fi::Offer& offer) -> Value { return offer.tx.inject_size; }},
    FactRow<fi::Offer>{"tx size", [](const fi::Offer& offer) -> Value { return offer.tx.size; }},
    FactRow<fi::Offer>{"rx size", [](const fi::Offer& offer) -> Value { return offer.rx.size; }},
    FactRow<fi::Offer>{"iov_limit",
                       [](const fi::Offer& offer) -> Value { return offer.tx.iov_limit; }},
    FactRow<fi::Offer>{"rma_iov_limit",
                       [](const fi::Offer& offer) -> Value { return offer.tx.rma_iov_limit; }},
    FactRow<fi::Offer>{"cq_data_size",
                       [](const fi::Offer& offer) -> Value { return offer.domain.cq_data_size; }},
    FactRow<fi::Offer>{"mr_key_size",
                       [](const fi::Offer& offer) -> Value { return offer.domain.mr_key_size; }},
    FactRow<fi::Offer>{"mr_cnt",
                       [](const fi::Offer& offer) -> Value { return offer.domain.mr_cnt; }},
    FactRow<fi::Offer>{"ep_cnt",
                       [](const fi::Offer& offer) -> Value { return offer.domain.ep_cnt; }},
    FactRow<fi::Offer>{"cq_cnt",
                       [](const fi::Offer& offer) -> Value { return offer.domain.cq_cnt; }},
    FactRow<fi::Offer>{"max_err_data",
                       [](const fi::Offer& offer) -> Value { return offer.domain.max_err_data; }},
};

constexpr const char* kKernelDevices = "/sys/class/infiniband";

std::vector<std::string> kernel_devices() {
    std::vector<std::string> names;
    DIR* const folder = opendir(kKernelDevices);
    if (folder == nullptr) return names;
    while (const dirent* entry = readdir(folder))
        if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
    closedir(folder);
    std::ranges::sort(names);
    return names;
}

/// The core says while it looks why it leaves something out.
std::vector<std::string> g_log;

void keep_line(core::LogLevel, const char*, int, const char*, const char* text) {
    g_log.emplace_back(text);
}

bool is_found(const std::string& name) {
    return std::ranges::any_of(core::all_devices(), [&](const core::Device* device) {
        return device->limits().name == name;
    });
}

std::vector<std::string> find_absences() {
    std::vector<std::string> absences = g_log;
    const std::string_view chosen = core::setting_text(core::Setting::device);
    const char* const variable =
        core::settings()[static_cast<std::size_t>(core::Setting::device)].name;
    for (const fi::DeviceKind kind : {fi::DeviceKind::rdma, fi::DeviceKind::soft})
        if (!fi::is_allowed(kind))
            absences.push_back(
                std::string(kind == fi::DeviceKind::rdma ? "RDMA devices" : "the software device") +
                ": left out by " + variable + "=" + std::string(chosen));
    const std::vector<std::string> in_kernel = kernel_devices();
    if (in_kernel.empty())
        absences.push_back(std::string("RDMA devices: the kernel has none (") + kKernelDevices +
                           " is empty or not there)");
    for (const std::string& name : in_kernel)
        if (!is_found(name) && fi::is_allowed(fi::DeviceKind::rdma))
            absences.push_back(name + ": in the kernel, but not usable by these libraries");
    return absences;
}

}  // namespace

Table device_table(std::vector<std::string>& absences) {
    core::set_log_sink(keep_line, core::LogLevel::info);
    Table table{.name = "devices", .title = "Devices", .columns = {}, .rows = {}};
    const auto devices = core::all_devices();
    core::set_log_sink(nullptr, core::LogLevel::error);
    for (const core::Device* device : devices) table.columns.push_back(device->limits().name);
    for (const auto& fact : kDeviceFacts) {
        Row& row = table.rows.emplace_back(Row{fact.name, {}});
        for (const core::Device* device : devices) row.values.push_back(fact.value(*device));
    }
    for (const auto& fact : kLimitFacts) {
        Row& row = table.rows.emplace_back(Row{fact.name, {}});
        for (const core::Device* device : devices)
            row.values.push_back(fact.value(device->limits()));
    }
    absences = find_absences();
    return table;
}

Table endpoint_table() {
    Table table{.name = "endpoints", .title = "Endpoints", .columns = {}, .rows = {}};
    std::vector<Row> limits;
    for (const fi::NameRow& cap : fi::names_of(FI_TYPE_CAPS)) table.rows.push_back({cap.name, {}});
    for (const auto& fact : kOfferFacts) limits.push_back({fact.name, {}});
    for (const fi::Provider& provider : fi::providers()) {
        if (provider.only_when_named || !fi::is_allowed(provider.kind)) continue;
        for (const core::Device* device : core::all_devices()) {
            if (fi::kind_of(*device) != provider.kind) continue;
            for (const fi_ep_type type : fi::offered_types()) {
                if (!fi::provider_offers(provider, type)) continue;
                const fi::Offer offer(provider, *device, type,
                                      FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), nullptr);
                table.columns.push_back(std::string(provider.name) + " " +
                                        enum_text(type, FI_TYPE_EP_TYPE));
                std::size_t at = 0;
                for (const fi::NameRow& cap : fi::names_of(FI_TYPE_CAPS))
                    table.rows[at++].values.emplace_back((offer.info.caps & cap.value) != 0);
                at = 0;
                for (const auto& fact : kOfferFacts)
                    limits[at++].values.push_back(fact.value(offer));
            }
        }
    }
    table.rows.insert(table.rows.end(), limits.begin(), limits.end());
    return table;
}

Table library_table() {
    Table table{.name = "libraries",
                .title = "Libraries",
                .columns = {"symbol versions"},
                .rows = {},
                .rows_are_objects = true};
    for (const Served& served : kServed) {
        const FileMap file(find_dropins() + "/" + served.soname);
        std::string reason;
        const auto image = read_elf(file.bytes(), reason);
        std::string versions;
        if (image)
            for (const std::string& version : image->versions)
                versions += (versions.empty() ? "" : ", ") + version;
        table.rows.push_back({served.soname, {image ? versions : "not found"}});
    }
    return table;
}

Table environment_table() {
    Table table{.name = "environment",
                .title = "Environment",
                .columns = {"value", "default", "set", "values", "meaning"},
                .rows = {},
                .rows_are_objects = true};
    for (const core::SettingRow& row : core::settings()) {
        const char* const text = std::getenv(row.name);
        table.rows.push_back(
            {row.name,
             {std::string(core::setting_text(row.setting)), std::string(row.default_value),
              text != nullptr && *text != '\0', std::string(row.unit), std::string(row.meaning)}});
    }
    return table;
}

}  // namespace compat::tools
