#!/usr/bin/env python3
"""How much memory a peer's daemon takes, between exchanges and in them, with its values in memory
and on the disk; and, with --limit, that a run goes on in a control group with too little memory.

    ATOLL_BIN=build/release/bin python3 tests/bench/memory_benchmark.py --parameters 50000000
    ATOLL_BIN=... python3 tests/bench/memory_benchmark.py --parameters 250000000 --peers 1 \\
        --rounds 4 --limit 1500000000        # as root, with control groups of version 1

Prints one JSON object: for each place of the values (`memory`, `disk`), the resident bytes a
parameter of the worst daemon, median between exchanges and greatest in one, and seconds a round;
with --limit, the digests of the same run with and without the limit, which must be equal.
"""

import argparse
import datetime
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from cluster import BIN  # noqa: E402

CONFIG = """
[run]
rounds = {rounds}
peers = {peers}
[model]
kind = "stub"
parameters = {parameters}
[inner]
steps = 100
step_time = "{step_milliseconds}ms"
[exchange]
codec = "int8"
chunk_elements = 262144
[evaluation]
every_rounds = 0
[membership]
failure_timeout = "30s"
[peer]
values_in = "{values_in}"
snapshot_every = 1000
"""

GROUP = "/sys/fs/cgroup/memory/atoll-bench"


def resident(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as source:
            found = re.search(r"VmRSS:\s+(\d+) kB", source.read())
        return int(found[1]) * 1024 if found else 0
    except OSError:
        return 0


def start(config, folder, limit):
    """`atoll local`, in the control group if there is a limit."""
    enter = None
    if limit:
        os.makedirs(GROUP, exist_ok=True)
        with open(f"{GROUP}/memory.limit_in_bytes", "w", encoding="utf-8") as out:
            out.write(str(limit))

        def enter():
            with open(f"{GROUP}/cgroup.procs", "w", encoding="utf-8") as out:
                out.write(str(os.getpid()))
    with open(folder + ".txt", "w", encoding="utf-8") as said:
        return subprocess.Popen([os.path.join(BIN, "atoll"), "local", "--config", config, "--dir",
                                 folder], stdout=said, stderr=subprocess.STDOUT,
                                stdin=subprocess.DEVNULL, preexec_fn=enter)


def watch(run, folder, peers):
    """Samples each daemon's memory until the run ends: (in an exchange?, bytes), and its log."""
    samples = []
    while run.poll() is None:
        for i in range(1, peers + 1):
            try:
                with open(os.path.join(folder, f"peer-{i}", "pid"), encoding="utf-8") as source:
                    pid = int(source.read())
            except (OSError, ValueError):
                continue
            samples.append((time.time(), i, resident(pid)))
        time.sleep(0.05)
    return samples


def commits_of(folder):
    """When each version was committed, in seconds since the epoch, by the coordinator's log."""
    times = []
    with open(os.path.join(folder, "coordinator", "log.txt"), encoding="utf-8") as source:
        for line in source:
            if re.search(r"info round \d+: committed by", line):
                at = datetime.datetime.fromisoformat(line.split()[0].replace("Z", "+00:00"))
                times.append(at.timestamp())
    return times


def by_phase(samples, commits, train_seconds):
    """(bytes between exchanges, bytes in them) of the samples after the first commit. The second
    half of a training is surely between exchanges; all else counts as in one."""
    between, within = [], []
    for at, number, taken in samples:
        before = [one for one in commits if one <= at]
        if not before or at > commits[-1]:
            continue
        since = at - before[-1]
        quiet = 0.5 * train_seconds < since < 0.95 * train_seconds
        (between if quiet else within).append((number, taken))
    return between, within


def measure(options, values_in, limit=0):
    top = tempfile.mkdtemp(prefix="atoll-memory-", dir=options.at)
    folder, config = os.path.join(top, "run"), os.path.join(top, "run.toml")
    with open(config, "w", encoding="utf-8") as out:
        out.write(CONFIG.format(rounds=options.rounds, peers=options.peers, values_in=values_in,
                                parameters=options.parameters,
                                step_milliseconds=options.step_milliseconds))
    run = start(config, folder, limit)
    try:
        samples = watch(run, folder, options.peers)
        if run.returncode != 0:
            with open(folder + ".txt", encoding="utf-8") as said:
                sys.exit(f"atoll local ended with {run.returncode}:\n{said.read()}")
        commits = commits_of(folder)
        assert len(commits) == options.rounds, f"{len(commits)} of {options.rounds} rounds"
        between, within = by_phase(samples, commits, options.step_milliseconds / 10)
        return {
            "bytes_per_parameter_between_exchanges": worst(between, statistics.median, options),
            "bytes_per_parameter_in_exchanges": worst(within, max, options),
            "round_seconds": round(statistics.median(
                after - before for before, after in zip(commits, commits[1:])), 2),
            "state_digest": digest_of(folder),
        }
    finally:
        if run.poll() is None:
            run.terminate()
            run.wait(timeout=120)
        shutil.rmtree(top, ignore_errors=True)


def worst(samples, figure, options):
    """The figure of the peer for which it is greatest, in bytes a parameter."""
    peers = {number for number, _ in samples}
    return round(max(figure([taken for one, taken in samples if one == number])
                     for number in peers) / options.parameters, 2)


def digest_of(folder):
    with open(os.path.join(folder, "peer-1", "log.txt"), encoding="utf-8") as source:
        return re.search(r"is sealed at version \d+, state ([0-9a-f]+)", source.read())[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--parameters", type=int, default=50_000_000)
    parser.add_argument("--peers", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--step-milliseconds", type=int, default=100)
    parser.add_argument("--limit", type=int, default=0,
                        help="bytes of memory of all processes together, for values on the disk")
    parser.add_argument("--at", default=None, help="a folder on the disk to be measured")
    options = parser.parse_args()
    result = {"parameters": options.parameters, "peers": options.peers}
    for values_in in ("memory", "disk"):
        result[values_in] = measure(options, values_in)
        print(values_in, result[values_in], file=sys.stderr)
    if options.limit:
        result["limit"] = options.limit
        result["disk, limited"] = measure(options, "disk", options.limit)
    digests = {one["state_digest"] for one in result.values() if isinstance(one, dict)}
    result["equal_digests"] = len(digests) == 1
    print(json.dumps(result, indent=1))
    return 0 if result["equal_digests"] else 1


if __name__ == "__main__":
    sys.exit(main())
