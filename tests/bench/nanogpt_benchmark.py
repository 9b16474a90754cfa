#!/usr/bin/env python3
"""One peer of Atoll beside nanoGPT's training in Python, on the same libtorch, data and settings.

    ATOLL_BIN=build/release/bin python3 tests/bench/nanogpt_benchmark.py --text tinyshakespeare.txt

The settings are those of nanoGPT's shakespeare_char on a CPU: 4 layers, 4 heads, 128 wide, context
64, batch 12, 2000 steps, rate 1e-3 to 1e-4. In Python that is the same model again in a hundred
lines, or with --nanogpt nanoGPT's own train.py from a checkout of it. Both use the same threads
(OpenBLAS too, which under Python has one a core otherwise) and the same kernel of OpenBLAS, and
run alternately, so that a machine that slows down slows both. Prints one JSON object:

    ratio               median over the pairs of Atoll's wall time over Python's; Atoll's is from
                        the first step (the end of version 0's evaluation) to the last commit,
                        with every exchange, hash and fsync between them, Python's that of its
                        steps alone
    ratio_of_programs   the same of whole programs, from their start to their end
    ratio_of_cpu        the same of the CPU time of whole programs, all processes counted
    validation_loss     nats a token over the whole held-out tenth, mean of the pairs, each of
                        which has a seed of its own
    pairs               what the ratios were made of; load: the machine's at the start of each

Needs python3-torch, which nothing else in Atoll does; without it one line says so, and the exit
code is 77.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

import shakespeare_char

HERE = os.path.dirname(os.path.abspath(__file__))
REFERENCE = os.path.join(HERE, "nanogpt_reference.py")
ORIGINAL = os.path.join(HERE, "nanogpt_original.py")
SKIPPED = 77

def math_kernel(options):
    """What the worker would choose, and libtorch under Python would not on a young CPU."""
    done = subprocess.run([os.path.join(options.bin, "atoll-worker"), "probe"], check=True,
                          capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return json.loads(done.stdout)["kernel"]


def run_python(options, kernel, seed):
    environment = dict(os.environ, OMP_NUM_THREADS=str(options.threads))
    if kernel.startswith("OpenBLAS "):
        environment["OPENBLAS_CORETYPE"] = kernel.split()[1]
    program = ([ORIGINAL, "--checkout", options.nanogpt] if options.nanogpt else
               [REFERENCE, "--tokenizer", options.tokenizer])
    out, seconds, cpu = shakespeare_char.timed([options.python] + program +
                                               ["--text", options.text,
                                                "--steps", str(options.steps),
                                                "--threads", str(options.threads),
                                                "--seed", str(seed)], environment)
    result = json.loads(out)
    return {"training": result["train_seconds"], "program": seconds, "cpu": cpu,
            "loss": result["validation_loss"]}


def run_atoll(options, top, seed):
    done = shakespeare_char.train(options, top, seed=seed, tokenizer=options.tokenizer,
                                  threads=options.threads)
    return {**{key: done[key] for key in ("training", "program", "cpu")},
            "loss": done["final_val_loss"]}


def mean_loss(pairs, which):
    return round(statistics.mean(pair[which]["loss"] for pair in pairs), 4)


def median_ratio(pairs, key):
    return statistics.median(pair["atoll"][key] / pair["python"][key] for pair in pairs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    shakespeare_char.add_options(parser, 2000, 100)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1337, help="of the first pair")
    parser.add_argument("--nanogpt", help="a checkout of github.com/karpathy/nanoGPT")
    parser.add_argument("--tokenizer", choices=("chars", "bytes"), default="chars",
                        help="nanoGPT's own is by characters")
    parser.add_argument("--python", default="/usr/bin/python3", help="one that has torch")
    options = parser.parse_args()
    shakespeare_char.check_options(parser, options)
    if options.nanogpt and options.tokenizer != "chars":
        parser.error("nanoGPT's own shakespeare_char has no other tokenizer than chars")
    found = subprocess.run([options.python, "-c", "import torch; print(torch.__version__)"],
                           capture_output=True, text=True, check=False)
    if found.returncode != 0:
        print(f"skipped: {options.python} has no torch; python3-torch has it")
        sys.exit(SKIPPED)
    top = tempfile.mkdtemp(prefix="atoll-nanogpt-")
    try:
        kernel = math_kernel(options)
        pairs = []
        for number in range(options.pairs):
            load = os.getloadavg()[0]
            python_first, seed = number % 2 == 0, options.seed + number
            pair = {"load": round(load, 2), "seed": seed}
            for which in ("python", "atoll") if python_first else ("atoll", "python"):
                pair[which] = (run_python(options, kernel, seed) if which == "python"
                               else run_atoll(options, top, seed))
            pairs.append(pair)
            print(json.dumps(pair), file=sys.stderr)
    finally:
        shutil.rmtree(top, ignore_errors=True)
    print(json.dumps({
        "steps": options.steps, "threads": options.threads, "tokenizer": options.tokenizer,
        "torch": found.stdout.strip(), "kernel": kernel,
        "ratio": round(median_ratio(pairs, "training"), 3),
        "ratio_of_programs": round(median_ratio(pairs, "program"), 3),
        "ratio_of_cpu": round(median_ratio(pairs, "cpu"), 3),
        "validation_loss": {which: mean_loss(pairs, which) for which in ("atoll", "python")},
        "pairs": pairs}, indent=2))


if __name__ == "__main__":
    main()
