#!/usr/bin/env python3
"""Several peers beside data parallel training on as many tokens: what communicating seldom costs.

    ATOLL_BIN=build/release/bin python3 tests/bench/equal_tokens_benchmark.py \\
        --text tinyshakespeare.txt --steps 1000 --outer-learning-rates 0.7

nanoGPT's shakespeare_char configuration for a CPU, by characters: --peers peers with a batch of 12
each and an exchange every --round steps, against one peer whose batch is as large as theirs
together, which is data parallel training without the network. Both take the same number of steps,
so the same number of tokens. Prints a line a run on stderr and at the end one JSON object:

    data_parallel   loss a seed on the whole held-out tenth, nats a character, and their mean
    peers_by_outer_learning_rate
                    for each the same, and `gap`: how far the mean is above
                    data parallel training's, a share of it

Every run with the same seed gives the same loss, whatever else the machine does meanwhile.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

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
context = 64
dropout = 0.0
vocabulary = {vocabulary}
[data]
path = "{text}"
validation_fraction = 0.1
tokenizer = "chars"
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
failure_timeout = "60s"
[worker]
threads = 1
"""

AVERAGE = 'rule = "average"'


def nesterov(rate, momentum):
    return f'rule = "nesterov"\nlearning_rate = {rate}\nmomentum = {momentum}'


def loss_of(options, top, **settings):
    with open(options.text, encoding="utf-8") as text:
        vocabulary = len(set(text.read()))
    config, report = os.path.join(top, "run.toml"), os.path.join(top, "report.json")
    folder = os.path.join(top, "run")
    shutil.rmtree(folder, ignore_errors=True)
    with open(config, "w", encoding="utf-8") as out:
        out.write(CONFIG.format(text=os.path.abspath(options.text), vocabulary=vocabulary,
                                rounds=options.steps // options.round, round=options.round,
                                **settings))
    done = subprocess.run([os.path.join(options.bin, "atoll"), "local", "--config", config,
                           "--dir", folder, "--json", report], capture_output=True, text=True,
                          check=False, stdin=subprocess.DEVNULL, timeout=options.limit)
    if done.returncode != 0:
        sys.exit(f"atoll local failed with {done.returncode}: {done.stderr[-2000:]}")
    with open(report, encoding="utf-8") as source:
        result = json.load(source)
    wanted = settings["peers"] * settings["batch"] * options.steps * 64
    if result["tokens"] != wanted:
        sys.exit(f"the run took {result['tokens']} tokens, not {wanted}")
    print(json.dumps({"peers": settings["peers"], "seed": settings["seed"],
                      "outer": settings["outer"], "loss": result["final_val_loss"]}),
          file=sys.stderr, flush=True)
    return result["final_val_loss"]


def summary(losses):
    return {"losses": [round(loss, 4) for loss in losses],
            "mean": round(statistics.mean(losses), 4)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--text", required=True, help="tinyshakespeare, or any UTF-8 text")
    parser.add_argument("--peers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=12, help="of one peer")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--round", type=int, default=20, help="inner steps between two exchanges")
    parser.add_argument("--codec", default="int8")
    parser.add_argument("--seeds", default="1337,1338,1339")
    parser.add_argument("--outer-learning-rates", default="0.7")
    parser.add_argument("--outer-momentum", type=float, default=0.9)
    parser.add_argument("--limit", type=float, default=7200, help="seconds that one run may take")
    parser.add_argument("--bin", default=os.environ.get("ATOLL_BIN", "build/release/bin"))
    options = parser.parse_args()
    if options.steps % options.round != 0:
        parser.error(f"--steps {options.steps} is no multiple of --round {options.round}")
    seeds = [int(seed) for seed in options.seeds.split(",")]
    rates = [float(rate) for rate in options.outer_learning_rates.split(",")]
    top = tempfile.mkdtemp(prefix="atoll-equal-tokens-")
    try:
        together = [loss_of(options, top, peers=1, batch=options.batch * options.peers, seed=seed,
                            outer=AVERAGE, codec="fp32") for seed in seeds]
        apart = {rate: [loss_of(options, top, peers=options.peers, batch=options.batch, seed=seed,
                                outer=nesterov(rate, options.outer_momentum), codec=options.codec)
                        for seed in seeds] for rate in rates}
    finally:
        shutil.rmtree(top, ignore_errors=True)
    base = summary(together)
    print(json.dumps({
        "peers": options.peers, "batch": options.batch, "steps": options.steps,
        "round": options.round, "codec": options.codec, "outer_momentum": options.outer_momentum,
        "seeds": seeds, "data_parallel": base,
        "peers_by_outer_learning_rate": {
            str(rate): {**summary(losses),
                        "gap": round(statistics.mean(losses) / base["mean"] - 1, 4)}
            for rate, losses in apart.items()}}, indent=2))


if __name__ == "__main__":
    main()
