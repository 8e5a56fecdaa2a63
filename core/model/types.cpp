// SPDX-License-Identifier: BSD-3-Clause
#include "core/model/types.hpp"

#include <array>

namespace compat::core {
namespace {

constexpr std::array kStatusTexts{
    "success",
    "local length error",
    "local QP operation error",
    "local protection error",
    "work request flushed",
    "remote invalid request",
    "remote access error",
    "remote operation error",
    "transport retry count exceeded",
    "RNR retry count exceeded",
    "fatal error",
    "general error",
    "no message",
};
static_assert(kStatusTexts.size() == static_cast<std::size_t>(WcStatus::count_),
              "a new WcStatus needs a text here");

}  // namespace

const char* wc_status_text(WcStatus status) noexcept {
    const auto index = static_cast<std::size_t>(status);
    return index < kStatusTexts.size() ? kStatusTexts[index] : "unknown status";
}

}  // namespace compat::core
