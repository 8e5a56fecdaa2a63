// SPDX-License-Identifier: BSD-3-Clause
#include "fi_compat/names.hpp"

#include <strings.h>

#include <algorithm>
#include <string_view>

namespace compat::fi {
namespace {

bool same(std::string_view left, std::string_view right) {
    return left.size() == right.size() && strncasecmp(left.data(), right.data(), left.size()) == 0;
}

/// Calls each(part) for the parts between separators, and stops when it answers false.
template <class Each>
bool all_parts(std::string_view text, char separator, Each each) {
    while (!text.empty()) {
        const std::string_view part = text.substr(0, text.find(separator));
        if (!part.empty() && !each(part)) return false;
        text.remove_prefix(std::min(text.size(), part.size() + 1));
    }
    return true;
}

bool has_component(std::string_view name, std::string_view component) {
    return !all_parts(name, ';', [&](std::string_view part) { return !same(part, component); });
}

bool has_components(std::string_view name, std::string_view wanted) {
    return all_parts(wanted, ';', [&](std::string_view part) {
        return part.front() == '^' ? !has_component(name, part.substr(1))
                                   : has_component(name, part);
    });
}

std::string_view view(const char* text) {
    return text != nullptr ? text : std::string_view();
}

}  // namespace

bool same_components(const char* left, const char* right) noexcept {
    return has_components(view(left), view(right)) && has_components(view(right), view(left));
}

bool hint_selects(const char* hint, const char* prov_name) noexcept {
    return has_components(view(prov_name), view(hint));
}

bool filter_selects(const char* filter, const char* prov_name) noexcept {
    std::string_view list = view(filter);
    if (list.empty()) return true;
    const bool negated = list.front() == '^';
    if (negated) list.remove_prefix(1);
    const bool found = !all_parts(
        list, ',', [&](std::string_view entry) { return !has_components(view(prov_name), entry); });
    return found != negated;
}

bool names_something(const char* list) noexcept {
    return list != nullptr && *list != '\0' && *list != '^';
}

bool same_text(const char* left, const char* right) noexcept {
    return same(view(left), view(right));
}

}  // namespace compat::fi
