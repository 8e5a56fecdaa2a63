// SPDX-License-Identifier: BSD-3-Clause
// What our objects have in common: the application holds a pointer to the public struct fid_*,
// which is their base class; children hold references to their parents.
#pragma once

#include <rdma/fabric.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

namespace compat::fi {

/// Base of an object whose public face is Fid (fid_domain, fid_cq, …).
///
///     class Domain final : public Object<Domain, fid_domain> {
///         Domain(…, void* context) : Object(FI_CLASS_DOMAIN, context, kDomainFiOps) { ops = &…; }
///     };
///     Domain& domain = Domain::of(fid);     // from the application's pointer
template <class Derived, class Fid>
class Object : public Fid {
public:
    Object(const Object&) = delete;
    Object& operator=(const Object&) = delete;

    static Derived& of(Fid* face) noexcept { return *static_cast<Derived*>(face); }
    /// The generic part, as fi_close(), fi_control() and the bind calls pass it.
    static Derived& of(struct ::fid* face) noexcept { return of(reinterpret_cast<Fid*>(face)); }

    [[nodiscard]] Fid* face() noexcept { return this; }
    [[nodiscard]] struct ::fid* base() noexcept { return &this->Fid::fid; }

    /// Whether a child or a bound object still uses this one: closing is then -FI_EBUSY.
    [[nodiscard]] bool in_use() const noexcept {
        return users_.load(std::memory_order_acquire) != 0;
    }

protected:
    Object(std::size_t fclass, void* context, fi_ops& fi_ops_table) : Fid{} {
        this->Fid::fid.fclass = fclass;
        this->Fid::fid.context = context;
        this->Fid::fid.ops = &fi_ops_table;
    }
    ~Object() = default;

private:
    template <class>
    friend class Ref;
    std::atomic<std::uint32_t> users_{0};
};

/// A child's hold on its parent, or a binding's on what is bound. May be empty.
template <class Target>
class Ref {
public:
    Ref() = default;
    explicit Ref(Target& target) noexcept : target_(&target) {
        target.users_.fetch_add(1, std::memory_order_relaxed);
    }
    Ref(Ref&& other) noexcept : target_(std::exchange(other.target_, nullptr)) {}
    Ref& operator=(Ref other) noexcept {
        std::swap(target_, other.target_);
        return *this;
    }
    ~Ref() {
        if (target_ != nullptr) target_->users_.fetch_sub(1, std::memory_order_release);
    }

    explicit operator bool() const noexcept { return target_ != nullptr; }
    Target* get() const noexcept { return target_; }
    Target& operator*() const noexcept { return *target_; }
    Target* operator->() const noexcept { return target_; }

private:
    Target* target_ = nullptr;
};

/// The close slot of an object that nobody may close while it is in use.
template <class Derived>
int close_object(struct ::fid* face) noexcept {
    Derived* object = &Derived::of(face);
    if (object->in_use()) return -FI_EBUSY;
    delete object;
    return 0;
}

/// The number in an enumeration that C code filled: it may be one that the type does not have, and
/// to load such a one as the type is undefined in C++.
template <class Enum>
requires std::is_enum_v<Enum>
int number_in(const Enum& value) noexcept {
    static_assert(sizeof(Enum) == sizeof(int));
    int number = 0;
    std::memcpy(&number, &value, sizeof number);
    return number;
}

/// A version word the application gave, compared with what a feature needs.
constexpr bool api_at_least(std::uint32_t api_version, unsigned major, unsigned minor) {
    return api_version >= FI_VERSION(major, minor);
}

}  // namespace compat::fi
