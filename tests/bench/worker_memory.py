#!/usr/bin/env python3
"""How much memory a worker takes that trains on a CPU, beside what `atoll check` says of it.

    ATOLL_BIN=build/release/bin python3 tests/bench/worker_memory.py
    ATOLL_BIN=... python3 tests/bench/worker_memory.py --only gpt,llama --rounds 4

Trains each model for some rounds with one peer and reads the greatest resident size (VmHWM) of its
worker. Prints a table in Markdown: parameters, measured and estimated megabytes, and their ratio;
with --json an object for each model. Ends with 1 if a ratio is further than --within from 1.
"""

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from cluster import BIN  # noqa: E402

CONFIG = """
[run]
rounds = {rounds}
peers = 1
[model]
{model}
[data]
path = "{text}"
[inner]
steps = 3
{inner}
[evaluation]
tokens = 8192
every_rounds = 0
[worker]
device = "cpu"
"""

LLAMA = """kind = "llama"
layers = 6
heads = 8
kv_heads = 4
width = 512
hidden = 1376
context = 256
vocabulary = 8000"""

SMALL_LLAMA = """kind = "llama"
layers = 6
heads = 8
kv_heads = 4
width = 256
hidden = 704
context = 256
vocabulary = 2000"""

MIXTURE = """kind = "llama"
family = "mixtral"
layers = 4
heads = 4
kv_heads = 2
width = 256
hidden = 512
context = 256
vocabulary = 1000
experts = 8
experts_per_token = 2"""


def gpt(layers, width, context, more=""):
    return (f'kind = "gpt"\nlayers = {layers}\nheads = 4\nwidth = {width}\n'
            f"context = {context}\n{more}")


# name: ([model], [inner]). "adapters" is trained on the model that "base" has made.
MODELS = {
    "gpt": (gpt(4, 128, 256), "batch = 32"),
    "gpt, dropout 0.1": (gpt(4, 256, 256, "dropout = 0.1"), "batch = 8"),
    "gpt, bf16": (gpt(4, 256, 256), 'batch = 8\nprecision = "bf16"'),
    "gpt, Muon": (gpt(2, 1024, 32), 'batch = 1\noptimizer = "muon"'),
    "gpt, SGD": (gpt(2, 1024, 32), 'batch = 1\noptimizer = "sgd"'),
    "gpt2": ('kind = "gpt2"\nlayers = 4\nheads = 6\nwidth = 384\ncontext = 256\n'
             "vocabulary = 20000", "batch = 4"),
    "llama": (LLAMA, "batch = 4"),
    "llama, accumulation 4": (LLAMA, "batch = 4\naccumulation = 4"),
    "llama, checkpointing": (LLAMA, "batch = 4\ncheckpointing = true"),
    "mixture of 8 experts": (MIXTURE, "batch = 8"),
    "base": (SMALL_LLAMA, "batch = 4"),
    "adapters": (SMALL_LLAMA, "batch = 8"),
}


def write_text(path):
    """Words, so that there is something to train on; which ones makes no difference."""
    draw = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(draw.choice(letters) for _ in range(draw.randint(2, 9))) for _ in range(3000)]
    with open(path, "w", encoding="utf-8") as out:
        out.write(" ".join(draw.choice(words) for _ in range(300_000)))


def peak_of_worker(folder):
    """The greatest resident size so far of the worker of the run in `folder`, in bytes."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as source:
                call = source.read().decode(errors="replace").split("\0")
            if not call[0].endswith("atoll-worker") or not call[1].startswith("--socket"):
                continue
            if not any(folder in word for word in call):
                continue
            with open(f"/proc/{pid}/status", encoding="utf-8") as source:
                found = re.search(r"VmHWM:\s+(\d+) kB", source.read())
            if found:
                return int(found[1]) * 1024
        except (OSError, IndexError):
            continue
    return 0


def estimate(config):
    """What `atoll check` says, and the parts of it."""
    done = subprocess.run([os.path.join(BIN, "atoll"), "check", "--config", config, "--quick",
                           "--json"], capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout)["training_memory"]
    except (ValueError, KeyError):
        sys.exit(f"atoll check said nothing of the training:\n{done.stdout}{done.stderr}")


def measure(config, folder, limit):
    """The greatest resident size of the worker while the run goes on."""
    with open(folder + ".txt", "w", encoding="utf-8") as said:
        run = subprocess.Popen([os.path.join(BIN, "atoll"), "local", "--config", config, "--dir",
                                folder], stdout=said, stderr=subprocess.STDOUT,
                               stdin=subprocess.DEVNULL)
    peak, ends = 0, time.monotonic() + limit
    try:
        while run.poll() is None and time.monotonic() < ends:
            peak = max(peak, peak_of_worker(folder))
            time.sleep(0.05)
    finally:
        if run.poll() is None:
            run.terminate()
            run.wait(timeout=120)
    if run.returncode != 0:
        with open(folder + ".txt", encoding="utf-8") as said:
            sys.exit(f"atoll local ended with {run.returncode}:\n{said.read()}")
    return peak


def with_base(model, base):
    """The adapters' [model]: that of their base, and the base's file."""
    with open(base, "rb") as source:
        digest = hashlib.sha256(source.read()).hexdigest()
    return f'{model}\nlora_rank = 8\nlora_alpha = 16.0\nbase = "{base}"\nbase_digest = "{digest}"'


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", default="", help="names of models, with commas between them")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--limit", type=float, default=600, help="seconds that one model may take")
    parser.add_argument("--within", type=float, default=0.15)
    parser.add_argument("--at", default=None, help="a folder for the runs")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    names = [one for one in MODELS if not options.only or one in options.only.split(",")]
    if "adapters" in names and "base" not in names:
        names.insert(0, "base")
    top = tempfile.mkdtemp(prefix="atoll-worker-memory-", dir=options.at)
    text, base = os.path.join(top, "text.txt"), os.path.join(top, "base.safetensors")
    write_text(text)
    rows = {}
    try:
        for number, name in enumerate(names):
            model, inner = MODELS[name]
            folder, config = os.path.join(top, f"run-{number}"), os.path.join(top, f"{number}.toml")
            with open(config, "w", encoding="utf-8") as out:
                out.write(CONFIG.format(model=with_base(model, base) if name == "adapters" else
                                        model, inner=inner, text=text, rounds=options.rounds))
            said = estimate(config)
            peak = measure(config, folder, options.limit)
            if name == "base":
                shutil.copy(os.path.join(folder, "model.safetensors"), base)
            shutil.rmtree(folder, ignore_errors=True)
            rows[name] = {"measured_bytes": peak, "estimated_bytes": said["recorded_bytes"],
                          "state_bytes": said["recorded_state_bytes"],
                          "step_bytes": said["recorded_step_bytes"],
                          "ratio": round(said["recorded_bytes"] / peak, 3)}
            print(name, rows[name], file=sys.stderr)
    finally:
        shutil.rmtree(top, ignore_errors=True)
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        print("| model | parameters and optimiser, MB | a step, MB | estimated, MB | measured, MB "
              "| ratio |\n| --- | --- | --- | --- | --- | --- |")
        for name, row in rows.items():
            cells = [f"{row[key] / 1e6:,.0f}" for key in
                     ("state_bytes", "step_bytes", "estimated_bytes", "measured_bytes")]
            print(f"| {name} | {' | '.join(cells)} | {row['ratio']:.2f} |")
    return 0 if all(abs(row["ratio"] - 1) <= options.within for row in rows.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
