// SPDX-License-Identifier: BSD-3-Clause
#include "core/engine/traced.hpp"

#include <cstdio>

namespace compat::core {
namespace {

constexpr std::array kOpcodeNames{"write",      "write_imm",   "send",         "send_imm", "read",
                                  "atomic_cas", "atomic_fadd", "atomic_write", "flush"};
static_assert(kOpcodeNames.size() == static_cast<std::size_t>(Opcode::count_),
              "a new Opcode needs a name here");
constexpr std::array kKindNames{"send", "write", "read"};
static_assert(kKindNames.size() == static_cast<std::size_t>(OpKind::count_),
              "a new OpKind needs a name here");

}  // namespace

const char* name_of(Opcode opcode) noexcept {
    return kOpcodeNames[static_cast<std::size_t>(opcode)];
}

const char* name_of(OpKind kind) noexcept {
    return kKindNames[static_cast<std::size_t>(kind)];
}

FlagText::FlagText(std::initializer_list<Row> rows) noexcept {
    std::size_t used = 0;
    for (const Row& row : rows) {
        if (!row.set || used >= text_.size()) continue;
        const int more = std::snprintf(text_.data() + used, text_.size() - used, "%s%s",
                                       used == 0 ? "" : "|", row.name);
        if (more > 0) used += static_cast<std::size_t>(more);
    }
}

FlagText::FlagText(OpFlags flags) noexcept
    : FlagText({{flags.has(OpFlag::entry), "entry"},
                {flags.has(OpFlag::inject), "inject"},
                {flags.has(OpFlag::more), "more"},
                {flags.has(OpFlag::fence), "fence"},
                {flags.has(OpFlag::commit), "commit"},
                {flags.has(OpFlag::solicited), "solicited"},
                {flags.has(OpFlag::deliver), "deliver"}}) {}

FlagText::FlagText(SendFlags flags) noexcept
    : FlagText({{flags.has(SendFlag::signaled), "signaled"},
                {flags.has(SendFlag::inlined), "inline"},
                {flags.has(SendFlag::fence), "fence"},
                {flags.has(SendFlag::solicited), "solicited"}}) {}

TracedPost describe(const Operation& operation) noexcept {
    TracedPost post{.operation = name_of(operation.opcode),
                    .bytes = operation.length,
                    .has_remote = !operation.remote.empty(),
                    .context = operation.context};
    describe_local(post, operation.local);
    if (post.has_remote) {
        post.remote_address = operation.remote[0].address;
        post.rkey = operation.remote[0].rkey;
    }
    return post;
}

TracedPost describe(const SingleOperation& operation) noexcept {
    return {.operation = name_of(operation.opcode),
            .bytes = operation.local.length,
            .local_address = reinterpret_cast<std::uintptr_t>(operation.local.address),
            .lkey = operation.local.lkey,
            .has_remote = operation.has_remote,
            .remote_address = operation.remote_address,
            .rkey = operation.rkey,
            .context = operation.context};
}

}  // namespace compat::core
