#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a user gets: the installed tree, programs built against it, the Debian packages.

usage: install_test.py tree BUILD-DIRECTORY SOURCES C-COMPILER C++-COMPILER
       install_test.py packages BUILD-DIRECTORY
"""
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77
LIBRARIES = {"fabric": "fabric-compat", "rpma": "rpma-compat"}
PACKAGES = ("fabric-compat", "libfabric-compat-dev")


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True,
                          timeout=300, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*")
                  if path.is_symlink() or not path.is_dir())


def one(folder, name):
    found = sorted(Path(folder).rglob(name))
    if not found:
        sys.exit(f"no {name} in {folder}")
    return found[0]


def by_pkg_config(prefix, sources, compilers, folder):
    path = one(prefix, "fabric-compat.pc").parent
    variables = {**os.environ, "PKG_CONFIG_PATH": str(path)}
    for short, package in LIBRARIES.items():
        words = run("pkg-config", "--cflags", "--libs", package, env=variables).split()
        for compiler, language in zip(compilers, ("c", "c++")):
            program = folder / f"pkg_config_{short}_{language}"
            run(compiler, "-o", program, "-x", language, sources / f"uses_{short}.c", "-x", "none",
                *words)
            run(program, env={**os.environ, "LD_LIBRARY_PATH": str(path.parent)})


def by_cmake(prefix, sources, compilers, folder):
    run("cmake", "-S", sources, "-B", folder / "consumer", f"-DCMAKE_PREFIX_PATH={prefix}",
        f"-DCMAKE_C_COMPILER={compilers[0]}", f"-DCMAKE_CXX_COMPILER={compilers[1]}")
    run("cmake", "--build", folder / "consumer")
    for short in LIBRARIES:
        for language in ("c", "cpp"):
            run(folder / "consumer" / f"{short}_{language}")


def check_links(prefix):
    """What an installed text refers to is there too."""
    readme = one(prefix / "share/doc", "README.md")
    for text in sorted(readme.parent.rglob("*.md")):
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text.read_text()):
            if not (text.parent / link).exists():
                sys.exit(f"{text.relative_to(prefix)} refers to {link}, which is not installed")


def check_manual(prefix):
    if not shutil.which("scdoc"):
        print("not checked: scdoc is not installed, so that there are no manual pages")
        return
    text = gzip.decompress(one(prefix, "fabric-compat-limits.7.gz").read_bytes()).decode()
    if "max_qp_wr" not in text or "FI_RMA" not in text:
        sys.exit(f"the manual page of the limits is not complete:\n{text}")
    for page in ("fabric-compat.7.gz", "rpma-compat.7.gz"):
        if b"limits" not in gzip.decompress(one(prefix, page).read_bytes()):
            sys.exit(f"{page} does not name the page of the limits")


def tree(build, sources, *compilers):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run("cmake", "--install", build, "--prefix", folder / "first")
        prefix = folder / "moved"  # an installed tree may be moved
        (folder / "first").rename(prefix)
        by_pkg_config(prefix, Path(sources), compilers, folder)
        by_cmake(prefix, Path(sources), compilers, folder)
        check_links(prefix)
        check_manual(prefix)
        launcher = prefix / "bin" / "fabric-compat-run"
        dropins = Path(run(launcher, "--print").strip())
        wanted = {"libfabric.so.1", "librpma.so.0"}
        if {path.name for path in dropins.iterdir()} != wanted or prefix not in dropins.parents:
            sys.exit(f"{dropins} does not hold {wanted} alone")
        info = run(prefix / "bin" / "fabric-compat-info")
        if "FABRIC_1.9" not in info:
            sys.exit(f"the installed tool does not find the installed libraries:\n{info}")
        for header in (prefix / "include").iterdir():
            if header.name != "fabric-compat":
                sys.exit(f"{header} would collide with upstream's")


def make_packages(build, folder):
    run("cpack", "--config", Path(build) / "CPackConfig.cmake", "-G", "DEB", "-B", folder)
    packages = sorted(Path(folder).glob("*.deb"))
    names = [run("dpkg-deb", "--field", package, "Package").strip() for package in packages]
    if sorted(names) != sorted(PACKAGES):
        sys.exit(f"packages: {names}")
    return packages


def check_lintian(packages):
    if not shutil.which("lintian"):
        print("not checked: lintian is not installed")
        return
    done = subprocess.run(["lintian", "--no-cfg", "--allow-root", "--fail-on", "error",
                           "--tag-display-limit", "0", *packages], text=True, capture_output=True,
                          timeout=300, check=False)
    errors = [line for line in done.stdout.splitlines() if line.startswith("E:")]
    if errors or done.returncode != 0:
        sys.exit("\n".join(errors) or done.stdout + done.stderr)


def install_and_remove(packages, folder):
    """In a root of its own, so that the machine is left alone."""
    root = folder / "root"
    admin = root / "var/lib/dpkg"
    admin.mkdir(parents=True)
    for name in ("status", "available"):
        (admin / name).touch()
    (admin / "info").mkdir()
    (admin / "updates").mkdir()
    dpkg = ["dpkg", f"--root={root}", "--force-depends", "--force-script-chrootless",
            "--force-not-root", f"--log={folder}/log"]
    before = [path for path in files_below(root) if not path.startswith("var/")]
    run(*dpkg, "--install", *packages)
    program = one(root, "fabric-compat-run")
    if "lib" not in run(program, "--print"):
        sys.exit("the packaged launcher finds no libraries")
    headers = one(root, "librpma.h").parent
    if headers != root / "usr/include/fabric-compat":
        sys.exit(f"headers are in {headers}")
    run(*dpkg, "--purge", *PACKAGES)
    after = [path for path in files_below(root) if not path.startswith("var/")]
    if before != after:
        sys.exit(f"left behind: {after}")


def packages(build):
    for tool in ("dpkg-deb", "dpkg", "dpkg-shlibdeps"):
        if not shutil.which(tool):
            print(f"skipped: {tool} is not installed")
            sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = make_packages(build, folder / "packages")
        check_lintian(made)
        install_and_remove(made, folder)


if __name__ == "__main__":
    {"tree": tree, "packages": packages}[sys.argv[1]](*sys.argv[2:])
