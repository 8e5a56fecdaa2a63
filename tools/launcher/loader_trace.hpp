// SPDX-License-Identifier: BSD-3-Clause
// What the dynamic loader would load, by its own word: it is asked to list and runs nothing of the
// program.
#pragma once

#include <string>
#include <vector>

namespace compat::tools {

struct Loaded {
    std::string name;  ///< as it was asked for
    std::string path;
};

/// This process's own loader; empty when it is linked statically.
std::string own_loader();

/// The objects of a program (or library) without itself, in loading order, with these values of the
/// two variables. False when the loader refuses the file; what it says is in objects[0].name then.
bool trace(const std::string& loader, const std::string& path, const std::string& library_path,
           const std::string& preload, std::vector<Loaded>& objects);

}  // namespace compat::tools
