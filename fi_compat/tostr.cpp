// SPDX-License-Identifier: BSD-3-Clause
#include "fi_compat/tostr.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

#include <algorithm>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "core/core.hpp"
#include "fi_compat/address.hpp"
#include "fi_compat/object.hpp"
#include "fi_compat/tostr_names.hpp"

namespace compat::fi {
namespace {

/// "name: value" lines of nested structures, four blanks a level.
class Printer {
public:
    explicit Printer(std::string& text) : text_(text) {}

    void open(const char* name) {
        indent();
        text_.append(name).append(":\n");
        ++depth_;
    }
    void close() { --depth_; }

    void number(const char* name, std::uint64_t value) { line(name, "%" PRIu64, value); }
    void hex(const char* name, std::uint64_t value) { line(name, "0x%" PRIx64, value); }
    void signed_number(const char* name, int value) { line(name, "%d", value); }
    void string(const char* name, const char* value) {
        line(name, "%s", value != nullptr ? value : "(null)");
    }
    void pointer(const char* name, const void* value) { line(name, "%p", value); }
    void version(const char* name, std::uint32_t value) {
        line(name, "%u.%u", FI_MAJOR(value), FI_MINOR(value));
    }
    void flags(const char* name, std::uint64_t value, fi_type type) {
        indent();
        text_.append(name).append(": [ ");
        append_flags(text_, value, type);
        text_.append(" ]\n");
    }
    void one_of(const char* name, std::uint64_t value, std::span<const NameRow> names) {
        indent();
        text_.append(name).append(": ");
        append_name(text_, value, names);
        text_.append("\n");
    }
    void one_of(const char* name, std::uint32_t value, fi_type type) {
        one_of(name, value, names_of(type));
    }
    template <class Enum>
    requires std::is_enum_v<Enum>
    void one_of(const char* name, const Enum& value, fi_type type) {
        one_of(name, static_cast<unsigned>(number_in(value)), names_of(type));
    }
    void empty(const char* name) { line(name, "%s", "(null)"); }

private:
    void indent() { text_.append(static_cast<std::size_t>(depth_) * 4, ' '); }
    __attribute__((format(printf, 3, 4))) void line(const char* name, const char* format, ...) {
        indent();
        text_.append(name).append(": ");
        va_list arguments;
        va_start(arguments, format);
        char value[256];
        const int length = std::vsnprintf(value, sizeof value, format, arguments);
        va_end(arguments);
        text_.append(value, std::min(static_cast<std::size_t>(length), sizeof value - 1));
        text_.append("\n");
    }

    std::string& text_;
    int depth_ = 0;
};

void print(Printer& out, const fi_tx_attr& attr) {
    out.open("fi_tx_attr");
    out.flags("caps", attr.caps, FI_TYPE_CAPS);
    out.flags("mode", attr.mode, FI_TYPE_MODE);
    out.flags("op_flags", attr.op_flags, FI_TYPE_OP_FLAGS);
    out.flags("msg_order", attr.msg_order, FI_TYPE_MSG_ORDER);
    out.flags("comp_order", attr.comp_order, FI_TYPE_MSG_ORDER);
    out.number("inject_size", attr.inject_size);
    out.number("size", attr.size);
    out.number("iov_limit", attr.iov_limit);
    out.number("rma_iov_limit", attr.rma_iov_limit);
    out.hex("tclass", attr.tclass);
    out.close();
}

void print(Printer& out, const fi_rx_attr& attr) {
    out.open("fi_rx_attr");
    out.flags("caps", attr.caps, FI_TYPE_CAPS);
    out.flags("mode", attr.mode, FI_TYPE_MODE);
    out.flags("op_flags", attr.op_flags, FI_TYPE_OP_FLAGS);
    out.flags("msg_order", attr.msg_order, FI_TYPE_MSG_ORDER);
    out.flags("comp_order", attr.comp_order, FI_TYPE_MSG_ORDER);
    out.number("total_buffered_recv", attr.total_buffered_recv);
    out.number("size", attr.size);
    out.number("iov_limit", attr.iov_limit);
    out.close();
}

void print(Printer& out, const fi_ep_attr& attr) {
    out.open("fi_ep_attr");
    out.one_of("type", attr.type, FI_TYPE_EP_TYPE);
    out.one_of("protocol", attr.protocol, FI_TYPE_PROTOCOL);
    out.number("protocol_version", attr.protocol_version);
    out.number("max_msg_size", attr.max_msg_size);
    out.number("msg_prefix_size", attr.msg_prefix_size);
    out.number("max_order_raw_size", attr.max_order_raw_size);
    out.number("max_order_war_size", attr.max_order_war_size);
    out.number("max_order_waw_size", attr.max_order_waw_size);
    out.hex("mem_tag_format", attr.mem_tag_format);
    out.number("tx_ctx_cnt", attr.tx_ctx_cnt);
    out.number("rx_ctx_cnt", attr.rx_ctx_cnt);
    out.number("auth_key_size", attr.auth_key_size);
    out.close();
}

void print(Printer& out, const fi_domain_attr& attr) {
    out.open("fi_domain_attr");
    out.pointer("domain", attr.domain);
    out.string("name", attr.name);
    out.one_of("threading", attr.threading, FI_TYPE_THREADING);
    out.one_of("progress", attr.progress, FI_TYPE_PROGRESS);
    out.one_of("resource_mgmt", static_cast<unsigned>(number_in(attr.resource_mgmt)),
               names_of_resource_mgmt());
    out.one_of("av_type", attr.av_type, FI_TYPE_AV_TYPE);
    out.flags("mr_mode", static_cast<unsigned>(attr.mr_mode), FI_TYPE_MR_MODE);
    out.number("mr_key_size", attr.mr_key_size);
    out.number("cq_data_size", attr.cq_data_size);
    out.number("cq_cnt", attr.cq_cnt);
    out.number("ep_cnt", attr.ep_cnt);
    out.number("tx_ctx_cnt", attr.tx_ctx_cnt);
    out.number("rx_ctx_cnt", attr.rx_ctx_cnt);
    out.number("max_ep_tx_ctx", attr.max_ep_tx_ctx);
    out.number("max_ep_rx_ctx", attr.max_ep_rx_ctx);
    out.number("max_ep_stx_ctx", attr.max_ep_stx_ctx);
    out.number("max_ep_srx_ctx", attr.max_ep_srx_ctx);
    out.number("cntr_cnt", attr.cntr_cnt);
    out.number("mr_iov_limit", attr.mr_iov_limit);
    out.flags("caps", attr.caps, FI_TYPE_CAPS);
    out.flags("mode", attr.mode, FI_TYPE_MODE);
    out.number("auth_key_size", attr.auth_key_size);
    out.number("max_err_data", attr.max_err_data);
    out.number("mr_cnt", attr.mr_cnt);
    out.hex("tclass", attr.tclass);
    out.number("max_ep_auth_key", attr.max_ep_auth_key);
    out.number("max_group_id", attr.max_group_id);
    out.number("max_cntr_value", attr.max_cntr_value);
    out.number("max_err_cntr_value", attr.max_err_cntr_value);
    out.close();
}

void print(Printer& out, const fi_fabric_attr& attr) {
    out.open("fi_fabric_attr");
    out.string("name", attr.name);
    out.string("prov_name", attr.prov_name);
    out.version("prov_version", attr.prov_version);
    out.version("api_version", attr.api_version);
    out.close();
}

void print(Printer& out, const fid_nic& nic) {
    out.open("nic");
    if (nic.device_attr != nullptr) {
        out.open("fi_device_attr");
        out.string("name", nic.device_attr->name);
        out.string("device_id", nic.device_attr->device_id);
        out.string("device_version", nic.device_attr->device_version);
        out.string("vendor_id", nic.device_attr->vendor_id);
        out.string("driver", nic.device_attr->driver);
        out.string("firmware", nic.device_attr->firmware);
        out.close();
    }
    if (nic.link_attr != nullptr) {
        out.open("fi_link_attr");
        out.string("address", nic.link_attr->address);
        out.number("mtu", nic.link_attr->mtu);
        out.number("speed", nic.link_attr->speed);
        out.number("state", static_cast<unsigned>(number_in(nic.link_attr->state)));
        out.string("network_type", nic.link_attr->network_type);
        out.close();
    }
    out.close();
}

template <class Attribute>
void print_if(Printer& out, const char* name, const Attribute* attribute) {
    if (attribute != nullptr)
        print(out, *attribute);
    else
        out.empty(name);
}

void print(Printer& out, const fi_info& info) {
    out.open("fi_info");
    out.flags("caps", info.caps, FI_TYPE_CAPS);
    out.flags("mode", info.mode, FI_TYPE_MODE);
    out.one_of("addr_format", info.addr_format, FI_TYPE_ADDR_FORMAT);
    out.number("src_addrlen", info.src_addrlen);
    out.number("dest_addrlen", info.dest_addrlen);
    out.string("src_addr", address_text(info.addr_format, info.src_addr, info.src_addrlen).c_str());
    out.string("dest_addr",
               address_text(info.addr_format, info.dest_addr, info.dest_addrlen).c_str());
    out.pointer("handle", info.handle);
    print_if(out, "fi_tx_attr", info.tx_attr);
    print_if(out, "fi_rx_attr", info.rx_attr);
    print_if(out, "fi_ep_attr", info.ep_attr);
    print_if(out, "fi_domain_attr", info.domain_attr);
    print_if(out, "fi_fabric_attr", info.fabric_attr);
    print_if(out, "nic", info.nic);
    out.close();
}

void print(Printer& out, const fi_av_attr& attr) {
    out.open("fi_av_attr");
    out.one_of("type", attr.type, FI_TYPE_AV_TYPE);
    out.signed_number("rx_ctx_bits", attr.rx_ctx_bits);
    out.number("count", attr.count);
    out.number("ep_per_node", attr.ep_per_node);
    out.string("name", attr.name);
    out.pointer("map_addr", attr.map_addr);
    out.hex("flags", attr.flags);
    out.close();
}

void print(Printer& out, const fi_cq_attr& attr) {
    out.open("fi_cq_attr");
    out.number("size", attr.size);
    out.flags("flags", attr.flags, FI_TYPE_OP_FLAGS);
    out.one_of("format", attr.format, FI_TYPE_CQ_FORMAT);
    out.one_of("wait_obj", attr.wait_obj, FI_TYPE_WAIT_OBJ);
    out.signed_number("signaling_vector", attr.signaling_vector);
    out.one_of("wait_cond", attr.wait_cond, FI_TYPE_CQ_WAIT_COND);
    out.pointer("wait_set", attr.wait_set);
    out.close();
}

/// Only what every release of the structure has: the data carries no size.
void print(Printer& out, const fi_mr_attr& attr) {
    out.open("fi_mr_attr");
    out.pointer("mr_iov", attr.mr_iov);
    out.number("iov_count", attr.iov_count);
    out.flags("access", attr.access, FI_TYPE_CAPS);
    out.number("offset", attr.offset);
    out.hex("requested_key", attr.requested_key);
    out.pointer("context", attr.context);
    out.close();
}

void print(Printer& out, const fi_cntr_attr& attr) {
    out.open("fi_cntr_attr");
    const int events = number_in(attr.events);
    out.string("events", events == FI_CNTR_EVENTS_COMP    ? "FI_CNTR_EVENTS_COMP"
                         : events == FI_CNTR_EVENTS_BYTES ? "FI_CNTR_EVENTS_BYTES"
                                                          : "Unknown");
    out.one_of("wait_obj", attr.wait_obj, FI_TYPE_WAIT_OBJ);
    out.pointer("wait_set", attr.wait_set);
    out.hex("flags", attr.flags);
    out.close();
}

/// Only what every release of the structure has.
void print(Printer& out, const fi_cq_err_entry& entry) {
    out.open("fi_cq_err_entry");
    out.pointer("op_context", entry.op_context);
    out.flags("flags", entry.flags, FI_TYPE_CQ_EVENT_FLAGS);
    out.number("len", entry.len);
    out.pointer("buf", entry.buf);
    out.number("data", entry.data);
    out.hex("tag", entry.tag);
    out.number("olen", entry.olen);
    out.signed_number("err", entry.err);
    out.string("err_text", fi_strerror(entry.err));
    out.signed_number("prov_errno", entry.prov_errno);
    out.close();
}

const char* class_text(std::size_t fclass) {
    static constexpr const char* kClasses[] = {
        "FI_CLASS_UNSPEC",  "FI_CLASS_FABRIC", "FI_CLASS_DOMAIN",    "FI_CLASS_EP",
        "FI_CLASS_SEP",     "FI_CLASS_RX_CTX", "FI_CLASS_SRX_CTX",   "FI_CLASS_TX_CTX",
        "FI_CLASS_STX_CTX", "FI_CLASS_PEP",    "FI_CLASS_INTERFACE", "FI_CLASS_AV",
        "FI_CLASS_MR",      "FI_CLASS_EQ",     "FI_CLASS_CQ",        "FI_CLASS_CNTR",
        "FI_CLASS_WAIT",    "FI_CLASS_POLL",   "FI_CLASS_CONNREQ",   "FI_CLASS_MC",
        "FI_CLASS_NIC",     "FI_CLASS_AV_SET"};
    return fclass < std::size(kClasses) ? kClasses[fclass] : "Unknown";
}

template <class Structure>
void print_as(std::string& text, const void* data) {
    Printer out(text);
    print(out, *static_cast<const Structure*>(data));
}

template <class Value>
Value load(const void* data) {
    Value value{};
    std::memcpy(&value, data, sizeof value);
    return value;
}

bool is_flag_set(fi_type type) {
    switch (type) {
        case FI_TYPE_CAPS:
        case FI_TYPE_OP_FLAGS:
        case FI_TYPE_MSG_ORDER:
        case FI_TYPE_MODE:
        case FI_TYPE_CQ_EVENT_FLAGS: return true;
        default: return false;
    }
}

}  // namespace

std::string address_text(std::uint32_t addr_format, const void* address, std::size_t length) {
    if (address == nullptr) return "(null)";
    if (addr_format == FI_ADDR_STR) return static_cast<const char*>(address);
    const auto socket = core::SocketAddress::from(static_cast<const sockaddr*>(address), length);
    if (!socket) return "(address of " + std::to_string(length) + " bytes)";
    return address_text(*socket);
}

void append_text(std::string& text, const void* data, fi_type type) {
    switch (type) {
        case FI_TYPE_INFO: return print_as<fi_info>(text, data);
        case FI_TYPE_TX_ATTR: return print_as<fi_tx_attr>(text, data);
        case FI_TYPE_RX_ATTR: return print_as<fi_rx_attr>(text, data);
        case FI_TYPE_EP_ATTR: return print_as<fi_ep_attr>(text, data);
        case FI_TYPE_DOMAIN_ATTR: return print_as<fi_domain_attr>(text, data);
        case FI_TYPE_FABRIC_ATTR: return print_as<fi_fabric_attr>(text, data);
        case FI_TYPE_AV_ATTR: return print_as<fi_av_attr>(text, data);
        case FI_TYPE_CQ_ATTR: return print_as<fi_cq_attr>(text, data);
        case FI_TYPE_MR_ATTR: return print_as<fi_mr_attr>(text, data);
        case FI_TYPE_CNTR_ATTR: return print_as<fi_cntr_attr>(text, data);
        case FI_TYPE_CQ_ERR_ENTRY: return print_as<fi_cq_err_entry>(text, data);
        case FI_TYPE_FID: text.append(class_text(load<struct ::fid>(data).fclass)); return;
        case FI_TYPE_VERSION:
            text.append(std::to_string(FI_MAJOR_VERSION) + "." + std::to_string(FI_MINOR_VERSION) +
                        "." + std::to_string(FI_REVISION_VERSION));
            return;
        default: break;
    }
    if (names_of(type).empty())
        text.append("Unknown type");
    else if (type == FI_TYPE_MR_MODE)
        append_flags(text, load<std::uint32_t>(data), type);
    else if (is_flag_set(type))
        append_flags(text, load<std::uint64_t>(data), type);
    else
        append_enum(text, load<std::uint32_t>(data), type);
}

}  // namespace compat::fi
