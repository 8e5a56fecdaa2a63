// SPDX-License-Identifier: BSD-3-Clause
// The environment variables as fi_getparams(3) lists them (fi_info -e).
#include <rdma/providers/fi_prov.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "core/core.hpp"
#include "fi_compat/boundary.hpp"

namespace {

struct ParamRow {
    const char* name;
    fi_param_type type;
    const char* help;
};

constexpr std::array kParams{
    ParamRow{"FI_PROVIDER", FI_PARAM_STRING,
             "Only offer providers of this list; with ^ before it, only those that are not in it"},
    ParamRow{"FI_LOG_LEVEL", FI_PARAM_STRING,
             "What to log on stderr: warn, trace, info, debug (default: nothing)"},
    ParamRow{"FI_LOG_PROV", FI_PARAM_STRING, "Only log lines of these providers (default: all)"},
    ParamRow{"FI_LOG_SUBSYS", FI_PARAM_STRING, "Only log these subsystems (default: all)"},
    ParamRow{"FI_LOG_INTERVAL", FI_PARAM_INT,
             "Delay in ms between rate limited log messages (default: 2000)"},
    ParamRow{"FI_TCP_IFACE", FI_PARAM_STRING,
             "Only offer this network interface on the software device (default: all)"},
    ParamRow{"FI_VERBS_IFACE", FI_PARAM_STRING,
             "Only offer this network interface on RDMA devices (default: all)"},
};

char* copy(const std::string& text) {
    char* copied = strdup(text.c_str());
    if (copied == nullptr) throw std::bad_alloc();
    return copied;
}

void fill(fi_param& param, const char* name, fi_param_type type, const std::string& help) {
    param.name = copy(name);
    param.type = type;
    param.help_string = copy(help);
    const char* value = std::getenv(name);
    param.value = value != nullptr ? copy(value) : nullptr;
}

void fill_all(fi_param* param) {
    for (const ParamRow& row : kParams) fill(*param++, row.name, row.type, row.help);
    for (const auto& row : compat::core::settings())
        fill(*param++, row.name, FI_PARAM_STRING,
             std::string(row.meaning) + " (" + row.unit + ", default: " + row.default_value + ")");
}

}  // namespace

extern "C" {

COMPAT_EXPORT void fi_freeparams(fi_param* params) {
    if (params == nullptr) return;
    // One element more than the count: the end has no name.
    for (fi_param* param = params; param->name != nullptr; ++param) {
        std::free(const_cast<char*>(param->name));
        std::free(const_cast<char*>(param->help_string));
        std::free(const_cast<char*>(param->value));
    }
    std::free(params);
}

COMPAT_EXPORT int fi_getparams(fi_param** params, int* count) {
    if (params == nullptr || count == nullptr) return -FI_EINVAL;
    const std::size_t number = kParams.size() + compat::core::settings().size();
    auto* list = static_cast<fi_param*>(std::calloc(number + 1, sizeof(fi_param)));
    const int status = compat::fi::c_boundary([&] {
        if (list == nullptr) return -FI_ENOMEM;
        fill_all(list);
        return 0;
    });
    if (status != 0) {
        fi_freeparams(list);
        return status;
    }
    *params = list;
    *count = static_cast<int>(number);
    return 0;
}

// External providers are not loaded, so nobody of them defines or reads parameters here.

COMPAT_EXPORT int fi_param_define(const fi_provider*, const char*, fi_param_type, const char*,
                                  ...) {
    return -FI_ENOSYS;
}

COMPAT_EXPORT int fi_param_get(fi_provider*, const char*, void*) {
    return -FI_ENODATA;
}
}
