#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What fabric-compat-run --check says of programs of every kind, and whether it is true.

usage: launcher_test.py LAUNCHER SOURCES C-COMPILER UPSTREAM-LIBRPMA [SANITIZER-RUNTIME]
"""
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

BINDS, MAY, NEVER, NOT_FOUND, USAGE = 0, 3, 4, 127, 2
NOBODY = 65534


class Suite:
    def __init__(self, launcher, sources, compiler, upstream, runtime, folder):
        self.launcher = Path(launcher)
        self.sources = Path(sources)
        self.compiler = compiler
        self.upstream = Path(upstream)
        self.folder = Path(folder)
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("LD_")}
        self.environment |= {"ASAN_OPTIONS": "detect_leaks=0"}
        if runtime:
            self.environment["LD_PRELOAD"] = runtime
        self.dropins = self.output(["--print"])[1].strip()
        self.ours = os.path.join(self.dropins, "librpma.so.0")
        self.faults = 0
        self.checked = 0

    def output(self, arguments, **options):
        done = subprocess.run([self.launcher, *arguments], env=self.environment, text=True,
                              capture_output=True, timeout=60, check=False, **options)
        return done.returncode, done.stdout, done.stderr

    def build(self, name, source, *flags):
        path = self.folder / name
        subprocess.run([self.compiler, "-o", path, self.sources / source, *flags], check=True)
        return path

    def script(self, name, first_line):
        path = self.folder / name
        path.write_text(f"{first_line}\nexit 0\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    def fault(self, text):
        self.faults += 1
        print(text)

    def check(self, program, status, *parts, options=(), **others):
        self.checked += 1
        got, text, errors = self.output(["--check", *options, "--", program], **others)
        if got != status:
            self.fault(f"{program}: status {got}, not {status}:\n{text}{errors}")
        for part in parts:
            if part not in text + errors:
                self.fault(f"{program}: no {part!r} in\n{text}{errors}")

    def run(self, program, mapped, options=()):
        """Runs it, and compares what it found mapped."""
        self.checked += 1
        got, text, errors = self.output([*options, "--", program])
        found = [line.split(" ", 1)[1] for line in text.splitlines() if line.startswith("mapped")]
        real = [os.path.realpath(path) for path in found]
        if got != 0 or real != [os.path.realpath(path) for path in mapped]:
            self.fault(f"{program}: status {got}, mapped {found}, not {mapped}: {errors}")


def linked(suite):
    library = f"-l:{suite.upstream.name}"
    program = suite.build("linked", "linked.c", library)
    suite.check(program, BINDS, suite.ours)
    suite.run(program, [suite.ours])
    suite.run(program, [suite.ours], ["--preload"])
    folder = suite.folder / "own"
    folder.mkdir()
    shutil.copy(suite.upstream, folder)
    runpath = suite.build("runpath", "linked.c", library, f"-Wl,-rpath,{folder}",
                          "-Wl,--enable-new-dtags")
    suite.check(runpath, BINDS, suite.ours)
    suite.run(runpath, [suite.ours])
    rpath = suite.build("rpath", "linked.c", library, f"-Wl,-rpath,{folder}",
                        "-Wl,--disable-new-dtags")
    suite.check(rpath, BINDS, "DT_RPATH", str(folder), "LD_PRELOAD is needed", suite.ours)
    suite.run(rpath, [suite.ours])
    by_path = suite.build("by_path", "linked.c", folder / suite.upstream.name)
    suite.check(by_path, BINDS, suite.ours)  # its SONAME is what was recorded


def opened(suite):
    program = suite.build("opens", "opens.c", '-DLIBRARY="librpma.so.0"')
    suite.check(program, MAY, "names librpma.so.0", "it gets ours")
    suite.run(program, [suite.ours])
    path = suite.build("opens_path", "opens.c", f'-DLIBRARY="{suite.upstream}"')
    suite.check(path, MAY, f"names {suite.upstream}", "nothing turns it to ours")
    suite.run(path, [suite.upstream])
    plug_in = suite.build("plug-in.so", "linked.c", "-shared", "-fPIC",
                          f"-l:{suite.upstream.name}")
    suite.check(plug_in, BINDS, "plug-in.so is linked to librpma.so.0")
    through = suite.build("through", "plain.c", "-Wl,--no-as-needed", plug_in)
    suite.check(through, BINDS, "plug-in.so is linked to librpma.so.0")


def never(suite):
    static = suite.build("static", "plain.c", "-static")
    suite.check(static, NEVER, "linked statically")
    static_pie = suite.build("static_pie", "plain.c", "-static-pie")
    suite.check(static_pie, NEVER, "linked statically")
    got, _, errors = suite.output(["--", static])
    if got != 0 or "linked statically" not in errors:
        suite.fault(f"a static program was not started with a warning: {got} {errors}")
    got, text, errors = suite.output(["--strict", "--", static])
    if got != NEVER or text or "linked statically" not in errors:
        suite.fault(f"--strict started a static program: {got} {text} {errors}")

    stub = suite.folder / "future.map"
    stub.write_text("FABRIC_9.9 { global: *; };", encoding="utf-8")
    library = suite.build("libfabric.so.1", "needs_version.c", "-DLIBRARY", "-shared", "-fPIC",
                          "-Wl,-soname,libfabric.so.1", f"-Wl,--version-script={stub}")
    future = suite.build("future", "needs_version.c", library)
    suite.check(future, NEVER, "FABRIC_9.9", "libfabric.so.1", "which ours lacks")

    foreign = suite.folder / "foreign"
    code = bytearray(suite.build("plain", "plain.c").read_bytes())
    struct.pack_into("<H", code, 18, 183)
    foreign.write_bytes(code)
    foreign.chmod(0o755)
    suite.check(foreign, NEVER, "another machine", "AArch64", "x86-64")
    code[4] = 1
    foreign.write_bytes(code)
    suite.check(foreign, NEVER, "another machine", "32 bits")
    foreign.write_bytes(code[:40])
    suite.check(foreign, NEVER, "another machine")
    foreign.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(40))
    suite.check(foreign, NEVER, "no sound ELF file")

    lacking = suite.build("lacking", "plain.c", "-Wl,--no-as-needed", library)
    library.unlink()
    suite.check(lacking, BINDS)  # there is a libfabric.so.1 after all: ours
    plug_in = suite.build("libplug-in.so", "linked.c", "-shared", "-fPIC",
                          f"-l:{suite.upstream.name}")
    by_name = suite.build("without", "plain.c", "-Wl,--no-as-needed", f"-L{suite.folder}",
                          "-lplug-in")
    by_path = suite.build("without_path", "plain.c", "-Wl,--no-as-needed", plug_in)
    plug_in.unlink()
    suite.check(by_name, NEVER, "the loader refuses", "libplug-in.so: cannot open")
    suite.check(by_path, NEVER, "the loader refuses", "cannot open shared object file")


def privileged(suite):
    program = suite.folder / "privileged"
    shutil.copy(suite.folder / "linked", program)
    if os.getuid() != 0:
        print("not checked without root: setuid, file capabilities")
        return
    os.chown(program, NOBODY, NOBODY)
    program.chmod(0o4755)
    suite.check(program, NEVER, "is setuid")
    program.chmod(0o2755)
    suite.check(program, NEVER, "is setgid")
    program.chmod(0o755)
    suite.check(program, BINDS)
    os.chown(program, 0, 0)
    program.chmod(0o4755)
    suite.check(program, BINDS)  # root gains nothing by root's setuid
    program.chmod(0o755)
    # cap_net_raw, permitted and effective, revision 2
    os.setxattr(program, "security.capability",
                struct.pack("<IIIII", 0x02000001, 1 << 13, 0, 0, 0))
    suite.check(program, BINDS)  # root has them anyway
    try:
        subprocess.run([suite.launcher, "--print"], user=NOBODY, check=True, capture_output=True,
                       env=suite.environment)
    except (OSError, subprocess.CalledProcessError):
        print("not checked: the build tree is closed to other users, who meet file capabilities")
        return
    suite.check(program, NEVER, "has file capabilities", user=NOBODY)


def scripts(suite):
    suite.check(suite.script("shell", "#!/bin/sh"), MAY, "is a script that /bin/sh runs")
    suite.check(suite.script("by_env", "#!/usr/bin/env -S A=1 sh -e"), MAY, "/sh runs")
    suite.check(suite.script("by_us", f"#!{suite.folder}/linked"), BINDS, suite.ours)
    suite.check(suite.script("by_static", f"#!{suite.folder}/static"), MAY, "linked statically")
    suite.check(suite.script("no_first_line", "exit 0"), MAY, "nor says what runs it")
    again = suite.folder / "again"
    suite.check(suite.script("again", f"#!{again}"), NEVER, "too many scripts")


def command_line(suite):
    suite.check("no-such-program", NOT_FOUND, "not found")
    suite.check(suite.folder / "plain", MAY, "is neither linked")
    shell = ["sh", "-c", "echo $FABRIC_COMPAT_DEVICE,$FABRIC_COMPAT_LOG,$FABRIC_COMPAT_EXPLAIN"]
    for words, expected in ((["--device", "soft", "--log=info", "--explain"], "soft,info,1\n"),
                            (["--device=verbs"], "verbs,,\n"), ([], ",,\n")):
        got, text, errors = suite.output([*words, *shell])
        if (got, text, errors) != (0, expected, ""):
            suite.fault(f"{words}: {got} {text!r} {errors!r}")
    for words in (["--no-such"], ["--device"], ["--explain=1", "sh"], [], ["--check"]):
        got, text, errors = suite.output(words)
        if got != USAGE or text or not errors:
            suite.fault(f"{words}: {got} {text!r} {errors!r}")
    got, _, errors = suite.output(["--verbose", "--", suite.folder / "linked"])
    if got != 0 or "yes: it will use fabric-compat" not in errors:
        suite.fault(f"--verbose: {got} {errors}")
    if suite.output(["sh", "-c", "exit 42"])[0] != 42:
        suite.fault("the program's status is lost")


def main():
    runtime = sys.argv[5] if len(sys.argv) > 5 else ""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        suite = Suite(*sys.argv[1:5], runtime, folder)
        for part in (linked, opened, never, privileged, scripts, command_line):
            part(suite)
        print(f"{suite.checked} programs checked, {suite.faults} faults")
        return bool(suite.faults)


if __name__ == "__main__":
    sys.exit(main())
