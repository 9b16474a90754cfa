#!/usr/bin/env python3
"""How much of the time workers train, by mode, over the laboratory's lines.

    sudo ATOLL_BIN=build/release/bin python3 tests/bench/modes_benchmark.py \\
        [--rate 50Mbit] [--rtt 100ms] [--steps 40] [--step-time 400ms] [--parameters 10600000]
    sudo ATOLL_BIN=build/release/bin python3 tests/bench/modes_benchmark.py --real \\
        --text build/data/gcide.txt [--rate 50Mbit] [--rtt 100ms] [--fp32-share 0.3] [--tau 4]

Four peers train a stub, whose inner steps take their time and no processor, so the network alone
counts: `sync` with fp32, with int8, and `eager` and `streaming` (one fragment, merged a quarter of
the round later) with int4. Prints one JSON object: for each, the median seconds of a round from
commit to commit without the first, the share of them that the inner steps take (the utilisation),
and whether all replicas ended with the same bits.

With --real they train a GPT (6 layers, 384 wide: 10.8 million parameters, if nothing else is said)
on --text, on one thread each, so the four share this machine's cores, which the output states. A
step's time is then that of the same four training at once without any exchange, as four runs of one
peer each, just before. The utilisation is the inner steps that were done x that time / the wall
time, from the second commit to the last: what the exchange's own work takes from the cores counts
as lost, and so does all waiting. `in_steps` is the share of the wall time that workers themselves
say they were in inner steps, whatever those took: only waiting and their other work is missing from
it, not that a step is slower while this machine's other core is busy too. --fp32-share chooses the
steps of a round so that `sync` with fp32 comes to about that utilisation, by an exchange that is
measured first. Rows: sync fp32, sync int8, streaming int4. --pin gives the workers the first half
of the cores and all others, daemons and lab, the second: so no exchange takes time from a step.
"""

import argparse
import contextlib
import datetime
import glob
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
LAB = os.path.join(HERE, "..", "wan", "lab")
PEERS = 4
TOPOLOGY = '[region.eu]\npeers = {peers}\nrate = "{rate}"\nrtt = "{rtt}"\n'
COMMON = """
[run]
rounds = {rounds}
seed = 1337
[outer]
rule = "nesterov"
[exchange]
codec = "{codec}"
chunk_elements = 65536
[evaluation]
tokens = 4096
every_rounds = 0
[membership]
failure_timeout = "{failure_timeout}"
{mode}
"""
STUB = """
[model]
kind = "stub"
parameters = {parameters}
context = 64
[inner]
steps = {steps}
step_time = "{step_time}"
batch = 16
"""
REAL = """
[model]
kind = "gpt"
layers = {layers}
heads = {heads}
width = {width}
context = {context}
[data]
path = "{text}"
tokenizer = "bytes"
validation_fraction = 0.01
[inner]
optimizer = "adamw"
steps = {steps}
batch = {batch}
learning_rate = 1e-3
warmup_steps = 1
[worker]
threads = 1
device = "cpu"
"""
UNITS = {"ms": 0.001, "s": 1.0}
# Of the run that shows what an exchange of fp32 takes.
PROBE_STEPS, PROBE_ROUNDS = 2, 4


def cases(steps, real, tau):
    """A name, a codec, and the mode's keys."""
    overlap = tau or max(1, steps // 4)
    eager = [("eager int4", "int4", '[mode]\nkind = "eager"\n')]
    return [
        ("sync fp32", "fp32", ""),
        ("sync int8", "int8", ""),
        *([] if real else eager),
        (f"streaming int4, tau {overlap}", "int4",
         f'[mode]\nkind = "streaming"\noverlap = {overlap}\n'),
    ]


def seconds_of(text):
    number, unit = re.fullmatch(r"([0-9.]+)(ms|s)", text).groups()
    return float(number) * UNITS[unit]


def commit_times(log):
    """Of each round, as the coordinator's log has it."""
    with open(log, encoding="utf-8") as source:
        found = re.findall(r"(?m)^(\S+)Z info round \d+: committed", source.read())
    return [datetime.datetime.fromisoformat(one).timestamp() for one in found]


def round_seconds(log):
    """From commit to commit, without the first."""
    times = commit_times(log)
    return [later - before for before, later in zip(times[1:], times[2:])]


def config_text(options, steps, rounds, codec, mode):
    body = REAL if options.real else STUB
    # Trainers that share cores are slow to answer, and nobody is to be given up for it.
    return (body + COMMON).format(**{**vars(options), "steps": steps, "rounds": rounds,
                                     "codec": codec, "mode": mode,
                                     "failure_timeout": "60s" if options.real else "10s"})


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def train(options, name, config, rounds, top):
    """A run in the lab: its report, and the seconds of its rounds without the first."""
    topology, path = os.path.join(top, "topology.toml"), os.path.join(top, "config.toml")
    folder, out = os.path.join(top, "run"), os.path.join(top, "out.json")
    write(topology, TOPOLOGY.format(peers=PEERS, rate=options.rate, rtt=options.rtt))
    write(path, config)
    done = subprocess.run([LAB, "train", topology, "--config", path, "--rounds", str(rounds),
                           "--dir", folder, "--json", out],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{name}: the lab exited with {done.returncode}\n{done.stdout}{done.stderr}")
    with open(out, encoding="utf-8") as file:
        report = json.load(file)
    return report, round_seconds(os.path.join(folder, "coordinator", "output.txt"))


def measure(options, name, codec, mode, steps, step_seconds):
    with tempfile.TemporaryDirectory(prefix="atoll-modes-") as top:
        config = config_text(options, steps, options.rounds, codec, mode)
        report, rounds = train(options, name, config, options.rounds, top)
    median = statistics.median(rounds)
    result = {"round": round(median, 3), "equal_digests": report["equal_digests"]}
    if not options.real:
        return {**result, "utilisation": round(steps * step_seconds / median, 4)}
    # Whoever is late is not in a round, and what it did counts in a later one.
    done = steps * sum(report["contributors"][-len(rounds):])
    return {**result, "exchange": round(report["exchange_seconds_median"], 3),
            "in_steps": round(report["train_seconds_median"] / median, 4),
            "utilisation": round(done * step_seconds / (PEERS * sum(rounds)), 4)}


def alone(options, folder, number):
    """`atoll local` with one peer: training without an exchange."""
    config = os.path.join(folder, f"alone-{number}.toml")
    write(config, config_text(options, options.alone_steps, options.alone_rounds, "fp32", ""))
    command = [os.path.join(options.bin, "atoll"), "local", "--config", config, "--peers", "1",
               "--dir", os.path.join(folder, f"alone-{number}")]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True)


def seconds_of_step(options):
    """Median over the rounds in which all peers train: those that lie between the last of their
    first commits and the first of their last ones."""
    with tempfile.TemporaryDirectory(prefix="atoll-modes-") as top:
        for process in [alone(options, top, number) for number in range(PEERS)]:
            _, errors = process.communicate()
            if process.returncode != 0:
                sys.exit(f"a peer alone: exit {process.returncode}\n{errors[-2000:]}")
        runs = []
        for path in glob.glob(os.path.join(top, "*", "metrics.jsonl")):
            with open(path, encoding="utf-8") as source:
                rows = [json.loads(line) for line in source]
            log = os.path.join(os.path.dirname(path), "coordinator", "log.txt")
            runs.append((commit_times(log), [row["time/train_seconds"] for row in rows[1:]]))
    begin, end = max(times[0] for times, _ in runs), min(times[-1] for times, _ in runs)
    together = [seconds / options.alone_steps for times, trained in runs
                for before, after, seconds in zip(times, times[1:], trained[1:])
                if begin <= before and after <= end]
    if not together:
        sys.exit("the peers alone did not train at once: raise --alone-steps or --alone-rounds")
    return statistics.median(together)


def tasks_of_workers():
    for path in glob.glob("/proc/[0-9]*/comm"):
        try:
            with open(path, encoding="utf-8") as source:
                if source.read().strip() == "atoll-worker":
                    yield from map(int, os.listdir(os.path.join(os.path.dirname(path), "task")))
        except OSError:
            continue  # it has ended


class Pinned:
    """While it lasts, workers have cores of their own; what this process starts has the others."""

    def __init__(self):
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            sys.exit("--pin needs two cores")
        self.cores, self.workers = set(cores), set(cores[:len(cores) // 2])
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def watch(self):
        while not self.over.wait(0.1):
            for task in tasks_of_workers():
                try:
                    os.sched_setaffinity(task, self.workers)
                except OSError:
                    continue

    def __enter__(self):
        os.sched_setaffinity(0, self.cores - self.workers)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        os.sched_setaffinity(0, self.cores)


def steps_for(options, step_seconds):
    """How many steps a round of `sync` with fp32 must have for --fp32-share of training."""
    with tempfile.TemporaryDirectory(prefix="atoll-modes-") as top:
        config = config_text(options, PROBE_STEPS, PROBE_ROUNDS, "fp32", "")
        _, rounds = train(options, "probe", config, PROBE_ROUNDS, top)
    lost = max(0.0, statistics.median(rounds) - PROBE_STEPS * step_seconds)
    share = options.fp32_share
    return max(1, round(share / (1 - share) * lost / step_seconds)), lost


def measure_all(options):
    told = {}
    steps, step_seconds = options.steps, seconds_of(options.step_time)
    if options.real:
        step_seconds = seconds_of_step(options)
        told = {"peers": PEERS, "pinned": options.pin,
                "cores_a_peer": round(options.cores / PEERS, 3),
                "step_seconds": round(step_seconds, 4)}
        if options.fp32_share:
            steps, lost = steps_for(options, step_seconds)
            told["lost_seconds_of_fp32"] = round(lost, 3)
        told["steps"] = steps
        print(told, file=sys.stderr, flush=True)
    results = {}
    for name, codec, mode in cases(steps, options.real, options.tau):
        results[name] = measure(options, name, codec, mode, steps, step_seconds)
        print(f"{name}: {results[name]}", file=sys.stderr, flush=True)
    return {**told, "modes": results} if options.real else results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", default="50Mbit")
    parser.add_argument("--rtt", default="100ms")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--step-time", default="400ms", help="of the stub")
    parser.add_argument("--parameters", type=int, default=10600000, help="of the stub")
    parser.add_argument("--rounds", type=int, default=5, help="4 at least")
    parser.add_argument("--bin", default=os.environ.get("ATOLL_BIN", "build/release/bin"))
    parser.add_argument("--real", action="store_true", help="a GPT in place of the stub")
    parser.add_argument("--text", default="build/data/gcide.txt")
    parser.add_argument("--fp32-share", type=float,
                        help="utilisation of sync with fp32; says the steps in place of --steps")
    for name, value in {"layers": 6, "heads": 6, "width": 384, "context": 64, "batch": 4}.items():
        parser.add_argument(f"--{name}", type=int, default=value, help="of the GPT")
    parser.add_argument("--tau", type=int, help="steps into a round after which streaming merges; "
                        "a quarter of the round if nothing is said")
    parser.add_argument("--pin", action="store_true", help="workers have cores of their own")
    parser.add_argument("--alone-steps", type=int, default=10, help="a round without an exchange")
    parser.add_argument("--alone-rounds", type=int, default=6, help="3 at least")
    options = parser.parse_args()
    options.text = os.path.abspath(options.text)
    if options.rounds < 4 or options.alone_rounds < 3:
        parser.error("--rounds is 4 at least, and --alone-rounds 3")
    if options.fp32_share and not (options.real and 0 < options.fp32_share < 1):
        parser.error("--fp32-share is above 0 and below 1, and goes with --real")
    if options.pin and not options.real:
        parser.error("--pin goes with --real")
    options.cores = len(os.sched_getaffinity(0))
    with Pinned() if options.pin else contextlib.nullcontext() as pinned:
        if pinned:
            options.cores = len(pinned.workers)
        print(json.dumps(measure_all(options), indent=2))


if __name__ == "__main__":
    main()
