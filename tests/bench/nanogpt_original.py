#!/usr/bin/env python3
"""Runs nanoGPT's own train.py from a checkout of it, and evaluates what it has trained.

    python3 tests/bench/nanogpt_original.py --checkout nanoGPT --text tinyshakespeare.txt

The settings are nanoGPT's for shakespeare_char on a CPU (its README), without compilation, at
character level; nothing of the checkout is changed. Prints one JSON object:

    train_seconds     the sum of the step times that train.py prints, its evaluations left out
    validation_loss   of its checkpoint, nats a character over the whole held-out tenth
"""

import argparse
import contextlib
import json
import math
import os
import pickle
import re
import runpy
import subprocess
import sys
import tempfile

import numpy
import torch

CONTEXT = 64
HELD_OUT = 0.1
OWN_SEED = 1337  # train.py's, a constant in it
STEP_TIME = re.compile(r"^iter (\d+): loss [\d.]+, time ([\d.]+)ms", re.MULTILINE)


def write_data(text, folder):
    """What its data/shakespeare_char/prepare.py makes of a text."""
    with open(text, encoding="utf-8") as source:
        characters = source.read()
    alphabet = sorted(set(characters))
    index = {character: i for i, character in enumerate(alphabet)}
    tokens = numpy.array([index[character] for character in characters], dtype=numpy.uint16)
    split = int(len(tokens) * (1 - HELD_OUT))
    tokens[:split].tofile(os.path.join(folder, "train.bin"))
    tokens[split:].tofile(os.path.join(folder, "val.bin"))
    with open(os.path.join(folder, "meta.pkl"), "wb") as out:
        pickle.dump({"vocab_size": len(alphabet), "itos": dict(enumerate(alphabet)),
                     "stoi": index}, out)
    return tokens[split:]


def train(options, data, out):
    """In a process of its own, whose OpenMP threads are set before torch is loaded."""
    command = [sys.executable, os.path.abspath(__file__), "--run", options.checkout,
               "--seed", str(options.seed), "--", "config/train_shakespeare_char.py",
               "--device=cpu", "--compile=False", "--eval_iters=20", "--log_interval=1",
               f"--block_size={CONTEXT}", "--batch_size=12", "--n_layer=4", "--n_head=4",
               "--n_embd=128", f"--max_iters={options.steps}",
               f"--lr_decay_iters={options.steps}", "--dropout=0.0",
               f"--eval_interval={options.steps}", f"--dataset={data}", f"--out_dir={out}"]
    environment = dict(os.environ, OMP_NUM_THREADS=str(options.threads))
    done = subprocess.run(command, cwd=options.checkout, env=environment, capture_output=True,
                          text=True, check=False, stdin=subprocess.DEVNULL, timeout=3600)
    if done.returncode != 0:
        sys.exit(f"train.py failed with {done.returncode}: {done.stderr[-2000:]}")
    # The first and the last step's times hold an evaluation each.
    times = {int(step): float(ms) / 1000 for step, ms in STEP_TIME.findall(done.stdout)}
    inner = [seconds for step, seconds in times.items() if 0 < step < options.steps]
    return sum(inner) * options.steps / len(inner)


def run_theirs(checkout, seed, arguments):
    manual_seed = torch.manual_seed
    torch.manual_seed = lambda given: manual_seed(given - OWN_SEED + seed)
    sys.path.insert(0, checkout)
    sys.argv = ["train.py"] + arguments
    runpy.run_path(os.path.join(checkout, "train.py"), run_name="__main__")


def evaluate(checkout, out, tokens):
    sys.path.insert(0, checkout)
    theirs = __import__("model")
    checkpoint = torch.load(os.path.join(out, "ckpt.pt"), map_location="cpu")
    with contextlib.redirect_stdout(sys.stderr):  # it tells its size
        model = theirs.GPT(theirs.GPTConfig(**checkpoint["model_args"]))
    model.load_state_dict(checkpoint["model"])
    model.eval()
    held_out = torch.from_numpy(tokens.astype(numpy.int64))
    starts = range(0, (len(held_out) - 1) // CONTEXT * CONTEXT, CONTEXT)
    total = 0.0
    with torch.no_grad():
        for first in range(0, len(starts), 64):
            some = starts[first:first + 64]
            rows = torch.stack([held_out[start:start + CONTEXT + 1] for start in some])
            total += model(rows[:, :-1], rows[:, 1:].contiguous())[1].item() * len(some)
    return total / len(starts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--checkout", help="of github.com/karpathy/nanoGPT")
    parser.add_argument("--text")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=OWN_SEED)
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("theirs", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        run_theirs(options.run, options.seed, options.theirs)
        return
    options.checkout = os.path.abspath(options.checkout)
    with tempfile.TemporaryDirectory(prefix="nanogpt-") as top:
        data, out = os.path.join(top, "data"), os.path.join(top, "out")
        os.mkdir(data)
        held_out = write_data(options.text, data)
        seconds = train(options, data, out)
        loss = evaluate(options.checkout, out, held_out)
    if not math.isfinite(loss):
        sys.exit(f"the loss is {loss}")
    print(json.dumps({"train_seconds": seconds, "validation_loss": loss}))


if __name__ == "__main__":
    main()
