"""What the benchmarks of training share: nanoGPT's shakespeare_char configuration for a CPU (4
layers, 4 heads, 128 wide, context 64, rate 1e-3 to 1e-4) as a run of Atoll, and the run itself."""

import datetime
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time

CONTEXT = 64

CONFIG = """
[run]
rounds = {rounds}
peers = {peers}
quorum = {peers}
seed = {seed}
[model]
kind = "gpt"
layers = 4
heads = 4
width = 128
context = {context}
dropout = 0.0
vocabulary = {vocabulary}
[data]
path = "{text}"
validation_fraction = 0.1
tokenizer = "{tokenizer}"
[inner]
optimizer = "adamw"
steps = {round}
batch = {batch}
learning_rate = 1e-3
min_learning_rate = 1e-4
warmup_steps = 100
beta1 = 0.9
beta2 = 0.99
weight_decay = 0.1
gradient_clip = 1.0
[outer]
{outer}
[exchange]
codec = "{codec}"
[evaluation]
tokens = 0
every_rounds = 0
[membership]
failure_timeout = "{failure_timeout}"
[worker]
threads = {threads}
device = "{device}"
"""

AVERAGE = 'rule = "average"'
DEFAULTS = {"peers": 1, "batch": 12, "seed": 1337, "tokenizer": "chars", "outer": AVERAGE,
            "codec": "fp32", "threads": 1, "device": "cpu", "failure_timeout": "10s"}

TOLD = re.compile(r"^(\S+)Z info (?:version 0: validation loss|round \d+: committed)", re.MULTILINE)


def timed(command, environment=None, limit=7200):
    """The program's standard output, its wall time and the CPU time of all its processes."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL, timeout=limit)
    after, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - began
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed with {done.returncode}: {done.stderr[-2000:]}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout, seconds, cpu


def training_seconds(log):
    """From the end of version 0's evaluation to the last commit, as the coordinator tells them."""
    with open(log, encoding="utf-8") as source:
        times = [datetime.datetime.fromisoformat(told[1]) for told in TOLD.finditer(source.read())]
    return (times[-1] - times[0]).total_seconds()


def train(options, top, **settings):
    """One `atoll local` in `top`, of options' bin, text, steps and steps a round; settings as
    DEFAULTS has them. Returns its report, with the seconds of `training` and of the `program` and
    the program's `cpu` seconds."""
    settings = {**DEFAULTS, **settings}
    with open(options.text, encoding="utf-8") as text:
        characters = len(set(text.read()))
    config, report = os.path.join(top, "run.toml"), os.path.join(top, "report.json")
    folder = os.path.join(top, "run")
    shutil.rmtree(folder, ignore_errors=True)
    with open(config, "w", encoding="utf-8") as out:
        out.write(CONFIG.format(
            text=os.path.abspath(options.text), context=CONTEXT, round=options.round,
            rounds=options.steps // options.round,
            vocabulary=characters if settings["tokenizer"] == "chars" else 0, **settings))
    _, seconds, cpu = timed([os.path.join(options.bin, "atoll"), "local", "--config", config,
                             "--dir", folder, "--json", report])
    with open(report, encoding="utf-8") as source:
        result = json.load(source)
    training = training_seconds(os.path.join(folder, "coordinator", "log.txt"))
    return {**result, "training": training, "program": seconds, "cpu": cpu}


def add_options(parser, steps, round_steps):
    parser.add_argument("--text", required=True, help="tinyshakespeare, or any UTF-8 text")
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--round", type=int, default=round_steps,
                        help="inner steps between two exchanges")
    parser.add_argument("--bin", default=os.environ.get("ATOLL_BIN", "build/release/bin"))


def check_options(parser, options):
    if options.steps % options.round != 0:
        parser.error(f"--steps {options.steps} is no multiple of --round {options.round}")
