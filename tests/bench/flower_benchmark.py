#!/usr/bin/env python3
"""Atoll beside Flower's local simulation: the same model, text, rule and number of parties.

    ATOLL_BIN=build/release/bin python3 tests/bench/flower_benchmark.py --flower VENV \\
        --text tinyshakespeare.txt

VENV is a virtual environment with `pip install "flwr[simulation]" torch` (Flower 1.42 here). What
Flower runs is tests/bench/flower_app: nanogpt_reference.py's model, FedAvg, AdamW at a constant
rate on each party's piece of the text. Three cases, each run by both, one after the other:

    short   8 parties, 20 rounds of 1 step
    long    8 parties, 10 rounds of 25 steps
    crowd   1,000 parties of whom 20 are in a round, 50 rounds of 1 step; in Atoll, two peers host
            500 virtual parties each

Of the first two Atoll does both things that it can do with 8 parties on one machine. `atoll` is 8
peers, each a process with a worker, a replica and a log of its own, that exchange over gRPC with
TLS as on 8 machines; `hosted` is two peers that host 4 virtual parties each, which is what Flower's
simulation does with its two actors.

Prints one JSON object. Of each case and system: `wall`, the seconds of the command (`flwr run` with
its simulation's processes there already, from a run before; `atoll local` with all of its own),
`round`, the median seconds of a round but the first, and `loss`, validation loss in nats a byte. Of
the two together:

    overhead_ratio   Atoll's seconds a round without the steps over Flower's, with 8 peers and with
                     hosted parties. The cost of a step is that by which rounds of 25 steps are
                     longer than those of one
    wall_ratio       by case, with 8 peers; hosted_wall_ratio, with hosted parties
    bytes_ratio      on all wires together, in a round of the long case
    loss_ratio       of the long case, with the rule of both: what Flower runs begins AdamW anew in
                     each round, as its quickstart does, and Atoll's peers keep their moments; for
                     this figure Flower's parties keep them too (in `context.state`), in a run of
                     their own, `keeps`, of which nothing else counts
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
KEEPS = {"parties": 8, "rounds": 10, "steps": 25, "fraction": 1.0, "keep": 1}
CASES = {"short": {"parties": 8, "rounds": 20, "steps": 1, "fraction": 1.0},
         "long": {"parties": 8, "rounds": 10, "steps": 25, "fraction": 1.0},
         "crowd": {"parties": 1000, "rounds": 50, "steps": 1, "fraction": 0.02}}
HOSTS = 2
HOSTED = """
[experiment]
name = "hosted"
hosts = {hosts}
[partition]
unit = "line"
scheme = "iid"
parties = {parties}
validation = 0.05
[parties]
a_round = {drawn}
"""

CONFIG = """
[run]
rounds = {rounds}
peers = {peers}
quorum = {peers}
[model]
kind = "gpt"
layers = 4
heads = 4
width = 128
context = 64
[data]
path = "{text}"
tokenizer = "bytes"
validation_fraction = 0.1
[inner]
optimizer = "adamw"
steps = {steps}
batch = 12
learning_rate = 1e-3
min_learning_rate = 1e-3
schedule = "constant"
warmup_steps = 0
beta1 = 0.9
beta2 = 0.99
weight_decay = 0.1
gradient_clip = 1.0
[outer]
rule = "average"
[exchange]
codec = "int8"
audit_share = 0.0
[evaluation]
tokens = 0
every_rounds = 0
[worker]
device = "cpu"
threads = 1
{more}"""


def run_flower(options, case, top):
    app = os.path.join(top, "app")
    shutil.copytree(os.path.join(HERE, "flower_app"), app, dirs_exist_ok=True)
    out = os.path.join(top, "flower.json")
    reference = os.path.join(HERE, "nanogpt_reference.py")
    config = (f"rounds={case['rounds']} steps={case['steps']} parties={case['parties']} "
              f"fraction={case['fraction']} text='{options.text}' out='{out}' "
              f"reference='{reference}' keep={case.get('keep', 0)}")
    programs = os.path.join(options.flower, "bin")
    environment = dict(os.environ, PATH=programs + os.pathsep + os.environ["PATH"])
    began = time.monotonic()
    subprocess.run([os.path.join(programs, "flwr"), "run", app, "local", "--stream",
                    "--run-config", config,
                    "--federation-config", f"num-supernodes={case['parties']}"],
                   env=environment, check=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, timeout=1800)
    wall = time.monotonic() - began
    with open(out, encoding="utf-8") as source:
        told = json.load(source)
    trained = case["parties"] * case["fraction"]
    rounds = told["rounds"][1:] or told["rounds"]
    return {"wall": wall, "round": statistics.median(rounds), "loss": told["loss"],
            "bytes": 2 * trained * told["bytes_each_way"]}


def run_atoll(options, case, top):
    config, folder = os.path.join(top, "atoll.toml"), os.path.join(top, "run")
    report = os.path.join(top, "atoll.json")
    with open(config, "w", encoding="utf-8") as out:
        out.write(CONFIG.format(rounds=case["rounds"], peers=case["parties"],
                                steps=case["steps"], text=options.text, more=""))
    program = os.path.join(options.bin, "atoll")
    began = time.monotonic()
    subprocess.run([program, "local", "--config", config, "--dir", folder, "--json", report],
                   check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=1800)
    wall = time.monotonic() - began
    told = subprocess.run([program, "run", "metrics", "--dir", folder, "--format", "jsonl"],
                          check=True, capture_output=True, text=True).stdout
    rows = [json.loads(line) for line in told.splitlines()]
    ends = [row["time/elapsed_seconds"] for row in rows if row["version"] > 0]
    with open(report, encoding="utf-8") as source:
        result = json.load(source)
    shutil.rmtree(folder)
    return {"wall": wall, "loss": result["final_val_loss"],
            "round": statistics.median(after - before for before, after in zip(ends, ends[1:])),
            "bytes": case["parties"] * result["bytes_sent_per_peer_per_round"]}


def run_hosted(options, case, top):
    """Virtual parties, by `atoll experiment`, which deals the text out too."""
    drawn = round(case["parties"] * case["fraction"] / HOSTS)
    more = HOSTED.format(hosts=HOSTS, parties=case["parties"], drawn=drawn)
    config, folder = os.path.join(top, "hosted.toml"), os.path.join(top, "hosted")
    with open(config, "w", encoding="utf-8") as out:
        out.write(CONFIG.format(rounds=case["rounds"], peers=HOSTS, steps=case["steps"],
                                text=options.text, more=more))
    began = time.monotonic()
    subprocess.run([os.path.join(options.bin, "atoll"), "experiment", "run", config, "--dir",
                    folder], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   timeout=1800)
    wall = time.monotonic() - began
    with open(os.path.join(folder, "results.jsonl"), encoding="utf-8") as source:
        rows = json.loads(source.readline())["rows"]
    shutil.rmtree(folder)
    ends = [row["seconds"] for row in rows if row["version"] > 0]
    return {"wall": wall, "loss": rows[-1]["loss"],
            "round": statistics.median(after - before for before, after in zip(ends, ends[1:]))}


def overhead(results):
    """Seconds of a round without its step."""
    short, long = results["short"], results["long"]
    steps = CASES["long"]["steps"] - CASES["short"]["steps"]
    return short["round"] - (long["round"] - short["round"]) / steps


def ratios(atoll, hosted, flower):
    told = {"wall_ratio": {case: atoll[case]["wall"] / flower[case]["wall"] for case in atoll},
            "hosted_wall_ratio": {case: hosted[case]["wall"] / flower[case]["wall"]
                                  for case in hosted}}
    if "long" in atoll:
        told["bytes_ratio"] = atoll["long"]["bytes"] / flower["long"]["bytes"]
        told["loss_ratio"] = atoll["long"]["loss"] / flower["keeps"]["loss"]
    if "long" in atoll and "short" in atoll:
        seconds = {"atoll": overhead(atoll), "hosted": overhead(hosted), "flower": overhead(flower)}
        told["overhead_seconds"] = seconds
        told["overhead_ratio"] = {which: seconds[which] / seconds["flower"]
                                  for which in ("atoll", "hosted")}
    return told


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--flower", required=True, help="its virtual environment")
    parser.add_argument("--text", required=True)
    parser.add_argument("--bin", default=os.environ.get("ATOLL_BIN", "build/release/bin"))
    parser.add_argument("--case", choices=CASES, action="append", help="default: all three")
    options = parser.parse_args()
    options.text, options.flower = os.path.abspath(options.text), os.path.abspath(options.flower)
    atoll, hosted, flower = {}, {}, {}
    with tempfile.TemporaryDirectory(prefix="atoll-flower-") as top:
        run_flower(options, {**CASES["short"], "rounds": 1}, top)  # its processes start
        for case in options.case or CASES:
            flower[case] = run_flower(options, CASES[case], top)
            hosted[case] = run_hosted(options, CASES[case], top)
            if case != "crowd":
                atoll[case] = run_atoll(options, CASES[case], top)
            if case == "long":
                flower["keeps"] = run_flower(options, KEEPS, top)
            print(f"{case}: Flower {flower[case]}, Atoll {atoll.get(case)}, hosted {hosted[case]}",
                  file=sys.stderr)
    told = {"atoll": atoll, "hosted": hosted, "flower": flower}
    print(json.dumps({**told, **ratios(atoll, hosted, flower)}, indent=2))


if __name__ == "__main__":
    main()
