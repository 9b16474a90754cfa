#!/usr/bin/env python3
"""How much of the time workers train, by mode, over the laboratory's lines.

    sudo ATOLL_BIN=build/release/bin python3 tests/bench/modes_benchmark.py \\
        [--rate 50Mbit] [--rtt 100ms] [--steps 40] [--step-time 400ms] [--parameters 10600000]

Four peers train a stub, whose inner steps take their time and no processor, so the network alone
counts: `sync` with fp32, with int8, and `eager` and `streaming` (one fragment, merged a quarter of
the round later) with int4. Prints one JSON object: for each, the median seconds of a round from
commit to commit without the first, the share of them that the inner steps take (the utilisation),
and whether all replicas ended with the same bits.
"""

import argparse
import datetime
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LAB = os.path.join(HERE, "..", "wan", "lab")
TOPOLOGY = '[region.eu]\npeers = 4\nrate = "{rate}"\nrtt = "{rtt}"\n'
CONFIG = """
[run]
rounds = {rounds}
seed = 1337
[model]
kind = "stub"
parameters = {parameters}
context = 64
[inner]
steps = {steps}
step_time = "{step_time}"
batch = 16
[outer]
rule = "nesterov"
[exchange]
codec = "{codec}"
chunk_elements = 65536
[evaluation]
every_rounds = 0
[membership]
failure_timeout = "10s"
{mode}
"""
UNITS = {"ms": 0.001, "s": 1.0}


def cases(steps):
    """A name, a codec, and the mode's keys."""
    overlap = max(1, steps // 4)
    return [
        ("sync fp32", "fp32", ""),
        ("sync int8", "int8", ""),
        ("eager int4", "int4", '[mode]\nkind = "eager"\n'),
        (f"streaming int4, tau {overlap}", "int4",
         f'[mode]\nkind = "streaming"\noverlap = {overlap}\n'),
    ]


def seconds_of(text):
    number, unit = re.fullmatch(r"([0-9.]+)(ms|s)", text).groups()
    return float(number) * UNITS[unit]


def round_seconds(log):
    """From commit to commit, as the coordinator's log has it; without the first."""
    with open(log, encoding="utf-8") as source:
        found = re.findall(r"(?m)^(\S+)Z info round \d+: committed", source.read())
    times = [datetime.datetime.fromisoformat(one).timestamp() for one in found]
    return [later - before for before, later in zip(times[1:], times[2:])]


def measure(options, name, codec, mode, top):
    topology, config = os.path.join(top, "topology.toml"), os.path.join(top, "config.toml")
    folder, out = os.path.join(top, "run"), os.path.join(top, "out.json")
    with open(topology, "w", encoding="utf-8") as file:
        file.write(TOPOLOGY.format(rate=options.rate, rtt=options.rtt))
    with open(config, "w", encoding="utf-8") as file:
        file.write(CONFIG.format(rounds=options.rounds, parameters=options.parameters,
                                 steps=options.steps, step_time=options.step_time, codec=codec,
                                 mode=mode))
    done = subprocess.run([LAB, "train", topology, "--config", config, "--rounds",
                           str(options.rounds), "--dir", folder, "--json", out],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{name}: the lab exited with {done.returncode}\n{done.stdout}{done.stderr}")
    with open(out, encoding="utf-8") as file:
        equal = json.load(file)["equal_digests"]
    median = statistics.median(round_seconds(os.path.join(folder, "coordinator", "output.txt")))
    return {"round": round(median, 3), "equal_digests": equal,
            "utilisation": round(options.steps * seconds_of(options.step_time) / median, 4)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", default="50Mbit")
    parser.add_argument("--rtt", default="100ms")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--step-time", default="400ms")
    parser.add_argument("--parameters", type=int, default=10600000)
    parser.add_argument("--rounds", type=int, default=5, help="4 at least")
    options = parser.parse_args()
    results = {}
    for name, codec, mode in cases(options.steps):
        with tempfile.TemporaryDirectory(prefix="atoll-modes-") as top:
            results[name] = measure(options, name, codec, mode, top)
        print(f"{name}: {results[name]}", file=sys.stderr, flush=True)
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
