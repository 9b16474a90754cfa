#!/usr/bin/env python3
"""What a capped line sends and receives, packet by packet, and what the cap costs the others.

    ATOLL_BIN=build/release/bin python3 tests/bench/cap_benchmark.py

Needs root. Starts a coordinator and four peers, each in a network namespace with a line of 100
Mbit/s; peer-1 has [machine] up_cap = down_cap = 10 Mbit/s, or with --cap 0 none. The
kernel counts what passes its interface, headers and all, ten times a second. Half-way, a fifth
machine joins from nothing and fetches the state from the others. Prints one JSON object:

    cap_mbit                       what was asked for
    up_mbit, down_mbit             the busiest 5 seconds of peer-1's line, and the mean of the run
    exchange_over_predicted        of each round, the exchange's seconds over those that the plan
                                   predicted: median and worst, before and with the joiner
    rounds                         that were looked at
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
sys.path.insert(0, os.path.join(HERE, "..", "wan"))
import world  # noqa: E402
from cluster import BIN, wait_for  # noqa: E402

WINDOW = 5.0
SAMPLE = 0.1

CONFIG = """
[run]
id = "caps"
rounds = 100000
peers = {peers}
[model]
kind = "stub"
parameters = {parameters}
[inner]
steps = 10
step_time = "{step_milliseconds}ms"
[exchange]
codec = "int8"
chunk_elements = 65536
[evaluation]
every_rounds = 0
[coordinator]
address = "10.77.0.100:7070"
dir = "{top}/coordinator"
aggregator = "never"
"""

PEER = """
[peer]
id = "{name}"
dir = "{top}/{name}"
listen = "0.0.0.0:7071"
advertise = "{address}:7071"
up_rate = "{line}Mbit"
down_rate = "{line}Mbit"
[worker]
program = "{program}"
"""


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def add_node(name, address, line):
    """A namespace on the bridge; its line passes `line` Mbit/s each way, a packet at a time."""
    outer = f"v-{name}"
    run("ip", "netns", "add", name)
    run("ip", "link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", name)
    run("ip", "link", "set", outer, "master", "hub", "gso_max_segs", "1", "up")
    for commands in (["addr", "add", f"{address}/24", "dev", "eth0"],
                     ["link", "set", "lo", "up"],
                     ["link", "set", "eth0", "gso_max_segs", "1", "up"]):
        run("ip", "-n", name, *commands)
    if line:
        shaped = ["root", "tbf", "rate", f"{line}mbit", "burst", "32kb", "latency", "50ms"]
        run("tc", "qdisc", "add", "dev", outer, *shaped)
        run("tc", "-n", name, "qdisc", "add", "dev", "eth0", *shaped)


def counts(name):
    """Bytes that the node has sent and received: what the other end of its cable has seen."""
    with open("/proc/net/dev", encoding="utf-8") as source:
        for row in source:
            device, _, figures = row.partition(":")
            if device.strip() == f"v-{name}":
                words = figures.split()
                return int(words[0]), int(words[8])
    raise AssertionError(f"no device of {name}")


class Bench:
    def __init__(self, top, options):
        self.top = top
        self.options = options
        self.processes = {}

    def start(self, name, address, line, text, *verb):
        add_node(name, address, line)
        folder = os.path.join(self.top, name)
        path = os.path.join(self.top, f"{name}.toml")
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        if name != "coordinator":
            run(os.path.join(BIN, "atoll"), "identity", "issue", "--dir",
                os.path.join(self.top, "coordinator"), "--id", name, "--out",
                os.path.join(folder, "identity"))
        log = open(os.path.join(self.top, f"{name}.log"), "w", encoding="utf-8")
        self.processes[name] = subprocess.Popen(
            ["ip", "netns", "exec", name, os.path.join(BIN, "atolld"), *verb, "--config", path],
            stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def config(self):
        options = self.options
        return CONFIG.format(peers=options.peers, parameters=options.parameters, top=self.top,
                             step_milliseconds=options.step_milliseconds)

    def start_peer(self, index):
        options = self.options
        name, address = f"peer-{index}", f"10.77.0.{index}"
        text = self.config() + PEER.format(
            name=name, top=self.top, address=address, line=options.line,
            program=os.path.abspath(os.path.join(BIN, "atoll-stub-worker")))
        if index == 1 and options.cap:
            text += f'[machine]\nup_cap = "{options.cap}Mbit"\ndown_cap = "{options.cap}Mbit"\n'
        self.start(name, address, options.line, text, "peer")

    def status(self):
        done = subprocess.run(
            ["ip", "netns", "exec", "coordinator", os.path.join(BIN, "atoll"), "run", "show",
             "--coordinator", "10.77.0.100:7070", "--identity",
             os.path.join(self.top, "coordinator", "admin"), "--from", "1", "--limit", "1000",
             "--json"],
            capture_output=True, text=True, check=False, timeout=30)
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def version(self):
        return int(self.status().get("version", 0))

    def live(self):
        return sum(one["member"]["state"] == "live" for one in self.status().get("peers", []))

    def log(self, name):
        with open(os.path.join(self.top, f"{name}.log"), encoding="utf-8") as source:
            return source.read()

    def sample(self, seconds):
        samples = []
        begin = time.monotonic()
        while time.monotonic() < begin + seconds:
            samples.append((time.monotonic(), *counts("peer-1")))
            time.sleep(SAMPLE)  # the grain of the figures
        return samples


def busiest(samples, column):
    """Mbit/s of the busiest window, and of all."""
    most = 0.0
    first = 0
    for last in range(len(samples)):
        while samples[last][0] - samples[first + 1][0] >= WINDOW:
            first += 1
        took = samples[last][0] - samples[first][0]
        if took >= WINDOW:
            most = max(most, (samples[last][column] - samples[first][column]) / took)
    took = samples[-1][0] - samples[0][0]
    mean = (samples[-1][column] - samples[0][column]) / took
    return {"busiest_5_s": round(most * 8e-6, 3), "mean": round(mean * 8e-6, 3)}


def ratios(rounds, first, last):
    found = [one["exchange_seconds"] / one["predicted_seconds"] for one in rounds
             if first <= int(one["version"]) <= last and one.get("predicted_seconds")]
    if not found:
        return None
    return {"median": round(statistics.median(found), 3), "worst": round(max(found), 3),
            "rounds": len(found)}


def measure(top, options):
    bench = Bench(top, options)
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "hub", "type", "bridge")
    run("ip", "link", "set", "hub", "up")
    try:
        bench.start("coordinator", "10.77.0.100", 0, bench.config(), "coordinator")
        wait_for("the coordinator", lambda: bench.status() != {}, 30)
        for index in range(2, options.peers + 1):
            bench.start_peer(index)
        # Last: who comes first makes the state, and all others would fetch it through the cap.
        wait_for("the others", lambda: bench.live() == options.peers - 1, 120)
        bench.start_peer(1)
        wait_for("some rounds", lambda: bench.version() >= 3, 180)
        first = bench.version() + 1
        samples = bench.sample(options.seconds)
        middle = bench.version()
        bench.start_peer(options.peers + 1)
        samples += bench.sample(options.seconds)
        status = bench.status()
        rounds = status["rounds"]
        last = int(status["version"])
        print(json.dumps({
            "cap_mbit": options.cap, "line_mbit": options.line, "peers": options.peers,
            "parameters": options.parameters,
            "up_mbit": busiest(samples, 1), "down_mbit": busiest(samples, 2),
            "exchange_over_predicted": {"before": ratios(rounds, first, middle),
                                        "with_joiner": ratios(rounds, middle + 1, last)},
            "exchanges": [[round(one["exchange_seconds"], 2), one.get("predicted_seconds"),
                           one.get("plan")] for one in rounds if int(one["version"]) >= first],
            "train_seconds": options.step_milliseconds / 100}, indent=1))
        return 0
    except BaseException:
        for name in bench.processes:
            print(f"--- {name}\n{bench.log(name)[-1500:]}", file=sys.stderr)
        raise
    finally:
        for process in bench.processes.values():
            process.kill()
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--cap", type=int, default=10, help="Mbit/s; 0: none")
    parser.add_argument("--line", type=int, default=100, help="Mbit/s of every line")
    parser.add_argument("--peers", type=int, default=4)
    parser.add_argument("--parameters", type=int, default=4_000_000)
    parser.add_argument("--step-milliseconds", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=30, help="before and with the joiner")
    options = parser.parse_args()
    try:
        world.check_machine({"ip": "iproute2", "tc": "iproute2"})
        world.enter()
    except world.Impossible as why:
        print(f"skipped: {why}", file=sys.stderr)
        return world.SKIPPED
    os.makedirs("/run/netns", exist_ok=True)
    top = tempfile.mkdtemp(prefix="atoll-caps-")
    try:
        return measure(top, options)
    finally:
        shutil.rmtree(top, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
