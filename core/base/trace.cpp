// SPDX-License-Identifier: BSD-3-Clause
#include "core/base/trace.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <mutex>
#include <new>

#include "core/base/config.hpp"
#include "core/base/log.hpp"

namespace compat::core {
namespace {

/// A line of text that is cut rather than allocated.
class Line {
public:
    [[gnu::format(printf, 2, 3)]] void add(const char* format, ...) noexcept {
        va_list arguments;
        va_start(arguments, format);
        const int more =
            std::vsnprintf(text_.data() + used_, text_.size() - used_, format, arguments);
        va_end(arguments);
        if (more > 0) used_ = std::min(text_.size() - 1, used_ + static_cast<std::size_t>(more));
    }
    /// As a JSON string; what would need an escape is left out.
    void add_text(const char* text) noexcept {
        add("\"");
        for (; *text != '\0'; ++text)
            if (*text >= ' ' && *text != '"' && *text != '\\' && *text != 0x7f) add("%c", *text);
        add("\"");
    }
    [[nodiscard]] const char* data() const noexcept { return text_.data(); }
    [[nodiscard]] std::size_t size() const noexcept { return used_; }

private:
    std::array<char, 1024> text_{};
    std::size_t used_ = 0;
};

/// The file of this process. It is a complete JSON array after every event, since each one
/// overwrites the closing bracket: a process may be killed at any time.
class File {
public:
    void append(const Line& event) noexcept {
        const std::lock_guard guard(lock_);
        const int error = errno;  // the program's
        if (ready()) write_event(event);
        errno = error;
    }

    static void watch_forks() noexcept;
    void before_fork() noexcept { lock_.lock(); }
    void after_fork_in_parent() noexcept { lock_.unlock(); }
    /// A child has a file of its own, if it does anything.
    void after_fork_in_child() noexcept {
        if (is_ours()) close(fd_);
        fd_ = -1;
        state_ = State::closed;
        lock_.unlock();
    }

private:
    enum class State : std::uint8_t { closed, open, failed };
    static constexpr char kEnd[] = "\n]\n";

    bool ready() noexcept {
        if (state_ == State::closed) create();
        if (state_ == State::open && !is_ours() && !reopen()) fail("it was closed and is gone");
        return state_ == State::open;
    }

    void fail(const char* why) noexcept {
        state_ = State::failed;
        COMPAT_LOG_WARNING("no more trace in %s: %s", path_.data(), why);
    }

    /// The program may have closed what it did not know, and be using the number for something
    /// else.
    [[nodiscard]] bool is_ours() const noexcept {
        struct stat now {};
        return fd_ >= 0 && fstat(fd_, &now) == 0 && now.st_dev == device_ && now.st_ino == inode_;
    }

    void create() noexcept {
        // The directory of now: the program may change it.
        const char* const name = setting_text(Setting::trace);
        std::array<char, PATH_MAX> folder{};
        const bool relative = *name != '/' && getcwd(folder.data(), folder.size() - 1) != nullptr;
        const int length =
            std::snprintf(path_.data(), path_.size(), "%s%s%s.%d.json", folder.data(),
                          relative ? "/" : "", name, static_cast<int>(getpid()));
        if (length < 0 || static_cast<std::size_t>(length) >= path_.size())
            return fail("the name is too long");
        fd_ = open(path_.data(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
        struct stat made {};
        if (fd_ < 0 || fstat(fd_, &made) != 0) return fail(std::strerror(errno));
        device_ = made.st_dev;
        inode_ = made.st_ino;
        end_ = 0;
        state_ = State::open;
        Line first;
        first.add(R"({"name":"process_name","ph":"M","pid":%d,"args":{"name":)",
                  static_cast<int>(getpid()));
        first.add_text(program_invocation_short_name);
        first.add("}}");
        write_event(first);
    }

    bool reopen() noexcept {
        fd_ = open(path_.data(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        return is_ours();
    }

    void write_event(const Line& event) noexcept {
        std::array<char, sizeof(Line) + 16> text;
        const int length = std::snprintf(text.data(), text.size(), "%s%s%s",
                                         end_ == 0 ? "[\n" : ",\n", event.data(), kEnd);
        if (pwrite(fd_, text.data(), static_cast<std::size_t>(length), end_) == length) {
            end_ += length - static_cast<int>(sizeof kEnd - 1);
            return;
        }
        fail(std::strerror(errno));
        // What did not fit is taken back.
        const auto rest = static_cast<ssize_t>(sizeof kEnd - 1);
        if (pwrite(fd_, kEnd, sizeof kEnd - 1, end_) == rest && ftruncate(fd_, end_ + rest) != 0)
            return;
    }

    Lock lock_;
    State state_ = State::closed;
    int fd_ = -1;
    off_t end_ = 0;  ///< behind the last event
    dev_t device_ = 0;
    ino_t inode_ = 0;
    std::array<char, 2 * PATH_MAX> path_{};
};

constinit File g_file;
constinit std::atomic<bool> g_watches_forks{false};

void File::watch_forks() noexcept {
    if (g_watches_forks.exchange(true)) return;
    const int rc =
        pthread_atfork([] { g_file.before_fork(); }, [] { g_file.after_fork_in_parent(); },
                       [] { g_file.after_fork_in_child(); });
    if (rc != 0) COMPAT_LOG_ERROR("cannot notice fork(), errno %d", rc);
}

constinit std::atomic<std::uint64_t> g_queues{0};

void begin(Line& line, const char* kind, char phase, std::uint64_t id, std::uint64_t at) noexcept {
    line.add(R"({"name":"%s","cat":"operation","ph":"%c","id":"0x%llx","pid":%d,"tid":%d,)"
             R"("ts":%llu.%03llu,"args":{)",
             kind, phase, static_cast<unsigned long long>(id), process_id(), gettid(),
             static_cast<unsigned long long>(at / 1000),
             static_cast<unsigned long long>(at % 1000));
}

void finish(Line& line) noexcept {
    line.add("}}");
    g_file.append(line);
}

}  // namespace

bool Trace::wanted() noexcept {
    return std::strcmp(setting_text(Setting::trace), "off") != 0;
}

std::unique_ptr<Trace> Trace::create() noexcept {
    if (!wanted()) return nullptr;
    File::watch_forks();  // before the progress thread does: it traces
    return std::unique_ptr<Trace>(new (std::nothrow) Trace(++g_queues));
}

std::uint64_t Trace::now() noexcept {
    timespec at{};
    clock_gettime(CLOCK_MONOTONIC, &at);
    return static_cast<std::uint64_t>(at.tv_sec) * 1'000'000'000U +
           static_cast<std::uint64_t>(at.tv_nsec);
}

void Trace::set_peer(const SocketAddress& peer) noexcept {
    peer_ = peer.text();
}

void Trace::post(std::uint64_t number, std::uint64_t at, const char* kind,
                 const TracedPost& post) noexcept {
    if (origin_.is_parent()) return;
    Line line;
    begin(line, kind, 'b', id(number), at);
    line.add(R"("operation":"%s","queue":%llu,"bytes":%llu,"local":"0x%llx","lkey":"0x%x",)",
             post.operation, static_cast<unsigned long long>(queue_),
             static_cast<unsigned long long>(post.bytes),
             static_cast<unsigned long long>(post.local_address), post.lkey);
    if (post.has_remote)
        line.add(R"("remote":"0x%llx","rkey":"0x%x",)",
                 static_cast<unsigned long long>(post.remote_address), post.rkey);
    line.add(R"("flags":"%s","context":"%p","peer":)", post.flags, post.context);
    line.add_text(post.peer != nullptr ? post.peer : peer_.c_str());
    finish(line);
}

void Trace::acknowledge(std::uint64_t number, std::uint64_t at) noexcept {
    if (origin_.is_parent()) return;
    Line line;
    begin(line, "acknowledge", 'n', id(number), at);
    finish(line);
}

void Trace::end(std::uint64_t number, const char* kind, const char* status,
                std::uint64_t bytes) noexcept {
    if (origin_.is_parent()) return;
    Line line;
    begin(line, kind, 'e', id(number), now());
    line.add(R"("bytes":%llu,"status":)", static_cast<unsigned long long>(bytes));
    line.add_text(status);
    finish(line);
}

}  // namespace compat::core
