#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The distribution's fi_pingpong on us, two processes: connected and not, each byte checked by it.

usage: pingpong_test.py

COMPAT_PRELOAD is what puts our library into a program.
"""
import os
import shutil
import socket
import subprocess
import sys
import time

SKIPPED = 77
CASES = [("msg", "tcp", "msg"), ("msg", "compat", "msg"), ("rdm", "tcp", "msg"),
         ("rdm", "tcp;ofi_rxm", "tagged"), ("rdm", "sockets", "tagged"), ("rdm", "compat", "msg")]
PATIENCE_S = 60


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def start(*words):
    environment = {**os.environ, "LD_PRELOAD": os.environ["COMPAT_PRELOAD"],
                   "FABRIC_COMPAT_DEVICE": "soft", "ASAN_OPTIONS": "detect_leaks=0"}
    return subprocess.Popen(["fi_pingpong", *words], env=environment, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def run_client(words, port, server):
    """Again until the server listens."""
    until = time.monotonic() + PATIENCE_S
    while True:
        client = start(*words, "-P", port, "127.0.0.1")
        text = client.communicate(timeout=PATIENCE_S)[0]
        early = "Connection refused" in text and server.poll() is None
        if not early or time.monotonic() > until:
            return client.returncode, text


def fault_of(kind, provider, mode):
    port = free_port()
    words = ["-e", kind, "-p", provider, "-m", mode, "-I", "20", "-c"]
    server = start(*words, "-B", port)
    try:
        status, text = run_client(words, port, server)
        of_server = server.communicate(timeout=PATIENCE_S)[0]
    finally:
        server.kill()
    good = status == 0 and server.returncode == 0 and "1m " in text
    return "" if good else f"{kind} {provider} {mode}: {status} {server.returncode}\n{text}{of_server}"


def main():
    if not shutil.which("fi_pingpong"):
        print("fi_pingpong is not installed")
        return SKIPPED
    faults = list(filter(None, (fault_of(*case) for case in CASES)))
    print("\n".join(faults) or f"{len(CASES)} pairs")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
