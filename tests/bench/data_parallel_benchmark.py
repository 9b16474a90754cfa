#!/usr/bin/env python3
"""Wall time to a validation loss over slow lines: Atoll beside data-parallel training with Gloo.

    sudo ATOLL_BIN=build/release/bin python3 tests/bench/data_parallel_benchmark.py \\
        --text tinyshakespeare.txt [--rate 10Mbit] [--rtt 100ms] [--steps 1000] [--python PYTHON]

Four peers on one thread each train nanoGPT's shakespeare_char configuration for a CPU by bytes (4
layers, 128 wide, context 64, batch 12 a peer, --steps steps): Atoll in the laboratory with int8,
with fp32 and in mode `streaming` with int4, an exchange every --round steps; and
data_parallel_trainer.py, the same model in PyTorch's DistributedDataParallel over Gloo, in four
processes on this machine. PYTHON is an interpreter that has torch.

The target is a loss that data-parallel training comes to on the way (--target; if nothing is said,
its loss after three fifths of the steps). All measure it on the same held-out bytes, every --round
steps. Nobody has the patience for data-parallel training over such lines to its end, so its wall
time is told as a product: the mean of 20 steps in the same laboratory x the steps that the run
without lines needs to the target. Evaluations are in Atoll's time and not in that product. Prints
one JSON object:

    data_parallel   steps_to_target, step_seconds over the lines and without them, wall_seconds
    atoll           by kind: wall_seconds from the first step to the commit of the first version
                    that is at the target (null: none is), the steps to it, the loss at the end,
                    and `faster`: data-parallel training's wall time over it

Without torch one line says so, and the exit code is 77.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LAB = os.path.join(HERE, "..", "wan", "lab")
TRAINER = os.path.join(HERE, "data_parallel_trainer.py")
SKIPPED = 77
PEERS = 4
# The first steps make connections, and DistributedDataParallel settles its buckets.
UNCOUNTED, COUNTED = 3, 20
TOPOLOGY = '[region.peer]\npeers = {peers}\nrate = "{rate}"\nrtt = "{rtt}"\n'
CONFIG = """
[run]
rounds = {rounds}
peers = {peers}
quorum = {peers}
seed = {seed}
[model]
kind = "gpt"
layers = {layers}
heads = {heads}
width = {width}
context = {context}
[data]
path = "{text}"
tokenizer = "bytes"
validation_fraction = 0.1
[inner]
optimizer = "adamw"
steps = {round}
batch = {batch}
learning_rate = 1e-3
min_learning_rate = 1e-4
warmup_steps = {warmup}
beta1 = 0.9
beta2 = 0.99
weight_decay = 0.1
gradient_clip = 1.0
[outer]
rule = "nesterov"
learning_rate = 0.7
momentum = 0.9
[exchange]
codec = "{codec}"
[evaluation]
tokens = {validation_tokens}
every_rounds = 1
[membership]
failure_timeout = "60s"
[worker]
threads = 1
device = "cpu"
{mode}"""


def kinds(options):
    """A name, a codec, and the mode's keys."""
    overlap = max(1, options.round // 4)
    return [("sync int8", "int8", ""), ("sync fp32", "fp32", ""),
            (f"streaming int4, tau {overlap}", "int4",
             f'[mode]\nkind = "streaming"\noverlap = {overlap}\n')]


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def topology(options, top):
    return write(os.path.join(top, "topology.toml"),
                 TOPOLOGY.format(peers=PEERS, rate=options.rate, rtt=options.rtt))


def checked(command, what, **more):
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL, **more)
    if done.returncode != 0:
        sys.exit(f"{what}: exit {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done


def trainer_command(options, top, rank, steps, every, interface):
    command = [options.python, TRAINER, "--rank", str(rank), "--peers", str(PEERS), "--meeting",
               os.path.join(top, "meeting"), "--interface", interface, "--text", options.text,
               "--out", os.path.join(top, "out.json"), "--steps", str(steps), "--every", str(every)]
    for name in ("layers", "heads", "width", "context", "batch", "warmup", "seed"):
        command += [f"--{name}", str(getattr(options, name))]
    return command + ["--schedule", str(options.steps),
                      "--validation-tokens", str(options.validation_tokens)]


def environment():
    return {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def told(top):
    with open(os.path.join(top, "out.json"), encoding="utf-8") as source:
        return json.load(source)


def without_lines(options, top):
    """The whole training on loopback."""
    processes = [subprocess.Popen(trainer_command(options, top, rank, options.steps, options.round,
                                                  "lo"), env=environment())
                 for rank in range(PEERS)]
    if any([process.wait() for process in processes]):
        sys.exit("data-parallel training without lines has failed")
    return told(top)


def over_lines(options, top):
    """Some steps in the laboratory, each process on its node, whose name tells which it is."""
    command = trainer_command(options, top, "RANK", UNCOUNTED + COUNTED, 0, "wan0")
    script = "rank=$((${ATOLL_NODE##*-} - 1)); exec \"${@/#RANK/$rank}\""
    on = [word for peer in range(1, PEERS + 1) for word in ("--on", f"peer-{peer}")]
    checked([LAB, "run", topology(options, top), *on, "--", "bash", "-c", script, "bash",
             *command], "data-parallel training in the lab", env=environment())
    return told(top)


def run_atoll(options, top, codec, mode):
    config = write(os.path.join(top, "atoll.toml"),
                   CONFIG.format(**{**vars(options), "peers": PEERS, "codec": codec, "mode": mode,
                                    "rounds": options.steps // options.round}))
    folder = os.path.join(top, "run")
    checked([os.path.join(options.bin, "atoll"), "local", "--config", config, "--dir", folder,
             "--topology", topology(options, top)], "atoll local",
            env={**os.environ, "ATOLL_LAB": LAB})
    with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as source:
        return [json.loads(line) for line in source]


def to_target(options, rows, target, data_parallel):
    losses = [row for row in rows if row["validation/loss"] is not None]
    reached = [row for row in losses if float(row["validation/loss"]) <= target]
    result = {"wall_seconds": None, "steps": None, "faster": None,
              "last_loss": round(float(losses[-1]["validation/loss"]), 4),
              "all_seconds": round(rows[-1]["time/elapsed_seconds"], 2)}
    if reached:
        wall = reached[0]["time/elapsed_seconds"]
        result.update(wall_seconds=round(wall, 2), steps=reached[0]["version"] * options.round,
                      faster=round(data_parallel / wall, 2))
    return result


def measure(options):
    with tempfile.TemporaryDirectory(prefix="atoll-data-parallel-") as top:
        free = without_lines(options, top)
    target = options.target
    if target is None:
        target = next(loss for step, loss in free["losses"] if step >= 0.6 * options.steps)
    steps = next((step for step, loss in free["losses"] if loss <= target), None)
    if steps is None:
        sys.exit(f"data-parallel training never comes to {target}: {free['losses']}")
    print(f"without lines: {free['losses']}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="atoll-data-parallel-") as top:
        shaped = statistics.mean(over_lines(options, top)["seconds"][UNCOUNTED:])
    wall = steps * shaped
    result = {"rate": options.rate, "rtt": options.rtt, "peers": PEERS,
              "cores": len(os.sched_getaffinity(0)), "parameters": free["parameters"],
              "target_loss": round(target, 4),
              "data_parallel": {
                  "steps_to_target": steps, "step_seconds": round(shaped, 3),
                  "step_seconds_without_lines": round(
                      statistics.median(free["seconds"][UNCOUNTED:]), 4),
                  "wall_seconds": round(wall, 1),
                  "wall_is": f"the mean of {COUNTED} steps over the lines x the steps that the run "
                             "without lines needs to the target"},
              "atoll": {}}
    print(result["data_parallel"], file=sys.stderr, flush=True)
    for name, codec, mode in kinds(options):
        with tempfile.TemporaryDirectory(prefix="atoll-data-parallel-") as top:
            rows = run_atoll(options, top, codec, mode)
        result["atoll"][name] = to_target(options, rows, target, wall)
        print(f"{name}: {result['atoll'][name]}", file=sys.stderr, flush=True)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--text", required=True, help="tinyshakespeare, or any text")
    parser.add_argument("--rate", default="10Mbit")
    parser.add_argument("--rtt", default="100ms")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--round", type=int, default=25, help="inner steps between two exchanges")
    parser.add_argument("--target", type=float, help="validation loss, nats a byte")
    parser.add_argument("--bin", default=os.environ.get("ATOLL_BIN", "build/release/bin"))
    parser.add_argument("--python", default="/usr/bin/python3", help="one that has torch")
    sizes = {"layers": 4, "heads": 4, "width": 128, "context": 64, "batch": 12, "warmup": 100,
             "seed": 1337, "validation-tokens": 16384}
    for name, value in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    options.text = os.path.abspath(options.text)
    options.bin = os.path.abspath(options.bin)
    if options.steps % options.round != 0:
        parser.error(f"--steps {options.steps} is no multiple of --round {options.round}")
    found = subprocess.run([options.python, "-c", "import torch.distributed as d; "
                                                  "assert d.is_gloo_available()"],
                           capture_output=True, text=True, check=False)
    if found.returncode != 0:
        print(f"skipped: {options.python} has no torch with Gloo; python3-torch has it")
        sys.exit(SKIPPED)
    print(json.dumps(measure(options), indent=2))


if __name__ == "__main__":
    main()
