// SPDX-License-Identifier: BSD-3-Clause
#include "tools/launcher/binding.hpp"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <string_view>

#include "tools/launcher/loader_trace.hpp"
#include "tools/support/dropins.hpp"
#include "tools/support/file_map.hpp"

namespace compat::tools {
namespace {

constexpr int kMaxScripts = 4;  // as the kernel has it

std::string value_of(const char* variable) {
    const char* text = std::getenv(variable);
    return text != nullptr ? text : "";
}

std::string base_name(const std::string& path) {
    return path.substr(path.rfind('/') + 1);
}

bool same_file(const std::string& left, const std::string& right) {
    struct stat a {};
    struct stat b {};
    return stat(left.c_str(), &a) == 0 && stat(right.c_str(), &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

std::string machine_text(const ElfImage& image) {
    struct Row {
        unsigned machine;
        const char* name;
    };
    constexpr std::array kMachines{Row{3, "i386"},   Row{40, "ARM"},      Row{62, "x86-64"},
                                   Row{21, "PPC64"}, Row{183, "AArch64"}, Row{243, "RISC-V"},
                                   Row{22, "S390"}};
    const auto row = std::ranges::find(kMachines, image.machine, &Row::machine);
    const std::string name =
        row != kMachines.end() ? row->name : "machine " + std::to_string(image.machine);
    return name + (image.file_class == 1 ? ", 32 bits" : "");
}

/// Why the loader would ignore the environment for this file, as execve(2) decides it.
std::string privilege_of(const std::string& path) {
    struct stat status {};
    struct statvfs volume {};
    if (stat(path.c_str(), &status) != 0) return {};
    if (statvfs(path.c_str(), &volume) == 0 && (volume.f_flag & ST_NOSUID) != 0) return {};
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) return {};
    if ((status.st_mode & S_ISUID) != 0 && status.st_uid != getuid()) return "is setuid";
    constexpr mode_t kSetgid = S_ISGID | S_IXGRP;
    if ((status.st_mode & kSetgid) == kSetgid && status.st_gid != getgid()) return "is setgid";
    if (getuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0)
        return "has file capabilities";
    return {};
}

std::vector<std::string> words_of(std::string_view line) {
    std::vector<std::string> words;
    while (!line.empty()) {
        const std::size_t begin = line.find_first_not_of(" \t");
        if (begin == line.npos) break;
        line.remove_prefix(begin);
        const std::size_t end = std::min(line.find_first_of(" \t"), line.size());
        words.emplace_back(line.substr(0, end));
        line.remove_prefix(end);
    }
    return words;
}

/// The program that runs a script; empty when the file is no script.
std::string interpreter_of(Bytes file) {
    const std::string_view text(reinterpret_cast<const char*>(file.data()),
                                std::min<std::size_t>(file.size(), PATH_MAX));
    if (!text.starts_with("#!")) return {};
    const std::vector<std::string> words = words_of(text.substr(2, text.find('\n') - 2));
    if (words.empty()) return {};
    if (base_name(words[0]) != "env") return words[0];
    // env starts the first word that is neither an option nor an assignment
    for (std::size_t at = 1; at < words.size(); ++at)
        if (!words[at].starts_with('-') && words[at].find('=') == std::string::npos)
            return find_program(words[at]);
    return words[0];
}

class Examination {
public:
    explicit Examination(const Launch& launch) : launch_(launch) {}

    Binding run(const std::string& path) {
        look_at(path, 0);
        return binding_;
    }

private:
    struct Object {
        std::string path;
        ElfImage image;
    };

    void say(const std::string& reason) { binding_.reasons.push_back(reason); }
    void decide(Verdict verdict, const std::string& reason) {
        binding_.verdict = verdict;
        say(reason);
    }

    void look_at(const std::string& path, int scripts) {
        const FileMap file(path);
        if (!file) return decide(Verdict::may, path + " cannot be read");
        if (!is_elf(file.bytes())) return look_at_script(path, file, scripts);
        std::string reason;
        const auto image = read_elf(file.bytes(), reason);
        if (!image) return decide(Verdict::never, path + " is no sound ELF file: " + reason);
        look_at_image(path, *image);
        // What runs a script may do without our libraries, and what the script starts may not.
        if (scripts > 0 && binding_.verdict == Verdict::never) binding_.verdict = Verdict::may;
    }

    void look_at_script(const std::string& path, const FileMap& file, int scripts) {
        const std::string interpreter = interpreter_of(file.bytes());
        if (interpreter.empty())
            return decide(Verdict::may, path + " is neither an ELF file nor says what runs it");
        if (scripts == kMaxScripts) return decide(Verdict::never, path + ": too many scripts");
        say(path + " is a script that " + interpreter +
            " runs; programs that it starts get the same environment");
        look_at(interpreter, scripts + 1);
    }

    void look_at_image(const std::string& path, const ElfImage& image) {
        const FileMap file(launch_.dropins + "/" + kServed[0].soname);
        std::string reason;
        const auto own = read_elf(file.bytes(), reason);
        if (!own) return decide(Verdict::never, "no libraries in " + launch_.dropins);
        if (!image.same_machine(*own))
            return decide(Verdict::never, path + " is for another machine (" + machine_text(image) +
                                              "); the libraries are for " + machine_text(*own));
        if (!image.has_dynamic || (image.is_executable && image.interpreter.empty()))
            return decide(Verdict::never,
                          path + " is linked statically: it loads no library that could be ours");
        if (const std::string privilege = privilege_of(path); !privilege.empty())
            return decide(Verdict::never, path + " " + privilege +
                                              ": the loader ignores LD_LIBRARY_PATH and "
                                              "LD_PRELOAD; run it as its owner, or link it to us");
        const std::string loader = own_loader();
        if (!image.interpreter.empty() && !same_file(image.interpreter, loader))
            return look_at_foreign(path, image, loader);
        trace_and_judge(path, image, loader);
    }

    void look_at_foreign(const std::string& path, const ElfImage& image,
                         const std::string& loader) {
        const bool other_libc = image.interpreter.find("musl") != std::string::npos;
        decide(other_libc ? Verdict::never : Verdict::may,
               path + " is started by " + image.interpreter + ", not by " + loader +
                   ": the libraries need the C library they were built with, or a newer one");
    }

    void trace_and_judge(const std::string& path, const ElfImage& image,
                         const std::string& loader) {
        collect(path, image, loader, launch_);
        const bool linked = is_linked();
        if (linked && !launch_.preload && !found_elsewhere().empty()) {
            // A DT_RPATH is searched before LD_LIBRARY_PATH; what is loaded already is not
            // searched.
            Launch stronger = launch_;
            stronger.preload = true;
            binding_.needs_preload = true;
            say(blame());
            collect(path, image, loader, stronger);
        }
        if (refused_) return decide(Verdict::never, "the loader refuses " + path + ": " + refusal_);
        if (linked)
            judge_linked();
        else
            judge_unlinked();
    }

    void collect(const std::string& path, const ElfImage& image, const std::string& loader,
                 const Launch& launch) {
        refused_ = !trace(loader, path, path_value(launch),
                          launch.preload ? preload_value(launch) : value_of("LD_PRELOAD"), loaded_);
        if (refused_) {
            refusal_ = loaded_.front().name;
            loaded_.clear();
        }
        objects_.clear();
        objects_.push_back({path, image});
        for (const Loaded& loaded : loaded_) {
            const FileMap file(loaded.path);
            std::string reason;
            if (auto other = read_elf(file.bytes(), reason))
                objects_.push_back({loaded.path, std::move(*other)});
        }
    }

    /// The path under which a name was found; empty when it was not asked for.
    [[nodiscard]] std::string path_of(const std::string& soname) const {
        for (const Loaded& object : loaded_)
            if (base_name(object.name) == soname) return object.path;
        return {};
    }

    [[nodiscard]] const Object* who_needs(const std::string& soname) const {
        for (const Object& object : objects_)
            if (std::ranges::find(object.image.needed, soname) != object.image.needed.end())
                return &object;
        return nullptr;
    }

    [[nodiscard]] bool is_linked() const {
        return std::ranges::any_of(kServed, [&](const Served& served) {
            return who_needs(served.soname) != nullptr || who_needs(served.own) != nullptr;
        });
    }

    [[nodiscard]] bool is_ours(const Served& served, const std::string& path) const {
        return same_file(path, launch_.dropins + "/" + served.soname);
    }

    /// The SONAME that is found elsewhere than with us.
    [[nodiscard]] std::string found_elsewhere() const {
        for (const Served& served : kServed)
            if (who_needs(served.soname) != nullptr && !is_ours(served, path_of(served.soname)))
                return served.soname;
        return {};
    }

    [[nodiscard]] std::string blame() const {
        const std::string soname = found_elsewhere();
        const Object* const user = who_needs(soname);
        const bool has_rpath = !user->image.rpath.empty() && user->image.runpath.empty();
        return user->path + " finds " + soname + " as " + path_of(soname) +
               (has_rpath ? " by its own DT_RPATH " + user->image.rpath : std::string()) +
               ": LD_LIBRARY_PATH comes too late, LD_PRELOAD is needed";
    }

    void judge_linked() {
        for (const Served& served : kServed) {
            if (const Object* user = who_needs(served.own); user != nullptr)
                decide(Verdict::binds, user->path + " is linked to " + path_of(served.own) +
                                           ", which is ours under its own name");
            const Object* const user = who_needs(served.soname);
            if (user == nullptr) continue;
            const std::string path = path_of(served.soname);
            if (!is_ours(served, path))
                return decide(Verdict::never,
                              user->path + " uses " + served.soname + " of " + path);
            decide(Verdict::binds, user->path + " is linked to " + served.soname + ": " + path);
            if (!versions_fit(served)) return;
        }
    }

    bool versions_fit(const Served& served) {
        const FileMap file(launch_.dropins + "/" + served.soname);
        std::string reason;
        const auto own = read_elf(file.bytes(), reason);
        if (!own) return true;
        for (const Object& object : objects_)
            for (const VersionNeed& need : object.image.version_needs)
                for (const std::string& version : need.versions)
                    if (need.library == served.soname &&
                        std::ranges::find(own->versions, version) == own->versions.end()) {
                        decide(Verdict::never, object.path + " needs version " + version + " of " +
                                                   served.soname +
                                                   ", which ours lacks: it will not start");
                        return false;
                    }
        return true;
    }

    void judge_unlinked() {
        for (const Object& object : objects_) {
            const FileMap file(object.path);
            for (const Served& served : kServed) {
                if (object.image.soname == served.soname) continue;
                for (const std::string& text : texts_with(file.bytes(), served.stem))
                    say_mention(object.path, served, text);
            }
        }
        binding_.verdict = Verdict::may;
        if (mentioned_) return;
        say(objects_.front().path +
            " is neither linked to libfabric.so.1 or librpma.so.0 nor names them: only what it "
            "loads or starts later could use ours");
    }

    void say_mention(const std::string& path, const Served& served, const std::string& text) {
        mentioned_ = true;
        if (text.starts_with('/'))
            say(path + " names " + text + ": if it opens that path, nothing turns it to ours");
        else if (text == served.stem)
            say(path + " names " + text +
                ": if it opens that, it gets the link of upstream's "
                "development package, not ours");
        else
            say(path + " names " + text + ": if it opens that with dlopen, it gets ours");
    }

    const Launch& launch_;
    Binding binding_;
    std::vector<Loaded> loaded_;
    std::vector<Object> objects_;
    bool refused_ = false;
    std::string refusal_;
    bool mentioned_ = false;
};

}  // namespace

std::string preload_value(const Launch& launch) {
    std::string value = value_of("LD_PRELOAD");
    for (const Served& served : kServed) {
        const std::string library = launch.dropins + "/" + served.soname;
        if (access(library.c_str(), R_OK) != 0) continue;
        if (!value.empty()) value += ':';
        value += library;
    }
    return value;
}

std::string path_value(const Launch& launch) {
    const std::string before = value_of("LD_LIBRARY_PATH");
    return before.empty() ? launch.dropins : launch.dropins + ":" + before;
}

std::string find_program(const std::string& name) {
    if (name.find('/') != std::string::npos) return access(name.c_str(), F_OK) == 0 ? name : "";
    std::string path = value_of("PATH");
    if (path.empty()) path = "/bin:/usr/bin";
    for (std::size_t begin = 0; begin <= path.size();) {
        const std::size_t end = std::min(path.find(':', begin), path.size());
        const std::string folder = path.substr(begin, end - begin);
        const std::string file = (folder.empty() ? "." : folder) + "/" + name;
        struct stat status {};
        if (stat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
            access(file.c_str(), X_OK) == 0)
            return file;
        begin = end + 1;
    }
    return {};
}

Binding examine(const std::string& path, const Launch& launch) {
    return Examination(launch).run(path);
}

}  // namespace compat::tools
