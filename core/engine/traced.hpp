// SPDX-License-Identifier: BSD-3-Clause
// The words of a trace for what is posted.
#pragma once

#include <array>
#include <initializer_list>

#include "core/base/trace.hpp"
#include "core/engine/operation.hpp"

namespace compat::core {

const char* name_of(Opcode opcode) noexcept;
const char* name_of(OpKind kind) noexcept;

/// The names of flags that are set, joined by '|'.
class FlagText {
public:
    struct Row {
        bool set;
        const char* name;
    };
    explicit FlagText(std::initializer_list<Row> rows) noexcept;
    explicit FlagText(OpFlags flags) noexcept;
    explicit FlagText(SendFlags flags) noexcept;
    [[nodiscard]] const char* c_str() const noexcept { return text_.data(); }

private:
    std::array<char, 64> text_{};
};

/// Of buffers with an address and an lkey: the first one.
template <class Buffers>
void describe_local(TracedPost& post, const Buffers& buffers) noexcept {
    if (buffers.empty()) return;
    post.local_address = reinterpret_cast<std::uintptr_t>(buffers[0].address);
    post.lkey = buffers[0].lkey;
}

/// flags and peer are left to the caller.
TracedPost describe(const Operation& operation) noexcept;
TracedPost describe(const SingleOperation& operation) noexcept;

}  // namespace compat::core
