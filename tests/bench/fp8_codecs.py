#!/usr/bin/env python3
"""Compares 8-bit and 4-bit floats on the wire with int8 and int4, in error and in loss.

    ATOLL_BIN=build/release/bin python3 tests/bench/fp8_codecs.py --text FILE
        [--seeds 1,2,3] [--jobs 2] [--rounds 30] [--codecs NAME,NAME] [--keep FILE]
        [--errors]

Each format has one fp32 scale a block and one code a value (tests/bench/level_codec.h), so an 8-bit
float takes as many bytes as int8 with the same block size. First build the program that trains:
`cmake --build --preset release --target fp8_codecs`. This script prints two tables:

    errors   how much each format loses of the updates and means of one short run, which itself
             uses fp32: the relative error (L2), the relative error of the worst block of 256
             values, the mean change of magnitudes, and the share of values that become 0. "bits" is
             the size of a value; "+zstd" is its size if each chunk is a zstd frame. This table
             takes seconds, and with --errors it is the only one.
    losses   the validation loss after training with each format for updates and means, for each
             seed, and its difference from fp32 with the same seed: the mean, the least, the most.

The script runs --jobs trainings at once, with one thread each, and reports each finished one on
standard error. With --keep it writes the results to a file as they come, and does not repeat the
runs that the file already has. The same arguments give the same figures on one kind of CPU, however
busy the machine is.
"""

import argparse
import concurrent.futures
import json
import os
import statistics
import subprocess
import sys
import time

PROGRAM = os.path.join(os.environ.get("ATOLL_BIN", "build/release/bin"), "..", "tests",
                       "fp8_codecs")

COMPARED = ("int8@256", "e4m3@256", "e5m2@256", "int8@4096", "e4m3@4096", "int6@256", "int5@256",
            "int4@64", "e2m1@64", "int4@256", "e2m1@256")
# The run whose updates and means are compared.
LOOKED_AT = ("--codec", "fp32", "--seed", "1", "--rounds", "8", "--compare", ",".join(COMPARED))
FEEDBACK = "+feedback"  # After the name of a codec: error feedback is on.
TRAINED = ("fp32,int8@256,e4m3@256,e5m2@256,int4@64,e2m1@64,int4@256,e2m1@256,int8@4096,e4m3@4096,"
           "int4@64+feedback,e2m1@64+feedback")


class Runs:
    """Runs the program and keeps its results."""

    def __init__(self, options, total):
        self.text, self.keep, self.total = options.text, options.keep, total
        self.began, self.done, self.kept = time.monotonic(), 0, {}
        if self.keep and os.path.exists(self.keep):
            with open(self.keep, encoding="utf-8") as lines:
                for one in map(json.loads, lines):
                    self.kept[tuple(one["arguments"])] = one["result"]

    def result(self, arguments):
        found = self.kept.get(arguments)
        if found is None:
            said = subprocess.run([PROGRAM, "--text", self.text, *arguments], check=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            found = json.loads(said.stdout)
            if self.keep:
                with open(self.keep, "a", encoding="utf-8") as lines:
                    lines.write(json.dumps({"arguments": arguments, "result": found}) + "\n")
        self.done += 1
        print(f"[{self.done}/{self.total}] {time.monotonic() - self.began:5.0f} s  "
              f"{' '.join(arguments[:4])}: {found['loss']:.4f}", file=sys.stderr, flush=True)
        return found


def training(codec, seed, rounds):
    feedback = codec.endswith(FEEDBACK)
    return ("--codec", codec[:-len(FEEDBACK)] if feedback else codec, "--seed", seed, "--rounds",
            str(rounds), "--feedback", str(feedback).lower())


def print_errors(result):
    print(f"\n{result['parameters']:,} parameters\n")
    print("| format | bits | +zstd | error | worst block | magnitudes | become 0 | means' error |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for one in result["compared"]:
        updates, means = one["updates"], one["means"]
        print(f"| {one['codec']} | {updates['bits']:.3f} | {updates['zstd_bits']:.2f} "
              f"| {updates['error']:.2%} | {updates['worst_block']:.1%} | {updates['bias']:+.3%} "
              f"| {updates['zeroed']:.2%} | {means['error']:.2%} |")


def print_losses(results, codecs, seeds):
    some = results[codecs[0]][0]
    print(f"\n{some['parameters']:,} parameters; seeds {', '.join(seeds)}\n")
    print(f"| format | bits | loss | beside {codecs[0]}, mean | least | most |")
    print("| --- | --- | --- | --- | --- | --- |")
    for codec in codecs:
        losses = [one["loss"] for one in results[codec]]
        beside = [loss - first["loss"] for loss, first in zip(losses, results[codecs[0]])]
        print(f"| {codec} | {results[codec][0]['bits']:.3f} "
              f"| {', '.join(f'{loss:.4f}' for loss in losses)} "
              f"| {statistics.mean(beside):+.4f} | {min(beside):+.4f} | {max(beside):+.4f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", required=True)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--codecs", default=TRAINED, help="the others are compared with the first")
    parser.add_argument("--keep")
    parser.add_argument("--errors", action="store_true", help="print only the first table")
    options = parser.parse_args()
    seeds = [] if options.errors else options.seeds.split(",")
    codecs = options.codecs.split(",")
    runs = Runs(options, len(seeds) * len(codecs) + 1)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        looked = pool.submit(runs.result, LOOKED_AT)
        # All codecs run with the first seed before any runs with the second.
        losses = {(codec, seed): pool.submit(runs.result, training(codec, seed, options.rounds))
                  for seed in seeds for codec in codecs}
        print_errors(looked.result())
        results = {codec: [losses[codec, seed].result() for seed in seeds] for codec in codecs}
    if seeds:
        print_losses(results, codecs, seeds)


if __name__ == "__main__":
    main()
