"""Tries a tarball for 64-bit ARM under qemu, beside no library of ARM's but glibc's.

    python3 tests/bench/arm64_bundle.py --tarball FILE --sysroot build/arm64-sysroot \\
        [--torch build/torch-arm64/torch [--tests build/wheel-arm64/tests/worker_torch_test]]

`scripts/arm64 --tarball FILE` calls it. It unpacks the tarball and asks the loader where each
program finds each library: in the tarball, in PyTorch's folder, or among glibc's. Then it runs a
coordinator and two peers with stub workers by `atoll local`, and verifies their log. With --torch
two peers train a small GPT with the native worker, for two rounds, and with --tests the worker's
unit tests run.
"""

import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

GLIBC = "/lib"  # as the loader sees it under qemu; all other folders are this machine's
PROGRAMS = ("atoll", "atolld", "atoll-stub-worker")
WORKER = ("atoll-worker", "atoll-sentencepiece.so")
# A Neoverse N1 of ARMv8.2. The BLAS in PyPI's PyTorch takes ARMv8.1's atomic additions for granted.
QEMU = "qemu-aarch64-static -cpu neoverse-n1 -L "
PROCESSOR = """BogoMIPS\t: 50.00
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm asimddp
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1
"""
MIDR = "0x00000000413fd0c1\n"
STUB = """
[run]
rounds = 20
peers = 2
[model]
kind = "stub"
parameters = 20000
[inner]
steps = 5
step_time = "20ms"
[evaluation]
every_rounds = 0
[membership]
failure_timeout = "30s"
"""
# A smaller model and less of it than in configs/quickstart.toml: qemu is slow.
GPT = """
[run]
rounds = 2
peers = 2
seed = 1337
[model]
kind = "gpt"
layers = 2
heads = 2
width = 32
context = 32
[data]
path = "{data}"
tokenizer = "bytes"
[inner]
steps = 10
batch = 4
warmup_steps = 5
[evaluation]
tokens = 2048
every_rounds = 1
[membership]
failure_timeout = "60s"
"""


def run(*command, env=None, code=0):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, env=env, stdin=subprocess.DEVNULL)
    if done.returncode != code:
        raise SystemExit(f"{' '.join(command)}: code {done.returncode}\n{done.stdout[-6000:]}")
    return done.stdout


def timed(what, *command, env=None):
    begin = time.monotonic()
    out = run(*command, env=env)
    print(f"{what}: {time.monotonic() - begin:.0f} s", flush=True)
    return out


def put_glibc(sysroot, folder):
    """The libraries of the package libc6 alone, where the loader looks for them."""
    with open(f"{sysroot}/var/lib/dpkg/info/libc6:arm64.list", encoding="utf-8") as source:
        for path in source.read().split():
            name = os.path.basename(path)
            if "/gconv/" not in path:
                os.makedirs(f"{folder}/lib/aarch64-linux-gnu", exist_ok=True)
                shutil.copy(os.path.realpath(path), f"{folder}/lib/aarch64-linux-gnu/{name}")
    shutil.copy(f"{folder}/lib/aarch64-linux-gnu/ld-linux-aarch64.so.1", f"{folder}/lib")


def put_processor(folder):
    """Files in which the kernel describes a processor: qemu shows this machine's otherwise, whose
    /proc/cpuinfo PyTorch takes for ARM's, and crashes."""
    os.makedirs(f"{folder}/proc")
    with open(f"{folder}/proc/cpuinfo", "w", encoding="utf-8") as out:
        for number in range(os.cpu_count()):
            out.write(f"processor\t: {number}\n{PROCESSOR}\n")
            register = f"{folder}/sys/devices/system/cpu/cpu{number}/regs/identification/midr_el1"
            os.makedirs(os.path.dirname(register))
            with open(register, "w", encoding="utf-8") as midr:
                midr.write(MIDR)


def put_starters(tree, qemu):
    """Moves each program to a folder of its own, and puts a script that starts it in its place.

    A kernel without binfmt_misc does not start ARM's programs. What starts others looks beside
    itself, so that each folder has all scripts.
    """
    moved = {}
    for name in PROGRAMS + WORKER:
        path = f"{tree}/libexec/{name}" if name in WORKER else f"{tree}/bin/{name}"
        if not os.path.exists(path):
            continue
        os.makedirs(f"{tree}/moved/{name}")
        moved[name] = shutil.move(path, f"{tree}/moved/{name}/{name}")
        if not name.endswith(".so"):
            with open(path, "w", encoding="utf-8") as out:
                out.write(f'#!/bin/sh\nexec {qemu} {moved[name]} "$@"\n')
            os.chmod(path, 0o755)
    os.symlink("../lib", f"{tree}/moved/lib")
    if "atoll-worker" in moved:
        shutil.move(moved.pop("atoll-sentencepiece.so"), f"{tree}/moved/atoll-worker")
    for name in moved:
        for starter in sorted(os.listdir(f"{tree}/bin")):
            if starter != name:
                os.symlink(f"{tree}/bin/{starter}", f"{tree}/moved/{name}/{starter}")
    return moved


def look_at_libraries(qemu, path, allowed):
    """Where the loader finds what a program or a library needs. Fails if it is elsewhere."""
    loader = [*qemu.split(), "-E", "LD_TRACE_LOADED_OBJECTS=1", path]
    found = re.findall(r"^\s*(\S+) => (.*) \(0x", run(*loader), re.MULTILINE)
    if not found:
        raise SystemExit(f"{path}: the loader names no library")
    count = {}
    for name, place in found:
        real = place if place.startswith(GLIBC + "/") else os.path.realpath(place)
        of = [what for what, folder in allowed.items() if real.startswith(folder + "/")]
        if not of:
            raise SystemExit(f"{path}: takes {name} from {place}")
        count[of[0]] = count.get(of[0], 0) + 1
    told = ", ".join(f"{number} from {what}" for what, number in sorted(count.items()))
    print(f"{os.path.basename(path)}: libraries: {told}", flush=True)


def verified(atoll, folder):
    report = json.loads(run(atoll, "log", "verify", "--dir", folder, "--json"))
    if report["chain"] != "ok":
        raise SystemExit(f"{folder}: {report}")
    return f"{report['versions']} versions, state digest {report['state_digest'][:16]}"


def local_run(top, name, tree, text):
    with open(f"{top}/{name}.toml", "w", encoding="utf-8") as out:
        out.write(text)
    told = timed(f"atoll local, {name}", f"{tree}/bin/atoll", "local", "--config",
                 f"{top}/{name}.toml", "--dir", f"{top}/{name}")
    for line in told.splitlines():
        if re.match(r"(rounds|validation loss|state digest)", line):
            print("  " + line, flush=True)
    digests = {verified(f"{tree}/bin/atoll", peer) for peer in glob.glob(f"{top}/{name}/peer-*")}
    if len(digests) != 1:
        raise SystemExit(f"{name}: peers differ: {sorted(digests)}")
    print("  atoll log verify: " + digests.pop(), flush=True)


def try_tarball(top, options):
    run("tar", "--zstd", "-xf", options.tarball, "-C", top)
    unpacked, = glob.glob(f"{top}/atoll-*")
    tree, glibc = f"{unpacked}/atoll", f"{top}/glibc"
    put_glibc(os.path.abspath(options.sysroot), glibc)
    put_processor(glibc)
    qemu = QEMU + glibc
    moved = put_starters(tree, qemu)
    allowed = {"the tarball": f"{tree}/lib", "glibc": GLIBC}
    for name in PROGRAMS:
        look_at_libraries(qemu, moved[name], allowed)
        print("  " + run(f"{tree}/bin/{name}", "--version").splitlines()[0], flush=True)
    local_run(top, "stub", tree, STUB)
    if "atoll-worker" not in moved:
        print("there is no native worker in it")
        return
    print("  " + run(f"{tree}/bin/atoll-worker", "--version", code=1).strip(), flush=True)
    if not options.torch:
        return
    torch = os.path.realpath(options.torch)
    os.symlink(torch, f"{unpacked}/torch")
    os.symlink(torch, f"{tree}/torch")  # a folder deeper, as the worker itself is here
    allowed["PyTorch"] = torch
    allowed["what PyTorch needs"] = os.path.dirname(torch) + "/nvidia"
    look_at_libraries(qemu, moved["atoll-worker"], allowed)
    print("  " + run(f"{tree}/bin/atoll-worker", "--version").strip(), flush=True)
    data = shutil.copy(os.__file__, f"{top}/text.txt")
    local_run(top, "gpt", tree, GPT.replace("{data}", data))
    if options.tests:
        told = timed("the worker's unit tests", *qemu.split(), "-E",
                     f"LD_LIBRARY_PATH={tree}/lib:{torch}/lib", options.tests, "--gtest_brief=1")
        print("  " + "\n  ".join(told.splitlines()[-2:]), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tarball", required=True)
    parser.add_argument("--sysroot", required=True, help="folder of ARM's libraries")
    parser.add_argument("--torch", help="the folder torch of PyTorch's wheel for ARM")
    parser.add_argument("--tests", help="the worker's unit tests, built for ARM")
    options = parser.parse_args()
    top = tempfile.mkdtemp(prefix="atoll-arm64-")
    try:
        try_tarball(top, options)
    finally:
        shutil.rmtree(top, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
