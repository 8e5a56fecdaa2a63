#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Which room may include what, and which names may not appear in it.

usage: check_includes.py SOURCE_DIRECTORY
"""
import re
import sys

import project

DEVICE_INTERFACE = r"core/device/device\.hpp"
DEVICE_SHARED = r"core/device/cm_events\.hpp"
BASE_AND_MODEL = [r"core/base/.*", r"core/model/.*"]

# (path of the file, quoted headers it may include); the first row that matches a file counts.
# {dir} is the folder that the row's group names: a device does not include another device.
ROOMS = [
    (r"core/base/.*", [r"core/base/.*"]),
    (r"core/model/.*", BASE_AND_MODEL),
    (r"core/device/registry\.cpp",
     BASE_AND_MODEL + [DEVICE_INTERFACE, r"core/device/registry\.hpp",
                       r"core/device/\w+/\w+_device\.hpp"]),
    (r"core/device/[^/]*", BASE_AND_MODEL + [DEVICE_INTERFACE, DEVICE_SHARED]),
    (r"core/device/(?P<dir>\w+)/.*",
     BASE_AND_MODEL + [DEVICE_INTERFACE, DEVICE_SHARED, r"core/device/{dir}/.*"]),
    (r"core/core\.hpp",
     BASE_AND_MODEL + [DEVICE_INTERFACE, r"core/device/registry\.hpp", r"core/engine/.*",
                       r"core/rdm/.*"]),
    (r"core/engine/.*",
     BASE_AND_MODEL + [DEVICE_INTERFACE, r"core/device/registry\.hpp", r"core/engine/.*"]),
    (r"core/rdm/.*",
     BASE_AND_MODEL + [DEVICE_INTERFACE, r"core/device/registry\.hpp", r"core/engine/.*",
                       r"core/rdm/.*"]),
    (r"fi_compat/.*", [r"core/core\.hpp", r"fi_compat/.*", r"include/rdma/.*", r"rdma/.*"]),
    (r"rpma_compat/.*", [r"core/core\.hpp", r"rpma_compat/.*", r"include/librpma\.h",
                         r"librpma\.h"]),
    (r"include/.*", [r"rdma/.*"]),
]

# (header in angle brackets, files that may include it, reason)
SYSTEM_HEADERS = [
    (r"iostream|regex|locale|fstream|sstream", r"$^", "static initialisation and size"),
    (r"tl/expected\.hpp", r"core/base/result\.hpp", "result.hpp wraps it"),
    (r"infiniband/.*", r"core/device/verbs/.*|rpma_compat/.*|include/librpma\.h",
     "libibverbs belongs to the verbs device and to librpma's API"),
    (r"rdma/rdma_.*", r"core/device/verbs/.*", "librdmacm belongs to the verbs device"),
    (r"rdma/.*", r"fi_compat/.*|include/rdma/.*|core/device/verbs/.*", "libfabric's face only"),
    (r"librpma\.h", r"rpma_compat/.*", "librpma's face only"),
    (r"libpmem2?\.h", r"core/device/.*", "persistence is the device's"),
]

# (files, pattern in code, reason)
FORBIDDEN_NAMES = [
    (r"core/.*", r"\bFI_[A-Z]\w*|\bfi_[a-z]\w*|\bfid_[a-z]\w*", "the core knows nothing of libfabric"),
    (r"core/.*", r"\bRPMA_[A-Z]\w*|\brpma_[a-z]\w*", "the core knows nothing of librpma"),
    (r"rpma_compat/.*", r"(?<![\w.>:])ibv_\w+\s*\(", "rpma_compat calls no ibv_*"),
    (r"(core|fi_compat|rpma_compat)/.*", r"(?<![\w.>])(?:std::)?(?:abort|exit|_exit|quick_exit)\s*\(",
     "a guest does not end the host"),
    (r"(core|fi_compat|rpma_compat)/.*", r"\bstd::c(?:out|err|log)\b|(?<!\w)printf\s*\(",
     "a guest does not write to the host's streams"),
]
EXCEPTIONS = {
    ("core/base/assert.hpp", "a guest does not end the host"),  # COMPAT_FATAL_ASSERT: tests only
}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def check_quoted(findings, path, line, header):
    for room, allowed in ROOMS:
        match = re.fullmatch(room, path)
        if match:
            patterns = [p.replace("{dir}", match.groupdict().get("dir") or "") for p in allowed]
            if not any(re.fullmatch(p, header) for p in patterns):
                findings.error(path, line, f'this room does not include "{header}"')
            return
    findings.error(path, line, "the file is in no known room")


def check_system(findings, path, line, header):
    for pattern, users, reason in SYSTEM_HEADERS:
        if re.fullmatch(pattern, header):
            if not re.fullmatch(users, path):
                findings.error(path, line, f"<{header}> is not for this file: {reason}")
            return


def check_names(findings, path, code):
    for where, pattern, reason in FORBIDDEN_NAMES:
        if re.fullmatch(where, path) and (path, reason) not in EXCEPTIONS:
            for match in re.finditer(pattern, code):
                findings.error(path, line_of(code, match.start()), f"{match.group(0)}: {reason}")


def check_flag_bits(findings, path, code):
    if not path.startswith("fi_compat/") or "flag_map" in path:
        return
    for match in re.finditer(r"(?<!&)&\s*FI_[A-Z_]+|\bFI_[A-Z_]+\s*&(?!&)", code):
        findings.warning(path, line_of(code, match.start()),
                         f"{match.group(0)}: flag bits are tested in flag_map")


def main():
    root = sys.argv[1]
    findings = project.Findings()
    checked = 0
    for room in ("core", "fi_compat", "rpma_compat", "include"):
        for path in project.files(root, project.SOURCE_SUFFIXES, room):
            checked += 1
            text = project.without_comments(project.text_of(root, path))
            for match in INCLUDE.finditer(text):
                check = check_quoted if match.group(1) == '"' else check_system
                check(findings, path, line_of(text, match.start(1)), match.group(2))
            code = project.without_comments(INCLUDE.sub("", text), strings=True)
            check_names(findings, path, code)
            check_flag_bits(findings, path, code)
    findings.exit(checked)


main()
