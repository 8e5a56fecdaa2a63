#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The same programs on the distribution's library and on ours: they must say the same, but for the
differences that are listed here with their reasons.

usage: compare.py PROGRAM-OF-OUR-HEADERS PROGRAM-OF-THEIR-HEADERS [ARGUMENT-OF-THE-PROGRAMS]

COMPAT_PRELOAD is what puts our library into a program.
"""
import difflib
import os
import subprocess
import sys

FOUND = "provider "  # how the line of a provider that was found begins
ANY = ""  # what upstream says differs from one run to the next

# (argument of the programs or "" for all of libfabric's, case, how a line begins there, how here, reason)
DIFFERENCES = [
    ("", "a version to come", "-38, left", "-38, cleared",
     "whoever frees the list in spite of the error frees nothing"),
    ("", "a service alone", "source known, destination known", "source known, destination none",
     "1.17 resolves no node to the loopback of IPv6, whatever addr_format asks; 2.x has no peer"),
    ("", "a name and no look-up", FOUND, "-61", "FI_NUMERICHOST: 1.17 looks the name up all the same"),
    ("", "an address of somebody else's", FOUND, "-61", "nobody can listen there"),
    ("", "hints for IPv6", FOUND, "-61", "fi_getinfo(3): addr_format must be what is asked for"),
    ("", "hints for a domain that is not", FOUND, "-61", "fi_getinfo(3): the name must match"),
    ("", "hints for a fabric that is not", FOUND, "-61", "fi_getinfo(3): the name must match"),
    ("rdm", "hints in upper case", "-61", FOUND,
     "names are compared without case, as 1.17 does for a provider without a layer"),
    ("", "eq write, not allowed", "24", "-22", "fi_eq(3): FI_WRITE has to be asked for"),
    ("", "region with unknown flags", "0", "-260", "fi_mr(3): FI_EBADFLAGS"),
    ("", "region with an unknown right", "0", "-22", "not a right of memory"),
    ("msg", "enable without queues", "-263", "-261",
     "fi_endpoint(3): the EQ is missing, too; which is told first is nobody's business"),
    ("rdm", "enable without addresses", "-258", "-267", "fi_endpoint(3): FI_ENOAV"),
    ("rdm", "bind an address vector when enabled", "-22", "-258",
     "fi_endpoint(3): FI_EOPBADSTATE"),
    ("", "write with data", "passive: done -1, flags 22000, length 0",
     "passive: done -1, flags 22004, length 64",
     "fi_cq(3): FI_RMA and the bytes written are told"),
    ("", "inject a write with data", "passive: done -1, flags 22000, length 0",
     "passive: done -1, flags 22004, length 64", "the same"),
    ("rdm", "receive of too much", "passive: 1 error 265 of 51, flags 402, olen 0",
     "passive: 1 error 265 of 51, flags 402, olen 20", "fi_cq(3): what did not fit is told"),
    ("rdm", "write with a key that is not", ANY,
     "active: 1 error 266 of 61, flags 204", "1.17 knows no such error and succeeds, or hangs up"),
    ("rdm", "write past the end", ANY, "active: 1 error 13 of 61, flags 204",
     "the same"),
    ("rdm", "write after misuse", ANY, "active: done 61, flags 204",
     "the endpoint stays usable"),
]


def lines_of(program, words, **variables):
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    done = subprocess.run([program, *words.split()], env=environment | variables, timeout=100,
                          capture_output=True, text=True, check=False)
    if done.returncode != 0 or not done.stdout.endswith("end: reached\n"):
        sys.exit(f"{program} {words} {variables}: status {done.returncode}\n"
                 f"{done.stdout[-2000:]}{done.stderr}")
    return done.stdout.splitlines()


def cases_of(lines):
    """Case to what was said of it, in the order of the cases."""
    cases = {}
    for line in lines:
        case, _, outcome = line.partition(": ")
        cases.setdefault(case, []).append(outcome)
    return cases


def is_as_listed(outcomes, start):
    return any(outcome.startswith(start) for outcome in outcomes)


def faults(words, theirs, ours):
    listed = {case: row for applies, case, *row in DIFFERENCES if applies in ("", words)}
    if list(theirs) != list(ours):
        yield f"other cases: {set(theirs) ^ set(ours)}"
    for case in theirs:
        there, here = theirs[case], ours.get(case, [])
        if case not in listed:
            if there != here:
                yield f"{case}:\n  there {there}\n  here  {here}"
            continue
        start_there, start_here, _ = listed[case]
        if there == here and start_there != ANY:
            yield f"{case}: no longer different: {here}"
        elif not is_as_listed(there, start_there) or not is_as_listed(here, start_here):
            yield f"{case}: not the difference that is listed:\n  there {there}\n  here  {here}"
    for case in listed.keys() - theirs.keys():
        if words != "":
            yield f"{case}: listed, but not tried"


def constant(lines):
    changing = {case for _, case, start_there, *_ in DIFFERENCES if start_there == ANY}
    return [line for line in lines if line.partition(": ")[0] not in changing]


def changes(library, with_their_headers, with_our_headers):
    return difflib.unified_diff(with_their_headers, with_our_headers, "their headers",
                                f"our headers, on {library}", lineterm="", n=0)


def main():
    with_our_headers, with_their_headers, *rest = sys.argv[1:]
    words = " ".join(rest)
    preload = {"LD_PRELOAD": os.environ["COMPAT_PRELOAD"], "FABRIC_COMPAT_DEVICE": "soft"}
    theirs = lines_of(with_their_headers, words)
    ours = lines_of(with_their_headers, words, **preload)
    found = list(faults(words, cases_of(theirs), cases_of(ours)))
    found += changes("their library", constant(theirs), constant(lines_of(with_our_headers, words)))
    found += changes("our library", ours, lines_of(with_our_headers, words, **preload))
    print("\n".join(found) or f"{len(ours)} lines, {len(cases_of(ours))} cases")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
