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

import shakespeare_char


def run(options, devices, threads, top):
    done = shakespeare_char.train(options, top, seed=options.seed, tokenizer=options.tokenizer,
                                  threads=threads, device=devices)
    return {"tokens_per_second": round(done["tokens"] / done["training"]),
            "cpu_seconds": round(done["cpu"], 1), "loss": round(done["final_val_loss"], 4)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    shakespeare_char.add_options(parser, 500, 100)
    parser.add_argument("--one", default="cpu")
    parser.add_argument("--several", default="cpu,cpu")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2, help="of the worker on several")
    parser.add_argument("--one-threads", type=int, default=2, help="of the worker on one")
    parser.add_argument("--seed", type=int, default=1337)
    parser.add_argument("--tokenizer", choices=("chars", "bytes"), default="chars")
    options = parser.parse_args()
    shakespeare_char.check_options(parser, options)
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
