#!/usr/bin/env python3
"""What a snapshot and a joiner cost the others, and what a peer needs of memory.

    ATOLL_BIN=build/release/bin python3 tests/bench/join_benchmark.py --parameters 100000000

Starts four peers whose training only takes time, lets some rounds pass undisturbed, then lets every
peer take a snapshot while a fifth machine joins from nothing. Prints one JSON object:

    parameters, peers, train_seconds      of a round's inner steps
    round_seconds                         median of undisturbed rounds, from commit to commit
    round_seconds_disturbed               median of those between the joiner's start and its entry
    slowdown                              their ratio - 1
    seconds_to_join                       from the joiner's start until it holds the newest version
    bytes_per_parameter                   peak resident memory of the worst daemon / parameters
    bytes_per_parameter_beyond_worker     the same without the slots that it shares with its worker
"""

import argparse
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
from cluster import BIN, atoll, wait_for  # noqa: E402

CONFIG = """
[run]
rounds = 1000
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
failure_timeout = "10s"
[peer]
snapshot_every = {snapshot_every}
"""


def status_of(folder):
    done = atoll("run", "show", "--dir", folder, "--json", timeout=60)
    return json.loads(done.stdout) if done.returncode == 0 else {}


def version_of(folder):
    return int(status_of(folder).get("version", 0))


def resident_bytes(pid):
    """The peak, and what of it now is shared with the worker."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as source:
        text = source.read()
    return [int(re.search(key + r":\s+(\d+) kB", text)[1]) * 1024 for key in ("VmHWM", "RssShmem")]


def start_joiner(folder, top):
    """A copy of peer-1's config under another name and an otherwise empty directory."""
    with open(os.path.join(folder, "peer-1", "config.toml"), encoding="utf-8") as source:
        config = source.read()
    home = os.path.join(top, "joiner")
    config = config.replace('id = "peer-1"', 'id = "joiner"')
    config = config.replace(os.path.join(folder, "peer-1"), home)
    issued = atoll("identity", "issue", "--dir", os.path.join(folder, "coordinator"),
                   "--id", "joiner", "--out", os.path.join(home, "identity"))
    assert issued.returncode == 0, issued.stderr
    path = os.path.join(home, "config.toml")
    with open(path, "w", encoding="utf-8") as out:
        out.write(config)
    log = open(os.path.join(home, "output.txt"), "w", encoding="utf-8")
    return subprocess.Popen([os.path.join(BIN, "atolld"), "peer", "--config", path], stdout=log,
                            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--parameters", type=int, default=100_000_000)
    parser.add_argument("--peers", type=int, default=4)
    parser.add_argument("--step-milliseconds", type=int, default=100)
    parser.add_argument("--undisturbed", type=int, default=5, help="rounds before the joiner comes")
    options = parser.parse_args()
    top = tempfile.mkdtemp(prefix="atoll-join-")
    folder = os.path.join(top, "run")
    config = os.path.join(top, "run.toml")
    snapshot_at = options.undisturbed + 1  # the first round also makes version 0
    with open(config, "w", encoding="utf-8") as out:
        out.write(CONFIG.format(peers=options.peers, parameters=options.parameters,
                                step_milliseconds=options.step_milliseconds,
                                snapshot_every=snapshot_at))
    run = subprocess.Popen([os.path.join(BIN, "atoll"), "local", "--config", config, "--dir",
                            folder], stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT,
                           stdin=subprocess.DEVNULL)
    joiner = None
    try:
        wait_for(f"version {snapshot_at}", lambda: version_of(folder) >= snapshot_at, 900)
        joiner = start_joiner(folder, top)
        began = time.monotonic()
        first_disturbed = snapshot_at + 1

        def joined():
            for peer in status_of(folder).get("peers", []):
                member = peer["member"]
                if member["peer"] == "joiner" and member["state"] == "live":
                    return int(member.get("version", 0)) >= first_disturbed - 1
            return False

        wait_for("the joiner holds a state", joined, 600)
        seconds_to_join = time.monotonic() - began
        last_disturbed = max(version_of(folder) + 1, first_disturbed)
        wait_for("the round that was disturbed", lambda: version_of(folder) >= last_disturbed, 300)
        rounds = {int(one["version"]): one["elapsed_seconds"]
                  for one in status_of(folder)["rounds"]}
        lengths = {v: rounds[v] - rounds[v - 1] for v in rounds if v - 1 in rounds}
        undisturbed = [lengths[v] for v in range(2, snapshot_at + 1)]
        disturbed = [lengths[v] for v in range(first_disturbed, last_disturbed + 1)]
        resident = beyond = 0
        for i in range(1, options.peers + 1):
            with open(os.path.join(folder, f"peer-{i}", "pid"), encoding="utf-8") as source:
                peak, shared = resident_bytes(int(source.read()))
            resident = max(resident, peak)
            beyond = max(beyond, peak - shared)
        quiet = statistics.median(undisturbed)
        busy = statistics.median(disturbed)
        print(json.dumps({
            "parameters": options.parameters, "peers": options.peers,
            "train_seconds": options.step_milliseconds / 10,
            "round_seconds": round(quiet, 3), "round_seconds_disturbed": round(busy, 3),
            "slowdown": round(busy / quiet - 1, 4), "seconds_to_join": round(seconds_to_join, 1),
            "bytes_per_parameter": round(resident / options.parameters, 2),
            "bytes_per_parameter_beyond_worker": round(beyond / options.parameters, 2),
            "rounds_undisturbed": [round(one, 2) for one in undisturbed],
            "rounds_disturbed": [round(one, 2) for one in disturbed]}, indent=1))
        return 0
    finally:
        for process in [joiner, run]:
            if process is not None and process.poll() is None:
                process.terminate()
                try:
                    process.wait(timeout=60)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        shutil.rmtree(top, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
