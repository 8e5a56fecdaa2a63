// SPDX-License-Identifier: BSD-3-Clause
#include "fi_compat/av.hpp"

#include <algorithm>
#include <cstdio>
#include <string>

#include "fi_compat/address.hpp"
#include "fi_compat/boundary.hpp"
#include "fi_compat/unsupported.hpp"

namespace compat::fi {
namespace {

int av_insert(fid_av* av, const void* addresses, std::size_t count, fi_addr_t* out,
              std::uint64_t flags, void* context) {
    return c_boundary([&] { return Av::of(av).insert(addresses, count, out, flags, context); });
}
int av_insertsvc(fid_av* av, const char* node, const char* service, fi_addr_t* out,
                 std::uint64_t flags, void* context) {
    return c_boundary(
        [&] { return Av::of(av).insert_service(node, service, out, flags, context); });
}
int av_insertsym(fid_av* av, const char* node, std::size_t nodes, const char* service,
                 std::size_t services, fi_addr_t* out, std::uint64_t flags, void* context) {
    return c_boundary([&] {
        return Av::of(av).insert_range(node, nodes, service, services, out, flags, context);
    });
}
int av_remove(fid_av* av, fi_addr_t* addresses, std::size_t count, std::uint64_t flags) {
    return c_boundary([&] { return Av::of(av).remove(addresses, count, flags); });
}
int av_lookup(fid_av* av, fi_addr_t address, void* out, std::size_t* length) {
    return c_boundary([&] { return Av::of(av).lookup(address, out, length); });
}
const char* av_straddr(fid_av* av, const void* address, char* out, std::size_t* length) try {
    return Av::of(av).text(address, out, length);
} catch (...) {
    return nullptr;
}
int av_bind(struct ::fid* face, struct ::fid* object, std::uint64_t flags) {
    return c_boundary([&] { return Av::of(face).bind(object, flags); });
}

constinit fi_ops kAvFiOps = {
    .size = sizeof(fi_ops),
    .close = close_object<Av>,
    .bind = av_bind,
    .control = kUnsupported,
    .ops_open = kUnsupported,
    .tostr = kUnsupported,
    .ops_set = kUnsupported,
};

constinit fi_ops_av kAvOps = {
    .size = sizeof(fi_ops_av),
    .insert = av_insert,
    .insertsvc = av_insertsvc,
    .insertsym = av_insertsym,
    .remove = av_remove,
    .lookup = av_lookup,
    .straddr = av_straddr,
    .av_set = kUnsupported,
    .insert_auth_key = kUnsupported,
    .lookup_auth_key = kUnsupported,
    .set_user_id = kUnsupported,
};

/// text with the number at its end (before tail) counted up, as wide as it was: "node09" + 1 is
/// "node10". Empty when there is none to count.
std::string counted_up(const std::string& text, std::size_t by) {
    if (by == 0) return text;
    constexpr std::size_t kMost = 18;  // digits of a number that surely fits
    const std::size_t most = text.size() - std::min(text.size(), kMost);
    const std::size_t digits = std::max(text.find_last_not_of("0123456789") + 1, most);  // npos: 0
    if (digits == text.size()) return {};
    const std::string number = std::to_string(std::stoull(text.substr(digits)) + by);
    const std::size_t width = text.size() - digits;
    const std::string zeros(width > number.size() ? width - number.size() : 0, '0');
    return text.substr(0, digits) + zeros + number;
}

core::SocketAddress resolve(const std::string& node, const std::string& service) {
    if (auto written = parse_address_text(node)) return *written;
    const auto found = core::resolve_address(node.c_str(), service.c_str(), core::Resolve::active);
    return found ? *found : core::SocketAddress();
}

}  // namespace

class Av::Insertion {
public:
    Insertion(Av& av, fi_addr_t* out, std::uint64_t flags, void* context, std::size_t count)
        : av_(av), out_(out), context_(context) {
        if (!tells_each_error(flags)) return;
        errors_ = static_cast<int*>(context);
        std::fill_n(errors_, count, 0);
    }

    void add(const core::SocketAddress& address) {
        const auto index = av_.book_.insert(address);
        if (out_ != nullptr) out_[at_] = index ? *index : FI_ADDR_NOTAVAIL;
        if (index)
            ++inserted_;
        else
            failed(-to_fi(index.error()));
        ++at_;
    }
    /// The result of the call.
    int finish() {
        if (!av_.asynchronous_) return inserted_;
        fi_eq_entry entry{};
        entry.fid = av_.base();
        entry.context = context_;
        entry.data = static_cast<std::uint64_t>(inserted_);
        av_.eq_->push(FI_AV_COMPLETE, entry);
        return 0;
    }

private:
    void failed(int err) {
        if (errors_ != nullptr) errors_[at_] = err;
        if (!av_.asynchronous_) return;
        fi_eq_err_entry error{};
        error.fid = av_.base();
        error.context = context_;
        error.data = at_;
        error.err = err;
        error.prov_errno = err;
        av_.eq_->push_error(error);
    }

    Av& av_;
    fi_addr_t* out_;
    void* context_;
    int* errors_ = nullptr;
    std::size_t at_ = 0;
    int inserted_ = 0;
};

Av::Av(Domain& domain, const fi_av_attr& attr, void* user_context)
    : Object(FI_CLASS_AV, user_context, kAvFiOps),
      domain_(domain),
      asynchronous_(is_asynchronous(attr.flags)) {
    ops = &kAvOps;
}

Av::~Av() {
    if (eq_) eq_->forget(base());
}

int Av::bind(struct ::fid* object, std::uint64_t flags) {
    if (object->fclass != FI_CLASS_EQ) return -FI_EINVAL;
    if (flags != 0) return -FI_EBADFLAGS;
    EventQueue& eq = EventQueue::of(object);
    if (eq_ || &eq.fabric() != &domain_->fabric()) return -FI_EINVAL;
    eq_ = Ref<EventQueue>(eq);
    return 0;
}

int Av::check_insert(std::uint64_t flags, const void* context) const {
    if (asynchronous_ && !eq_) return -FI_ENOEQ;
    if (!only_bits(flags, kInsertFlags)) return -FI_EBADFLAGS;
    if (!tells_each_error(flags)) return 0;
    if (asynchronous_) return -FI_EBADFLAGS;  // the queue tells
    return context != nullptr ? 0 : -FI_EINVAL;
}

int Av::insert(const void* addresses, std::size_t count, fi_addr_t* out, std::uint64_t flags,
               void* context) {
    if (const int bad = check_insert(flags, context); bad != 0) return bad;
    if (addresses == nullptr && count != 0) return -FI_EINVAL;
    Insertion insertion(*this, out, flags, context, count);
    const void* next = addresses;
    for (std::size_t at = 0; at < count; ++at)
        insertion.add(next_address(domain_->address_format(), next));
    return insertion.finish();
}

int Av::insert_service(const char* node, const char* service, fi_addr_t* out, std::uint64_t flags,
                       void* context) {
    return insert_range(node, 1, service, 1, out, flags, context);
}

int Av::insert_range(const char* node, std::size_t nodes, const char* service, std::size_t services,
                     fi_addr_t* out, std::uint64_t flags, void* context) {
    if (const int bad = check_insert(flags, context); bad != 0) return bad;
    const bool written = node != nullptr && parse_address_text(node);  // with its port
    if (node == nullptr || (service == nullptr && !written)) return -FI_EINVAL;
    Insertion insertion(*this, out, flags, context, nodes * services);
    for (std::size_t host = 0; host < nodes; ++host) {
        for (std::size_t port = 0; port < services; ++port) {
            const std::string name = counted_up(node, host);
            const std::string number = counted_up(service != nullptr ? service : "", port);
            insertion.add(name.empty() ? core::SocketAddress() : resolve(name, number));
        }
    }
    return insertion.finish();
}

int Av::remove(const fi_addr_t* addresses, std::size_t count, std::uint64_t flags) {
    if (flags != 0) return -FI_EBADFLAGS;
    int result = 0;
    for (std::size_t at = 0; at < count; ++at)
        if (const core::Status removed = book_.remove(addresses[at]); !removed)
            result = to_fi(removed.error());
    return result;
}

int Av::lookup(fi_addr_t address, void* out, std::size_t* length) const {
    const auto found = book_.lookup(address);
    if (!found) return to_fi(found.error());
    // What does not fit is cut off; the length says so.
    const int written = write_address(domain_->address_format(), *found, out, length);
    return written == -FI_ETOOSMALL ? 0 : written;
}

const char* Av::text(const void* address, char* out, std::size_t* length) const {
    if (address == nullptr || length == nullptr) return nullptr;
    const void* next = address;
    const std::string text = address_text(next_address(domain_->address_format(), next));
    if (out != nullptr && *length != 0) std::snprintf(out, *length, "%s", text.c_str());
    *length = text.size() + 1;
    return out;
}

int open_av(Domain& domain, fi_av_attr& attr, fid_av** av, void* context) {
    if (attr.name != nullptr) return -FI_ENOSYS;  // shared between processes
    const int type = number_in(attr.type);
    const bool known = type == FI_AV_UNSPEC || type == FI_AV_MAP || type == FI_AV_TABLE;
    if (!known || !only_bits(attr.flags, kAvFlags)) return -FI_EINVAL;
    *av = (new Av(domain, attr, context))->face();
    if (type == FI_AV_UNSPEC) attr.type = FI_AV_TABLE;
    return 0;
}

}  // namespace compat::fi
