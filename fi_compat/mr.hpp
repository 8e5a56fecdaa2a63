// SPDX-License-Identifier: BSD-3-Clause
// Memory regions: fi_mr(3).
#pragma once

#include <rdma/fi_domain.h>

#include <memory>
#include <span>
#include <vector>

#include "core/core.hpp"
#include "fi_compat/domain.hpp"
#include "fi_compat/object.hpp"

namespace compat::fi {

class Cntr;

/// What the data path reads of a region.
struct LocalKeys {
    struct Segment {
        const std::byte* end;
        std::uint32_t lkey;
    };
    std::uint32_t lkey = 0;         ///< of the first segment
    std::span<const Segment> more;  ///< all segments when there are several

    [[nodiscard]] std::uint32_t of(const void* address) const noexcept {
        if (more.empty()) [[likely]]
            return lkey;
        for (const Segment& segment : more)
            if (address < segment.end) return segment.lkey;
        return lkey;
    }
};

class Mr final : public Object<Mr, fid_mr> {
public:
    /// Errors: those of fi_mr_regattr(3), as negative fabric errnos.
    static int open(Domain& domain, const fi_mr_attr& attr, std::uint64_t flags, fid_mr** mr);
    ~Mr();

    /// Of a descriptor (fi_mr_desc(3)), which is the region itself: with upstream's providers for
    /// connectionless endpoints it is, too, and programs pass the one for the other.
    [[nodiscard]] static const LocalKeys& keys(void* desc) noexcept {
        return of(static_cast<fid_mr*>(desc)).keys_;
    }

    int bind(struct ::fid* object, std::uint64_t flags);
    int control(int command, void* argument) noexcept;

private:
    Mr(Domain& domain, const fi_mr_attr& attr);
    int register_segments(std::span<const iovec> segments, const fi_mr_attr& attr,
                          std::uint64_t flags);
    int bind_counter(Cntr& counter, std::uint64_t flags);
    core::Status observe(core::RemoteAccessObserver* observer) noexcept;
    int raw_attr(struct fi_mr_raw_attr* raw) const noexcept;
    int refresh(const fi_mr_modify* modify) noexcept;
    int refresh(const iovec& range) noexcept;

    Ref<Domain> domain_;
    std::uint64_t base_address_;
    bool remote_;
    std::vector<std::unique_ptr<core::MemoryRegion>> regions_;
    std::vector<iovec> segments_;
    std::vector<LocalKeys::Segment> ends_;
    LocalKeys keys_;
    core::RemoteCounters counters_;
    Ref<Cntr> write_counter_;
    Ref<Cntr> read_counter_;
};

}  // namespace compat::fi
