#!/usr/bin/env python3
"""What a flood from one admitted peer costs the others' rounds.

    ATOLL_BIN=build/release/bin python3 tests/bench/flood_benchmark.py

Starts four peers whose training only takes time, and lets a fifth, with a certificate of its own,
say 10,000 heartbeats and ask for 1,000 certificates a second (tests/bench/flooder.cc). Windows with
the flood and without it take turns, so that whatever else the machine does falls on both. The
flooder runs at the lowest priority (--nice): it is another machine, whose own work is not what is
measured. Where the machine is so busy that it then sends nothing, --nice 0 counts its work too.
Prints one JSON object:

    round_seconds, round_seconds_flooded   mean time from commit to commit, over all windows
    slowdown                               their ratio - 1
    windows                                the same of each pair
    coordinator_cpu, coordinator_cpu_flooded   seconds of processor a second
    flooder                                the last window: what it wanted, sent, and was answered
"""

import argparse
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from cluster import BIN, Cluster, atoll, wait_for  # noqa: E402

FLOODER = os.path.join(BIN, "..", "tests", "flooder")


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as source:
        fields = source.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(cluster, seconds):
    """(mean seconds a round, the coordinator's seconds of processor a second)"""
    pid = cluster.pid_of("coordinator")
    first, began, cpu = cluster.version(), time.monotonic(), cpu_seconds(pid)
    time.sleep(seconds)  # what is measured is how much happens meanwhile
    last, ended = cluster.version(), time.monotonic()
    return ((ended - began) / (last - first), (cpu_seconds(pid) - cpu) / (ended - began))


def flood(cluster, arguments, folder, seconds):
    return subprocess.Popen(
        ["nice", "-n", str(arguments.nice), FLOODER,
         "--address", cluster.process_of("coordinator")["address"],
         "--folder", folder, "--id", "flooder", "--heartbeats", str(arguments.heartbeats),
         "--enrolments", str(arguments.enrolments), "--seconds", str(seconds)],
        stdout=subprocess.PIPE, text=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--window", type=float, default=6, help="seconds")
    parser.add_argument("--heartbeats", type=float, default=10000, help="a second")
    parser.add_argument("--enrolments", type=float, default=1000, help="a second")
    parser.add_argument("--nice", type=int, default=19, help="of the flooder")
    parser.add_argument("--limits", default="", help="a [limits] section: another than the default")
    arguments = parser.parse_args()
    stub = {"parameters": 100000, "step_time": "25ms", "failure_timeout": "10s"}
    quiet, flooded, windows, answers = [], [], [], None
    with Cluster(rounds=100000, peers=4, quorum=3, steps=8, stub=stub,
                 extra=arguments.limits.replace("\\n", "\n")) as cluster:
        cluster.wait_version(5)
        folder = os.path.join(cluster.top, "flooder")
        done = atoll("identity", "issue", "--dir", cluster.process_of("coordinator")["dir"],
                     "--id", "flooder", "--out", folder)
        assert done.returncode == 0, done.stderr
        for _ in range(arguments.pairs):
            quiet.append(measure(cluster, arguments.window))
            flooder = flood(cluster, arguments, folder, arguments.window + 8)
            wait_for("the flooder is a member", lambda: cluster.peer("flooder"), 20)
            flooded.append(measure(cluster, arguments.window))
            answers = json.loads(flooder.communicate(timeout=60)[0])
            windows.append([round(quiet[-1][0], 4), round(flooded[-1][0], 4)])
    mean = [sum(one[0] for one in ones) / len(ones) for ones in (quiet, flooded)]
    cpu = [sum(one[1] for one in ones) / len(ones) for ones in (quiet, flooded)]
    print(json.dumps({"round_seconds": round(mean[0], 4),
                      "round_seconds_flooded": round(mean[1], 4),
                      "slowdown": round(mean[1] / mean[0] - 1, 4), "windows": windows,
                      "coordinator_cpu": round(cpu[0], 3),
                      "coordinator_cpu_flooded": round(cpu[1], 3), "flooder": answers}))


if __name__ == "__main__":
    main()
