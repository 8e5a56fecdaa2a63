// SPDX-License-Identifier: BSD-3-Clause
// Address vectors: fi_av(3).
#pragma once

#include <rdma/fi_domain.h>

#include "core/core.hpp"
#include "fi_compat/domain.hpp"
#include "fi_compat/eq.hpp"
#include "fi_compat/object.hpp"

namespace compat::fi {

/// An fi_addr_t is an index of the book in both types of vector: 0, 1, 2 and so on, the lowest free
/// one first.
class Av final : public Object<Av, fid_av> {
public:
    Av(Domain& domain, const fi_av_attr& attr, void* context);
    ~Av();

    [[nodiscard]] Domain& domain() const noexcept { return *domain_; }
    [[nodiscard]] const core::AddressBook& book() const noexcept { return book_; }

    int bind(struct ::fid* object, std::uint64_t flags);
    int insert(const void* addresses, std::size_t count, fi_addr_t* out, std::uint64_t flags,
               void* context);
    int insert_service(const char* node, const char* service, fi_addr_t* out, std::uint64_t flags,
                       void* context);
    /// Names and ports that count up from node and service.
    int insert_range(const char* node, std::size_t nodes, const char* service, std::size_t services,
                     fi_addr_t* out, std::uint64_t flags, void* context);
    int remove(const fi_addr_t* addresses, std::size_t count, std::uint64_t flags);
    int lookup(fi_addr_t address, void* out, std::size_t* length) const;
    const char* text(const void* address, char* out, std::size_t* length) const;

private:
    /// One call: what it has inserted, and how it tells.
    class Insertion;
    [[nodiscard]] int check_insert(std::uint64_t flags, const void* context) const;

    Ref<Domain> domain_;
    Ref<EventQueue> eq_;
    bool asynchronous_;
    core::AddressBook book_;
};

}  // namespace compat::fi
