"""Runs with peers on x86-64 and on 64-bit ARM, the latter under qemu: all must hold the same bits.

    python3 tests/bench/arm64_check.py --x86 build/release/bin --arm64 build/arm64/bin \\
        --sysroot build/arm64-sysroot [--only "NAME;NAME"] [--rounds 12]

scripts/arm64 makes all of it and calls this. Each line is a run of three peers with the stub
worker, in other settings, so that each codec, outer rule and mode is met by both kinds of
processor. Two peers are x86-64's and one is ARM's, on one line the coordinator too; on another the
ARM peer comes late, is killed, and comes again. At the end each of the three folders is replayed
and checked by `atoll log verify` of both kinds: all six digests must be equal. Where a run is the
same each time, it is made once more by x86-64's alone, and must end with the same digest. The exit
status is the number of lines that failed.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))

from ports import free_port  # noqa: E402  pylint: disable=wrong-import-position

PATIENCE = 180  # seconds: a start under qemu takes some
PEERS = {"one": "x86", "two": "x86", "three": "arm64"}
# Peers draw other noise in each run, and what comes to an entry without rounds is a matter of time.
NEVER_THE_SAME = ("async", "private", "late")

CONFIG = """
[run]
id = "kinds"
rounds = {rounds}
peers = {peers}
quorum = {quorum}
[model]
kind = "stub"
parameters = 30011
[inner]
steps = 2
step_time = "20ms"
[evaluation]
every_rounds = 0
[membership]
failure_timeout = "30s"
[coordinator]
address = "{address}"
dir = "{top}/coordinator"
aggregator = "never"
exit_when_sealed = true
[http]
listen = "off"
"""

# Settings of each line; `chunk_elements` such that each peer reduces some of eight chunks.
LINES = {
    "int8": ('codec = "int8"', ""),
    "int8, stochastic, adam": ('codec = "int8"\nrounding = "stochastic"',
                               '[outer]\nrule = "adam"'),
    "int4, stochastic, trimmed mean, adagrad":
        ('codec = "int4"\nrounding = "stochastic"\naggregation = "trimmed_mean"\nfaulty = 1',
         '[outer]\nrule = "adagrad"'),
    "int2, yogi": ('codec = "int2"', '[outer]\nrule = "yogi"'),
    "topk, momentum": ('codec = "topk+zstd"', '[outer]\nrule = "momentum"'),
    "fp16, median, average": ('codec = "fp16"\naggregation = "median"\nfaulty = 1',
                              '[outer]\nrule = "average"'),
    "bf16, geometric median": ('codec = "bf16"\naggregation = "geometric_median"\nfaulty = 1', ""),
    "fp32, centred clipping": ('codec = "fp32"\naggregation = "centred_clipping"\nfaulty = 1', ""),
    "streaming in three fragments": ("", '[mode]\nkind = "streaming"\nfragments = 3'),
    "delayed": ("", '[mode]\nkind = "delayed"\ngap_penalty = true\nage_decay = 0.3'),
    "async, delayed Nesterov": ("", '[mode]\nkind = "async"\nage_decay = 0.3'),
    "async, cgad": ("", '[mode]\nkind = "async"\nage_decay = 0.1\nage_cutoff = 9\n'
                        '[outer]\nrule = "cgad"'),
    "masked": ("", '[privacy]\nmasked = true\nthreshold = 3\nroster = 3'),
    "private": ("", '[federation]\nweights = "equal"\n'
                    '[privacy]\nclip = 0.5\nnoise = 0.2\nquantile = 0.5'),
    "coordinator on ARM": ("", ""),
    "late, killed, again": ("", ""),
}


class Failure(Exception):
    """What a line failed by."""


def wait_for(what, condition, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.05)  # between two looks
    raise Failure(f"not within {seconds} s: {what}")


class Kinds:
    """How a program of either kind is run."""

    def __init__(self, x86, arm64, sysroot, top):
        self.folders = {"x86": os.path.abspath(x86), "arm64": os.path.abspath(arm64)}
        self.emulator = ["qemu-aarch64-static", "-L", os.path.abspath(sysroot)]
        # A daemon of ARM's starts its worker by execve, which needs a program of this machine's.
        self.worker = os.path.join(top, "atoll-stub-worker")
        program = os.path.join(self.folders["arm64"], "atoll-stub-worker")
        with open(self.worker, "w", encoding="utf-8") as out:
            out.write(f'#!/bin/sh\nexec {" ".join(self.emulator)} {program} "$@"\n')
        os.chmod(self.worker, stat.S_IRWXU)

    def command(self, kind, program, *words):
        before = self.emulator if kind == "arm64" else []
        return [*before, os.path.join(self.folders[kind], program), *words]

    def run(self, kind, program, *words):
        done = subprocess.run(self.command(kind, program, *words), capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        if done.returncode != 0:
            raise Failure(f"{kind} {program} {' '.join(words)}: {done.returncode}\n"
                          f"{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout


class Run:
    """A coordinator and three peers, each a process of one kind."""

    def __init__(self, kinds, top, text, coordinator):
        os.mkdir(top)
        self.kinds, self.top = kinds, top
        self.address = f"127.0.0.1:{free_port()}"
        self.processes = {}
        self.logs = {}
        config = os.path.join(top, "run.toml")
        with open(config, "w", encoding="utf-8") as out:
            out.write(text.replace("{address}", self.address).replace("{top}", top))
        self.start("coordinator", coordinator, "coordinator", "--config", config)
        wait_for("the coordinator answers", self.status)

    def start(self, name, kind, *words):
        path = os.path.join(self.top, name + ".log")
        with open(path, "a", encoding="utf-8") as out:
            self.processes[name] = subprocess.Popen(
                self.kinds.command(kind, "atolld", *words), stdout=out, stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL)
        self.logs[name] = path

    def ask(self, *words):
        admin = os.path.join(self.top, "coordinator", "admin")
        return self.kinds.run("x86", "atoll", *words, "--coordinator", self.address, "--identity",
                              admin, "--json")

    def status(self):
        self.still_there()
        try:
            return json.loads(self.ask("run", "show"))
        except Failure:
            return None

    def version(self):
        return int((self.status() or {}).get("version", 0))

    def rounds_of(self, name):
        for one in (self.status() or {}).get("peers", []):
            if one["member"]["peer"] == name:
                return int(one.get("rounds_contributed", 0))
        return 0

    def still_there(self):
        for name, process in self.processes.items():
            if process.poll() not in (None, 0):
                raise Failure(f"{name} ended with {process.returncode}\n{self.tail(name)}")

    def tail(self, name):
        with open(self.logs[name], encoding="utf-8") as source:
            return "".join(source.readlines()[-25:])

    def enrol(self, name, kind):
        token = os.path.join(self.top, name + ".token")
        self.kinds.run("x86", "atoll", "token", "create", "--coordinator", self.address,
                       "--identity", os.path.join(self.top, "coordinator", "admin"), "--peer",
                       name, "--out", token)
        config = self.kinds.run(kind, "atolld", "join", "--token-file", token, "--dir",
                                self.folder(name), "--advertise", f"127.0.0.1:{free_port()}",
                                "--enrol-only").strip()
        if kind == "arm64":
            with open(config, encoding="utf-8") as source:
                text = source.read()
            text, found = re.subn(r'^(\[worker\]\nprogram = )""', rf'\1"{self.kinds.worker}"', text,
                                  flags=re.MULTILINE)
            if found != 1:
                raise Failure(f"{config}: has no empty [worker] program")
            with open(config, "w", encoding="utf-8") as out:
                out.write(text)

    def folder(self, name):
        return os.path.join(self.top, name)

    def train(self, name, kind):
        self.start(name, kind, "peer", "--config", os.path.join(self.folder(name), "config.toml"))

    def finish(self):
        def ended():
            self.still_there()
            return all(process.poll() is not None for process in self.processes.values())
        wait_for("the run is sealed", ended)

    def digests(self, peers, kinds):
        """What these kinds say of each folder, and how many versions it has."""
        said, versions = {}, set()
        for name, of in peers.items():
            for kind in kinds:
                report = json.loads(self.kinds.run(kind, "atoll", "log", "verify", "--dir",
                                                   self.folder(name), "--json"))
                if report["chain"] != "ok":
                    raise Failure(f"{name}, by {kind}: {report}")
                said[f"{name} ({of}) by {kind}"] = report["state_digest"]
                versions.add(report["versions"])
        if len(versions) != 1:
            raise Failure(f"folders of different versions: {sorted(versions)}")
        return said, versions.pop()

    def close(self):
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()


def late_killed_again(run):
    """The ARM peer fetches the state of the others, dies, and goes on from its own folder."""
    wait_for("rounds without it", lambda: run.version() >= 3)
    run.enrol("three", "arm64")
    run.train("three", "arm64")
    wait_for("rounds with it", lambda: run.rounds_of("three") >= 3)
    process = run.processes.pop("three")
    process.kill()
    process.wait()
    run.train("three", "arm64")
    before = run.rounds_of("three")
    wait_for("rounds with it again", lambda: run.rounds_of("three") >= before + 3)


def digests_of_line(name, kinds, top, rounds, peers, coordinator, judges):
    """What the judges say of each peer's folder, and the run's length."""
    exchange, more = LINES[name]
    is_late = name.startswith("late")
    # Every round has all three, but where updates do not come in rounds.
    is_async = name.startswith("async")
    text = (CONFIG + f"[exchange]\nchunk_elements = 4096\n{exchange}\n{more}\n")
    text = text.replace("{rounds}", str(rounds) if not is_late and not is_async else "100000")
    text = text.replace("{peers}", "2" if is_late else "3")
    text = text.replace("{quorum}", "2" if is_late else "1" if is_async else "3")
    run = Run(kinds, top, text, coordinator)
    with contextlib.closing(run):
        early = [peer for peer in peers if not is_late or peers[peer] == "x86"]
        for peer in early:
            run.enrol(peer, peers[peer])
        for peer in early:
            run.train(peer, peers[peer])
        if is_late:
            late_killed_again(run)
        if is_async:
            wait_for("entries with ARM's updates", lambda: run.rounds_of("three") >= rounds)
        if is_late or is_async:
            run.ask("run", "stop")
        run.finish()
        return run.digests(peers, judges)


def try_line(name, kinds, top, rounds):
    """What was seen; fails if digests differ."""
    coordinator = "arm64" if name == "coordinator on ARM" else "x86"
    said, versions = digests_of_line(name, kinds, f"{top}/both", rounds, PEERS, coordinator,
                                     ("x86", "arm64"))
    if not name.startswith(NEVER_THE_SAME):
        alone, _ = digests_of_line(name, kinds, f"{top}/alone", rounds,
                                   dict.fromkeys(PEERS, "x86"), "x86", ("x86",))
        said.update((f"{who}, alone", digest) for who, digest in alone.items())
    if len(set(said.values())) != 1:
        raise Failure("\n".join(f"{who}: {digest}" for who, digest in said.items()))
    return f"{versions} rounds, {len(said)} digests, all {next(iter(said.values()))}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--x86", required=True, help="folder of this machine's programs")
    parser.add_argument("--arm64", required=True, help="folder of ARM's programs")
    parser.add_argument("--sysroot", required=True, help="folder of ARM's libraries")
    parser.add_argument("--only", help="parts of names of lines, with semicolons between")
    parser.add_argument("--rounds", type=int, default=12)
    options = parser.parse_args()
    wanted = [one.strip() for one in (options.only or "").split(";") if one.strip()]
    names = [name for name in LINES if not wanted or any(one in name for one in wanted)]
    failed = 0
    for name in names:
        top = tempfile.mkdtemp(prefix="atoll-arm64-")
        begin = time.monotonic()
        try:
            kinds = Kinds(options.x86, options.arm64, options.sysroot, top)
            seen = try_line(name, kinds, top, options.rounds)
            print(f"{name}: {seen}; {time.monotonic() - begin:.0f} s", flush=True)
        except Failure as failure:
            failed += 1
            print(f"{name}: FAILED\n{failure}", flush=True)
        finally:
            shutil.rmtree(top, ignore_errors=True)
    print(f"{len(names) - failed} passed, {failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(main())
