#!/usr/bin/env python3
"""Makes a wheel, and a tarball, of the programs of a build, with every library but glibc's inside.

    bundle.py --build build/wheel --out FOLDER [--torch VERSION] [--tarball] [--sysroot FOLDER]

The tree is that of a Python environment's site-packages, so that the worker finds PyTorch beside
it: atoll/bin has the programs, atoll/lib their libraries, atoll/libexec the worker itself. The same
build gives the same bytes: SOURCE_DATE_EPOCH is every file's time.

Needs Debian, whose packages say under which licences the libraries are, and binutils. Libraries and
licences are those of this system, or, for another kind of processor, those in FOLDER, which
`scripts/arm64 --sysroot` makes.
"""

import argparse
import base64
import glob
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
# What every Linux system with glibc has: programs and glibc have to be of one system.
GLIBC = re.compile(r"(lib(c|m|dl|rt|pthread|resolv|util)|ld-linux-(x86-64|aarch64))\.so\.\d+$")
# PyTorch's own, which its wheel brings.
TORCH = re.compile(r"lib(torch|c10)(_\w+)?\.so")
PROGRAMS = ("atoll", "atolld", "atoll-stub-worker")
# By the number in a program's header: the processor's name, and the loader's for its libraries.
MACHINES = {62: ("x86_64", "x86-64"), 183: ("aarch64", "AArch64")}
# Compiled into the programs: these packages have no shared library, or none that is used.
COMPILED_IN = ("libcli11-dev", "nlohmann-json3-dev", "libjs-dygraphs", "libtomlplusplus-dev",
               "libspdlog-dev", "libfmt-dev", "libcpp-httplib-dev", "libabsl-dev", "libhwy-dev")
ENTRIES = """[console_scripts]
atoll = atoll.launch:atoll
atolld = atoll.launch:atolld
atoll-hf-worker = atoll_worker.huggingface.command:main
atoll-quickstart = atoll.launch:quickstart
atoll-stub-worker = atoll.launch:stub_worker
atoll-track = atoll_track.command:main
atoll-worker = atoll.launch:worker
"""


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: code {done.returncode}\n{done.stderr}")
    return done.stdout


def epoch():
    told = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not told.isdigit():
        raise SystemExit("SOURCE_DATE_EPOCH is not set to seconds since 1970 (scripts/wheel does)")
    return int(told)


def put(source, path, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    shutil.copyfile(source, path)
    os.chmod(path, mode)


def write(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)
    os.chmod(path, mode)


# -- The tree --------------------------------------------------------------------------------------


def needed(path):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", path))


class System:
    """Where the libraries that the programs need come from, and the tools for their processor."""

    def __init__(self, program, sysroot):
        with open(program, "rb") as source:
            number = int.from_bytes(source.read(20)[18:], "little")
        if number not in MACHINES:
            raise SystemExit(f"{program} is neither for x86-64 nor for 64-bit ARM")
        self.machine, self.loaders_name = MACHINES[number]
        if not sysroot and self.machine != os.uname().machine:
            raise SystemExit(f"{program} is for {self.machine}: --sysroot names its libraries")
        self.root = os.path.abspath(sysroot) if sysroot else ""
        foreign = self.machine != os.uname().machine
        self.strip = f"{self.machine}-linux-gnu-strip" if foreign else "strip"
        self.dpkg_query = ["dpkg-query"]
        if sysroot:
            self.dpkg_query.append(f"--admindir={self.root}/var/lib/dpkg")
        self.libraries = self._unpacked() if sysroot else self._installed()

    def _installed(self):
        """soname -> path of the libraries that the loader knows here."""
        found = {}
        for line in run("/sbin/ldconfig", "-p").splitlines():
            match = re.match(r"\s*(\S+) \(libc6,(\S+?)\) => (\S+)", line)
            if match and match.group(2) == self.loaders_name:
                found.setdefault(match.group(1), match.group(3))
        return found

    def _unpacked(self):
        """The same of a folder into which packages were unpacked."""
        found = {}
        for folder in ("lib", "usr/lib"):
            for path in sorted(glob.glob(f"{self.root}/{folder}/{self.machine}-linux-gnu/*.so*")):
                found.setdefault(os.path.basename(path), path)
        return found

    def package_of(self, path):
        for name in (path, os.path.realpath(path)):
            place = name.removeprefix(self.root)
            for other in (place, place.removeprefix("/usr"), "/usr" + place):
                done = subprocess.run([*self.dpkg_query, "-S", self.root + other],
                                      capture_output=True, text=True, check=False)
                if done.returncode == 0:
                    return done.stdout.split(":")[0].split(",")[0]
        raise SystemExit(f"no Debian package has {path}: under which licence is it?")

    def copyright_of(self, package):
        """Path of the file that says under which licences the package is; it may be missing."""
        return f"{self.root}/usr/share/doc/{package}/copyright"


def libraries_of(programs, system):
    """soname -> path: what these programs need beside glibc and PyTorch, and what that needs."""
    found, waiting = {}, list(programs)
    while waiting:
        for name in needed(waiting.pop()):
            if GLIBC.match(name) or TORCH.match(name) or name in found:
                continue
            if name not in system.libraries:
                place = system.root or "this system"
                raise SystemExit(f"{name} is not among the libraries of {place}")
            found[name] = system.libraries[name]
            waiting.append(found[name])
    return found


def glibc_of(paths):
    """The newest version of glibc that one of these files asks for, such as (2, 36)."""
    versions = {tuple(int(part) for part in match.split("."))
                for path in paths
                for match in re.findall(r"Name: GLIBC_([0-9.]+) ", run("readelf", "-V", path))}
    return max(versions)[:2]


def put_programs(build, tree, torch, system):
    binaries = []
    for name in PROGRAMS:
        put(f"{build}/bin/{name}", f"{tree}/atoll/bin/{name}", 0o755)
        binaries.append(f"{tree}/atoll/bin/{name}")
    if torch:
        for name in ("atoll-worker", "atoll-sentencepiece.so"):
            put(f"{build}/bin/{name}", f"{tree}/atoll/libexec/{name}", 0o755)
            binaries.append(f"{tree}/atoll/libexec/{name}")
    libraries = libraries_of(binaries, system)
    for name, path in sorted(libraries.items()):
        put(path, f"{tree}/atoll/lib/{name}", 0o755)
        binaries.append(f"{tree}/atoll/lib/{name}")
    run(system.strip, "--strip-unneeded", *binaries)
    for path in binaries:
        os.chmod(path, 0o755)
    return libraries, binaries


def put_texts(build, tree, torch):
    starter = ("#!/bin/sh\necho 'atoll-worker: this Atoll was made without the native worker' >&2\n"
               "exit 1\n")
    if torch:
        with open(f"{HERE}/atoll-worker.in", encoding="utf-8") as source:
            starter = source.read().replace("@TORCH@", torch)
        with open(f"{HERE}/fetch_torch.py", encoding="utf-8") as source:
            write(f"{tree}/atoll/fetch_torch.py", source.read().replace("@TORCH@", torch))
    write(f"{tree}/atoll/bin/atoll-worker", starter, 0o755)
    put(f"{HERE}/atoll-quickstart", f"{tree}/atoll/bin/atoll-quickstart", 0o755)
    put(f"{HERE}/launch.py", f"{tree}/atoll/launch.py")
    with open(f"{SOURCE}/configs/quickstart.toml", encoding="utf-8") as source:
        text = re.sub(r'(?m)^path = "\.\./build/data/gcide\.txt"', 'path = ""' + " " * 23,
                      source.read())
        write(f"{tree}/atoll/configs/quickstart.toml", text)
    for package in ("atoll", "atoll_track", "atoll_worker"):
        for path in glob.glob(f"{build}/python/{package}/**/*.py", recursive=True):
            put(path, os.path.join(tree, os.path.relpath(path, f"{build}/python")))
    put(f"{SOURCE}/worker/python/atoll_worker/py.typed", f"{tree}/atoll_worker/py.typed")


# -- Licences --------------------------------------------------------------------------------------


def put_licences(tree, libraries, system):
    """The copyright file of each package of which something is inside, and a list of them."""
    files = {}
    for name, path in libraries.items():
        files.setdefault(system.package_of(path), []).append(name)
    for package in COMPILED_IN:
        if os.path.exists(system.copyright_of(package)):
            files.setdefault(package, []).append("compiled in")
    lines = ["What others have made of this, by Debian package. The licences are in the files",
             "beside this one; Atoll's own is the Apache License 2.0.", ""]
    texts = set()  # that those files name, in Debian's folder of them
    for package, names in sorted(files.items()):
        copyright_file = system.copyright_of(package)
        if not os.path.exists(copyright_file):
            raise SystemExit(f"{copyright_file} is missing: what is bundled needs its licence")
        put(copyright_file, f"{tree}/atoll/licenses/{package}.txt")
        version = run(*system.dpkg_query, "-W", "-f", "${source:Package} ${source:Version}",
                      package)
        with open(copyright_file, encoding="utf-8") as source:
            text = source.read()
        told = sorted(set(re.findall(r"^License: *(\S.*)$", text, re.MULTILINE)))
        texts |= set(re.findall(r"/usr/share/common-licenses/([\w.-]*[\w])", text))
        lines.append(f"{package} (source {version}): {', '.join(sorted(names))}")
        lines.append(f"    {'; '.join(told) if told else 'see its file'}")
    for name in sorted(texts):
        if os.path.exists(f"/usr/share/common-licenses/{name}"):
            put(f"/usr/share/common-licenses/{name}", f"{tree}/atoll/licenses/common/{name}")
    write(f"{tree}/atoll/licenses/LIST.txt", "\n".join(lines) + "\n")
    put(f"{SOURCE}/LICENSE", f"{tree}/atoll/licenses/LICENSE")


# -- The wheel -------------------------------------------------------------------------------------


def version():
    with open(f"{SOURCE}/CMakeLists.txt", encoding="utf-8") as source:
        return re.search(r"^project\(atoll VERSION ([0-9.]+)", source.read(), re.MULTILINE).group(1)


def metadata(torch):
    with open(f"{SOURCE}/worker/python/pyproject.toml", "rb") as source:
        project = tomllib.load(source)["project"]
    lines = ["Metadata-Version: 2.1", "Name: " + project["name"], "Version: " + version(),
             "Summary: " + project["description"], "License: " + project["license"]["text"],
             "Requires-Python: " + project["requires-python"].replace(" ", "")]
    extras = {"python": project["dependencies"]} | project["optional-dependencies"]
    extras["hf"] = [*extras["python"], *extras["hf"]]
    if torch:
        extras["torch"] = [f"torch == {torch}.*"]
    for extra, needs in extras.items():
        lines.append("Provides-Extra: " + extra)
        lines += [f'Requires-Dist: {need}; extra == "{extra}"' for need in needs]
    lines += ["Description-Content-Type: text/plain", "",
              "Atoll trains one model on machines that are poorly connected and come and go. This",
              "wheel has the daemon, the command line and the workers. `atoll-quickstart` trains a",
              "small model on this machine, `atoll` alone lists what there is."]
    return "\n".join(lines) + "\n"


def files_of(tree):
    paths = [os.path.join(folder, name) for folder, _, names in os.walk(tree) for name in names]
    return sorted(os.path.relpath(path, tree) for path in paths)


def make_wheel(tree, out, tag, torch):
    name = f"atoll-{version()}"
    info = f"{name}.dist-info"
    put(f"{SOURCE}/LICENSE", f"{tree}/{info}/LICENSE")
    write(f"{tree}/{info}/METADATA", metadata(torch))
    write(f"{tree}/{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: atoll scripts/wheel\n"
          f"Root-Is-Purelib: false\nTag: {tag}\n")
    write(f"{tree}/{info}/entry_points.txt",
          ENTRIES + ("atoll-torch = atoll.fetch_torch:main\n" if torch else ""))
    rows = []
    for path in files_of(tree):
        with open(os.path.join(tree, path), "rb") as source:
            data = source.read()
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={digest},{len(data)}\n")
    write(f"{tree}/{info}/RECORD", "".join(rows) + f"{info}/RECORD,,\n")
    path = f"{out}/{name}-{tag}.whl"
    when = time.gmtime(max(epoch(), 315532800))[:6]  # 1980, before which zip knows no time
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for file in files_of(tree):
            entry = zipfile.ZipInfo(file, when)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, whose modes these are
            entry.external_attr = (stat.S_IFREG | os.stat(f"{tree}/{file}").st_mode & 0o777) << 16
            with open(os.path.join(tree, file), "rb") as source:
                wheel.writestr(entry, source.read())
    shutil.rmtree(f"{tree}/{info}")
    return path


# -- The tarball -----------------------------------------------------------------------------------


def make_tarball(build, tree, out, machine):
    """The same tree, with what a home folder has beside programs, and what puts it there."""
    name = f"atoll-{version()}"
    put(f"{HERE}/install.sh", f"{tree}/install.sh", 0o755)
    put(f"{SOURCE}/LICENSE", f"{tree}/LICENSE")
    for path in sorted(glob.glob(f"{SOURCE}/configs/systemd/user/*")):
        put(path, f"{tree}/share/systemd/user/{os.path.basename(path)}")
    for program in ("atoll", "atolld"):
        put(f"{build}/share/man1/{program}.1", f"{tree}/share/man/man1/{program}.1")
        put(f"{build}/share/bash/{program}",
            f"{tree}/share/bash-completion/completions/{program}")
    path = f"{out}/{name}-linux-{machine}.tar.zst"
    packer = ["zstd", "-15", "-T1", "-q", "-f", "-o", path]
    with subprocess.Popen(packer, stdin=subprocess.PIPE) as process:
        with tarfile.open(fileobj=process.stdin, mode="w|", format=tarfile.GNU_FORMAT) as archive:
            for file in files_of(tree):
                entry = tarfile.TarInfo(f"{name}/{file}")
                entry.mtime, entry.size = epoch(), os.path.getsize(f"{tree}/{file}")
                entry.mode = os.stat(f"{tree}/{file}").st_mode & 0o777
                entry.uname = entry.gname = "root"
                with open(f"{tree}/{file}", "rb") as source:
                    archive.addfile(entry, source)
        process.stdin.close()
        if process.wait() != 0:
            raise SystemExit(f"zstd: code {process.returncode}")
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--torch", default="", help="the version that the worker is linked with")
    parser.add_argument("--tarball", action="store_true")
    parser.add_argument("--sysroot", default="", help="libraries of another kind of processor")
    options = parser.parse_args()
    tree = os.path.join(options.build, "bundle")
    shutil.rmtree(tree, ignore_errors=True)
    os.makedirs(options.out, exist_ok=True)
    system = System(f"{options.build}/bin/atoll", options.sysroot)
    libraries, binaries = put_programs(options.build, tree, options.torch, system)
    put_texts(options.build, tree, options.torch)
    put_licences(tree, libraries, system)
    for path in binaries:
        if SOURCE.encode() in open(path, "rb").read():
            raise SystemExit(f"{path} names the folder of its build, {SOURCE}")
    tag = "py3-none-manylinux_{}_{}_{}".format(*glibc_of(binaries), system.machine)
    print(make_wheel(tree, options.out, tag, options.torch))
    if options.tarball:
        print(make_tarball(options.build, tree, options.out, system.machine))


if __name__ == "__main__":
    sys.exit(main())
