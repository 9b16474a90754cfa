#!/usr/bin/env python3
"""What thousands of peers cost one coordinator.

    ATOLL_BIN=build/release/bin python3 tests/bench/session_load_benchmark.py --peers 1000

Starts `atolld coordinator` on loopback and, beside it, tests/bench/session_load.cc: peers that hold
real Sessions, a connection with mutual TLS each, and go through whole rounds, but train nothing and
send each other nothing; so there is nothing to audit. An entry names about a thousand contributors
at most, so from that many peers on each round draws a thousand of them ([federation]
participation), and waits for them. Prints one JSON object:

    joined, join_seconds     all Sessions are there and welcome; how long that took
    join_cpu_seconds         of the coordinator's processor meanwhile
    join_cpu_seconds_a_peer  of that each peer's share
    memory_bytes             the coordinator's resident memory after the last round
    memory_bytes_a_peer      what each peer has added to it
    plan_seconds             from the last Ready on to the plan at the last contributor: the median
    round_cpu_seconds        of the coordinator's processor a round: the median of all but the first
    told_bytes_a_peer        what the coordinator tells each peer a round, and of what that consists
    broken                   Sessions that ended
    rounds                   the same of each round
"""

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from cluster import BIN, free_port, wait_for  # noqa: E402

LOAD = os.path.join(BIN, "..", "tests", "session_load")
MOST_CONTRIBUTORS = 1000

CONFIG = """
[run]
id = "load"
rounds = 1000000
peers = {needed}
[model]
kind = "stub"
parameters = {parameters}
[inner]
steps = 10
[exchange]
codec = "int8"
chunk_elements = {chunk_elements}
audit_share = 0
[evaluation]
every_rounds = 0
[membership]
failure_timeout = "{failure_timeout}s"
stragglers = "wait"
[coordinator]
address = "127.0.0.1:{port}"
dir = "{folder}/coordinator"
aggregator = "never"
"""


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as source:
        fields = source.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_bytes(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as source:
        for line in source:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def measure(arguments, folder, coordinator, load):
    pid = coordinator.pid
    empty, cpu = memory_bytes(pid), cpu_seconds(pid)
    joined, rounds = None, []
    for line in load.stdout:
        said = json.loads(line)
        now = cpu_seconds(pid)
        said["cpu_seconds"] = round(now - cpu, 2)
        said["memory_bytes"] = memory_bytes(pid)
        cpu = now
        if "joined" in said:
            joined = said
            print(json.dumps(said), file=sys.stderr)
        else:
            rounds.append(said)
            print(json.dumps(said), file=sys.stderr)
    if joined is None or not rounds:
        raise AssertionError(f"no round; {folder}/coordinator.log says why")
    later = rounds[1:] or rounds
    memory = rounds[-1]["memory_bytes"]
    return {"peers": arguments.peers, "contributors": rounds[-1]["plans"],
            "joined": joined["joined"], "join_seconds": joined["join_seconds"],
            "join_cpu_seconds": joined["cpu_seconds"],
            "join_cpu_seconds_a_peer": round(joined["cpu_seconds"] / arguments.peers, 5),
            "memory_bytes": memory, "memory_bytes_a_peer": (memory - empty) // arguments.peers,
            "plan_seconds": statistics.median(one["plan_seconds"] for one in later),
            "round_cpu_seconds": statistics.median(one["cpu_seconds"] for one in later),
            "told_bytes_a_peer": later[-1]["told_bytes_a_peer"], "told": later[-1]["told"],
            "broken": rounds[-1]["broken"], "rounds": rounds}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--dialable", type=int, default=16, help="peers that others could dial")
    parser.add_argument("--parameters", type=int, default=1000000)
    parser.add_argument("--chunk-elements", type=int, default=4096)
    parser.add_argument("--failure-timeout", type=int, default=30, help="seconds")
    parser.add_argument("--train-seconds", type=float, default=5)
    parser.add_argument("--seconds", type=float, default=500, help="the longest that it lasts")
    parser.add_argument("--contributors", type=int, default=MOST_CONTRIBUTORS,
                        help="a round, at most")
    parser.add_argument("--keep", action="store_true", help="the folder, with the log")
    parser.add_argument("--profile", action="store_true", help="perf record of the coordinator")
    arguments = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="atoll-load-")
    port = free_port()
    needed = min(arguments.peers, arguments.contributors)
    config = os.path.join(folder, "run.toml")
    with open(config, "w", encoding="utf-8") as out:
        out.write(CONFIG.format(
            needed=needed, parameters=arguments.parameters, folder=folder, port=port,
            chunk_elements=arguments.chunk_elements, failure_timeout=arguments.failure_timeout))
        if needed < arguments.peers:
            out.write(f"[federation]\nparticipation = {needed / arguments.peers}\n")
    running = []
    try:
        with open(os.path.join(folder, "coordinator.log"), "w", encoding="utf-8") as log:
            coordinator = subprocess.Popen(
                [os.path.join(BIN, "atolld"), "coordinator", "--config", config],
                stdout=log, stderr=subprocess.STDOUT)
        running.append(coordinator)
        wait_for("the coordinator listens", lambda: listens(port))
        if arguments.profile:
            running.append(subprocess.Popen(
                ["perf", "record", "-g", "-F", "199", "-o", os.path.join(folder, "perf.data"), "-p",
                 str(coordinator.pid)], stderr=subprocess.DEVNULL))
        load = subprocess.Popen(
            [LOAD, "--address", f"127.0.0.1:{port}", "--dir", os.path.join(folder, "coordinator"),
             "--folder", os.path.join(folder, "peers"), "--peers", str(arguments.peers),
             "--rounds", str(arguments.rounds), "--dialable", str(arguments.dialable),
             "--parameters", str(arguments.parameters),
             "--train-seconds", str(arguments.train_seconds),
             "--failure-timeout", str(arguments.failure_timeout),
             "--seconds", str(arguments.seconds)], stdout=subprocess.PIPE, text=True)
        running.append(load)
        print(json.dumps(measure(arguments, folder, coordinator, load)))
    finally:
        for process in reversed(running):
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if arguments.keep or arguments.profile:
            print(folder, file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
