// SPDX-License-Identifier: BSD-3-Clause
#include "tests/e2e/tap/dissection.hpp"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace compat::test {
namespace {

// A preloaded library is for the program under test. Two heuristics of tshark take short Sends for
// protocols of their own and then find them malformed.
constexpr std::string_view kTshark =
    "env -u LD_PRELOAD tshark -n -T pdml -z expert -o tcp.check_checksum:TRUE "
    "-o ip.check_checksum:TRUE --disable-protocol rpcordma --disable-protocol smb_direct "
    "2>/dev/null -r ";

constexpr std::string_view kClientAddress = "10.0.0.1";  // as TcpFlow has it
constexpr std::string_view kChecksumBad = "0";

struct ClosePipe {
    void operator()(std::FILE* pipe) const noexcept {
        if (pclose(pipe) == 0) return;
        std::fprintf(stderr, "tshark failed\n");
        std::exit(EXIT_FAILURE);
    }
};

/// The value of an attribute of the element in this line, which PDML always keeps in one line.
std::string_view attribute(std::string_view line, std::string_view name) {
    const std::string key = " " + std::string(name) + "=\"";
    const std::size_t at = line.find(key);
    if (at == std::string_view::npos) return {};
    const std::string_view rest = line.substr(at + key.size());
    return rest.substr(0, rest.find('"'));
}

unsigned long long number(std::string_view text) {
    return std::strtoull(std::string(text).c_str(), nullptr, 0);
}

struct Field {
    std::string_view name;
    std::string_view show;
    std::string_view showname;
    [[nodiscard]] unsigned long long value() const { return number(show); }
    [[nodiscard]] bool flag() const { return value() != 0 || show == "True"; }
};

template <class Subject>
struct Setter {
    std::string_view name;
    void (*set)(Subject&, const Field&);
};

constexpr Setter<StartFrameSeen> kStartFrameFields[] = {
    {"iwarp_mpa.marker_flag", [](auto& frame, auto& field) { frame.markers = field.flag(); }},
    {"iwarp_mpa.crc_flag", [](auto& frame, auto& field) { frame.crc = field.flag(); }},
    {"iwarp_mpa.rej_flag", [](auto& frame, auto& field) { frame.rejected = field.flag(); }},
    {"iwarp_mpa.res",
     [](auto& frame, auto& field) { frame.reserved = static_cast<unsigned>(field.value()); }},
    {"iwarp_mpa.rev",
     [](auto& frame, auto& field) { frame.revision = static_cast<unsigned>(field.value()); }},
    {"iwarp_mpa.pdlength", [](auto& frame, auto& field) { frame.private_bytes = field.value(); }},
};

constexpr Setter<FpduSeen> kFpduFields[] = {
    {"iwarp_mpa.ulpdulength", [](auto& fpdu, auto& field) { fpdu.ulpdu_bytes = field.value(); }},
    {"iwarp_mpa.crc_check",
     [](auto& fpdu, auto& field) {
         fpdu.crc_checked = true;
         fpdu.crc_good = field.showname.find("Good CRC32") != std::string_view::npos;
     }},
    {"iwarp_ddp", [](auto& fpdu, auto&) { ++fpdu.segments; }},
    {"iwarp_ddp.tagged_flag", [](auto& fpdu, auto& field) { fpdu.tagged = field.flag(); }},
    {"iwarp_ddp.last_flag", [](auto& fpdu, auto& field) { fpdu.last = field.flag(); }},
    {"iwarp_ddp.rsvd",
     [](auto& fpdu, auto& field) { fpdu.ddp_reserved = static_cast<unsigned>(field.value()); }},
    {"iwarp_ddp.dv",
     [](auto& fpdu, auto& field) { fpdu.ddp_version = static_cast<unsigned>(field.value()); }},
    {"iwarp_ddp.qn",
     [](auto& fpdu, auto& field) { fpdu.queue = static_cast<std::uint32_t>(field.value()); }},
    {"iwarp_ddp.msn",
     [](auto& fpdu, auto& field) { fpdu.msn = static_cast<std::uint32_t>(field.value()); }},
    {"iwarp_ddp.mo",
     [](auto& fpdu, auto& field) {
         fpdu.message_offset = static_cast<std::uint32_t>(field.value());
     }},
    {"iwarp_rdma.version",
     [](auto& fpdu, auto& field) { fpdu.rdmap_version = static_cast<unsigned>(field.value()); }},
    {"iwarp_rdma.rsv",
     [](auto& fpdu, auto& field) { fpdu.rdmap_reserved = static_cast<unsigned>(field.value()); }},
    {"iwarp_rdma.opcode",
     [](auto& fpdu, auto& field) { fpdu.opcode = static_cast<unsigned>(field.value()); }},
    {"iwarp_rdma.rdmardsz", [](auto& fpdu, auto& field) { fpdu.read_bytes = field.value(); }},
    {"iwarp_rdma.atomic.request_identifier",
     [](auto& fpdu, auto& field) { fpdu.request_id = field.value(); }},
    {"iwarp_rdma.atomic.original_request_identifier",
     [](auto& fpdu, auto& field) { fpdu.response_id = field.value(); }},
};

template <class Subject, std::size_t count>
void apply(const Setter<Subject> (&setters)[count], Subject& subject, const Field& field) {
    for (const Setter<Subject>& setter : setters)
        if (setter.name == field.name) setter.set(subject, field);
}

/// Goes through PDML in document order: what was opened last is what a field belongs to.
class PdmlReader {
public:
    explicit PdmlReader(Dissection& result) : result_(result) {}

    void line(std::string_view text) {
        if (text.find("<packet>") != std::string_view::npos) {
            begin_packet();
        } else if (text.find("<proto name=\"_ws.malformed\"") != std::string_view::npos) {
            result_.malformed.push_back(packet_);
        } else if (text.find("<field name=") != std::string_view::npos) {
            field({attribute(text, "name"), attribute(text, "show"), attribute(text, "showname")});
        }
    }

private:
    void begin_packet() {
        ++packet_;
        conversation_ = nullptr;
        start_frame_ = nullptr;
        fpdu_ = nullptr;
    }

    void field(const Field& field) {
        if (field.name == "ip.src")
            from_ = field.show == kClientAddress ? Side::client : Side::server;
        if (field.name == "ip.checksum.status" || field.name == "tcp.checksum.status") {
            if (field.show == kChecksumBad) result_.bad_checksums.push_back(packet_);
        }
        if (field.name == "tcp.stream") conversation_ = &result_.conversations[field.value()];
        if (conversation_ == nullptr) return;
        if (field.name == "tcp.len")
            conversation_->payload_bytes[static_cast<std::size_t>(from_)] += field.value();
        if (field.name == "iwarp_mpa.req" || field.name == "iwarp_mpa.rep")
            begin_start_frame(field);
        if (field.name == "iwarp_mpa.fpdu") begin_fpdu();
        if (start_frame_ != nullptr) apply(kStartFrameFields, *start_frame_, field);
        if (fpdu_ != nullptr) apply(kFpduFields, *fpdu_, field);
    }

    void begin_start_frame(const Field& field) {
        StartFrameSeen frame;
        frame.from = from_;
        frame.is_reply = field.name == "iwarp_mpa.rep";
        frame.fpdus_before = conversation_->fpdus.size();
        start_frame_ = &conversation_->start_frames.emplace_back(frame);
        fpdu_ = nullptr;
    }

    void begin_fpdu() {
        FpduSeen fpdu;
        fpdu.from = from_;
        fpdu.packet = packet_;
        fpdu_ = &conversation_->fpdus.emplace_back(fpdu);
        start_frame_ = nullptr;
    }

    Dissection& result_;
    unsigned long packet_ = 0;
    Side from_ = Side::client;
    Conversation* conversation_ = nullptr;
    StartFrameSeen* start_frame_ = nullptr;
    FpduSeen* fpdu_ = nullptr;
};

/// The table of -z expert: a line "Warns (4)", then rows "  2    Request  IWARP_MPA  Res field …".
class ExpertReader {
public:
    explicit ExpertReader(Dissection& result) : result_(result) {}

    void line(std::string_view text) {
        if (!text.empty() && text[0] != ' ' && text[0] != '=') {
            severity_ = text.substr(0, text.find(' '));
            return;
        }
        std::string_view frequency = word(text);
        if (frequency.empty() || frequency.find_first_not_of("0123456789") != frequency.npos)
            return;
        if (severity_ != "Errors" && severity_ != "Warns") return;
        word(text);  // group
        const std::string_view protocol = word(text);
        const std::size_t start = text.find_first_not_of(' ');
        if (start == text.npos) return;
        result_.experts.push_back(
            {severity_, std::string(protocol), std::string(text.substr(start))});
    }

private:
    static std::string_view word(std::string_view& text) {
        const std::size_t start = std::min(text.find_first_not_of(' '), text.size());
        const std::size_t end = std::min(text.find(' ', start), text.size());
        const std::string_view result = text.substr(start, end - start);
        text.remove_prefix(end);
        return result;
    }

    Dissection& result_;
    std::string severity_;
};

}  // namespace

bool have_tshark() {
    return std::system("command -v tshark >/dev/null 2>&1") == 0;
}

Dissection dissect(const std::string& capture) {
    const std::string command = std::string(kTshark) + "'" + capture + "'";
    const std::unique_ptr<std::FILE, ClosePipe> pipe(popen(command.c_str(), "re"));
    Dissection result;
    PdmlReader pdml(result);
    ExpertReader expert(result);
    bool in_pdml = true;
    std::unique_ptr<char, decltype(&std::free)> buffer(nullptr, &std::free);
    char* line = nullptr;
    std::size_t space = 0;
    for (ssize_t size = 0; (size = getline(&line, &space, pipe.get())) > 0;) {
        std::string_view text(line, static_cast<std::size_t>(size));
        while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
        if (in_pdml)
            pdml.line(text);
        else
            expert.line(text);
        if (text == "</pdml>") in_pdml = false;
    }
    buffer.reset(line);
    if (in_pdml) {
        std::fprintf(stderr, "tshark said nothing about %s\n", capture.c_str());
        std::exit(EXIT_FAILURE);
    }
    return result;
}

}  // namespace compat::test
