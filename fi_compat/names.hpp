// SPDX-License-Identifier: BSD-3-Clause
// Provider names as lists: "core;utility", and the filters that select among them.
#pragma once

namespace compat::fi {

/// Whether two names have the same ";"-separated components, in any order and case.
bool same_components(const char* left, const char* right) noexcept;

/// hints->fabric_attr->prov_name: every component it names must be one of ours; a component with
/// "^" before it must not. Null or empty selects all.
bool hint_selects(const char* hint, const char* prov_name) noexcept;

/// FI_PROVIDER: a ","-separated list of such names, of which one must select ours; with "^" before
/// the list none may. Null or empty selects all.
bool filter_selects(const char* filter, const char* prov_name) noexcept;

/// Whether a filter that selects does so by naming something (and not by exclusion).
bool names_something(const char* list) noexcept;

bool same_text(const char* left, const char* right) noexcept;  ///< in any case; neither null

}  // namespace compat::fi
