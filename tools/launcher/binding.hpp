// SPDX-License-Identifier: BSD-3-Clause
// Whether a program that is started with our libraries in front will really use them, and why not.
#pragma once

#include <string>
#include <vector>

namespace compat::tools {

enum class Verdict {
    binds,  ///< it is linked to a library of ours, and the loader will take that
    may,    ///< nobody can tell before it runs
    never,  ///< it will not, whatever the environment says
};

struct Binding {
    Verdict verdict = Verdict::may;
    std::vector<std::string> reasons;  ///< in the order in which they were found
    bool needs_preload = false;        ///< LD_LIBRARY_PATH alone would not do
};

struct Launch {
    std::string dropins;   ///< the directory of the libraries with upstream's SONAMEs
    bool preload = false;  ///< put them into LD_PRELOAD too
};

/// The value of LD_PRELOAD, or of LD_LIBRARY_PATH, with ours put in; what the user has comes first
/// in LD_PRELOAD (a sanitizer's runtime has to) and last in the path.
std::string preload_value(const Launch& launch);
std::string path_value(const Launch& launch);

/// The file that execvp(3) would start; empty when there is none.
std::string find_program(const std::string& name);

/// path names a program or a library (a plug-in).
Binding examine(const std::string& path, const Launch& launch);

}  // namespace compat::tools
