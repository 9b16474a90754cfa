#!/usr/bin/env python3
"""One peer whose worker divides its steps among several devices beside the same peer on one.

    ATOLL_BIN=build/release/bin python3 tests/bench/devices_benchmark.py \\
        --text tinyshakespeare.txt --one cpu --several cpu,cpu --threads 2

The settings are nanogpt_benchmark.py's; both run alternately, so that a machine that slows down
slows both. Prints one JSON object:

    ratio    median over the pairs of the tokens a second on several devices over those on one; the
             seconds are from the first step to the last commit, every exchange, hash and fsync
             between them counted
    pairs    what it was made of, with the losses at the end; load: the machine's at the start
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile

from nanogpt_benchmark import timed, write_config


def run(options, devices, threads, top):
    config, folder = os.path.join(top, "run.toml"), os.path.join(top, "run")
    report = os.path.join(top, "report.json")
    write_config(config, argparse.Namespace(**{**vars(options), "threads": threads}))
    with open(config, "a", encoding="utf-8") as out:  # its last section is [worker]
        out.write(f'device = "{devices}"\n')
    shutil.rmtree(folder, ignore_errors=True)
    _, _, cpu = timed([os.path.join(options.bin, "atoll"), "local", "--config", config,
                       "--dir", folder, "--json", report])
    with open(report, encoding="utf-8") as source:
        result = json.load(source)
    return {"tokens_per_second": round(result["tokens"] / result["wall_seconds"]),
            "cpu_seconds": round(cpu, 1), "loss": round(result["final_val_loss"], 4)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--text", required=True, help="tinyshakespeare, or any UTF-8 text")
    parser.add_argument("--one", default="cpu")
    parser.add_argument("--several", default="cpu,cpu")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--round", type=int, default=100, help="inner steps between two commits")
    parser.add_argument("--threads", type=int, default=2, help="of the worker on several")
    parser.add_argument("--one-threads", type=int, default=2, help="of the worker on one")
    parser.add_argument("--seed", type=int, default=1337)
    parser.add_argument("--tokenizer", choices=("chars", "bytes"), default="chars")
    parser.add_argument("--bin", default=os.environ.get("ATOLL_BIN", "build/release/bin"))
    options = parser.parse_args()
    if options.steps % options.round != 0:
        parser.error(f"--steps {options.steps} is no multiple of --round {options.round}")
    pairs = []
    for number in range(options.pairs):
        pair = {"load": round(os.getloadavg()[0], 2)}
        sides = [("one", options.one, options.one_threads),
                 ("several", options.several, options.threads)]
        for which, devices, threads in sides if number % 2 == 0 else reversed(sides):
            top = tempfile.mkdtemp(prefix="atoll-devices-")
            try:
                pair[which] = run(options, devices, threads, top)
            finally:
                shutil.rmtree(top, ignore_errors=True)
        pairs.append(pair)
        print(json.dumps(pair), file=sys.stderr)
    ratio = statistics.median(pair["several"]["tokens_per_second"] /
                              pair["one"]["tokens_per_second"] for pair in pairs)
    print(json.dumps({"one": options.one, "several": options.several, "threads": options.threads,
                      "one_threads": options.one_threads, "steps": options.steps,
                      "ratio": round(ratio, 3), "pairs": pairs}, indent=2))


if __name__ == "__main__":
    main()
