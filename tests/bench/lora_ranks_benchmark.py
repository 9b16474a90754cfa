"""Trains adapters of one base by three machines: all at rank 4, at ranks 4, 8 and 16, all at 16.

    ATOLL_BIN=build/release/bin python3 tests/bench/lora_ranks_benchmark.py --base-data FILE
        --data FILE [--seeds 1,2,3] [--rounds N] [--base-rounds N]

A tiny Llama is trained on --base-data and becomes the base, and its adapters are trained on --data,
which should be another kind of text. The runs differ in their ranks alone: the scale of the
adapters is 2 in each. Each line has the last validation loss and the bytes that a peer sends in a
round, means included. Then the run of ranks 4, 8 and 16 is exported at each of these ranks. With
torch, transformers and peft, PEFT loads the exports, and their losses on the held-out text are
printed. The exit status is 1 if replicas differ, or if PEFT makes another loss of all ranks than
the run.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

ATOLL = os.path.join(os.environ.get("ATOLL_BIN", "build/release/bin"), "atoll")
CONTEXT = 64
HELD_OUT = 0.1
MODEL = f"""
[model]
kind = "llama"
layers = 2
heads = 4
width = 128
hidden = 256
context = {CONTEXT}
"""
BASE = """
[run]
rounds = {rounds}
peers = 1
seed = 1
{model}
[data]
path = "{data}"
[inner]
steps = 50
batch = 16
learning_rate = 2e-3
warmup_steps = 50
[evaluation]
tokens = 0
every_rounds = 0
"""
ADAPTERS = """
[run]
rounds = {rounds}
peers = 3
seed = {seed}
{model}
lora_rank = {rank}
{slice}
lora_targets = "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"
base = "{base}"
base_digest = "{digest}"
[data]
path = "{data}"
validation_fraction = 0.1
[inner]
steps = 20
batch = 8
learning_rate = 3e-3
warmup_steps = 20
weight_decay = 0.0
[exchange]
chunk_elements = 4096
[evaluation]
tokens = 0
every_rounds = 0
"""
RUNS = (("all at 4", 4, ""), ("4, 8 and 16", 16, "4,8,16"), ("all at 16", 16, ""))


def atoll(*arguments):
    done = subprocess.run([ATOLL, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"atoll {' '.join(arguments)}: {done.stdout[-2000:]}{done.stderr}")
    return done.stdout


def train(top, name, text, *more):
    config, report = os.path.join(top, name + ".toml"), os.path.join(top, name + ".json")
    with open(config, "w", encoding="utf-8") as out:
        out.write(text)
    atoll("local", "--config", config, "--dir", os.path.join(top, name), "--json", report, *more)
    with open(report, encoding="utf-8") as source:
        found = json.load(source)
    if len({peer["state_digest"] for peer in found["peers"]}) != 1:
        sys.exit(f"replicas differ: {json.dumps(found['peers'])}")
    return found


def make_base(top, data, rounds):
    """The base as Hugging Face's folder, as Atoll's file, and its digest."""
    loss = train(top, "base", BASE.format(model=MODEL, data=data, rounds=rounds))["final_val_loss"]
    hub, imported = os.path.join(top, "hub"), os.path.join(top, "imported")
    atoll("export", "--dir", os.path.join(top, "base"), "--output", hub)
    digest, = re.findall(r'base_digest = "(\w+)"',
                         atoll("import", "--input", hub, "--output", imported))
    print(f"base: validation loss {loss:.4f} on its own text", flush=True)
    return hub, os.path.join(imported, "model.safetensors"), digest


def peft_loss(hub, adapter, data):
    """The loss of the held-out text by PEFT; None: PEFT is not installed."""
    try:
        import peft
        import torch
        import transformers
    except ImportError:
        return None
    model = transformers.AutoModelForCausalLM.from_pretrained(hub)
    model = peft.PeftModel.from_pretrained(model, adapter).eval()
    with open(data, "rb") as source:
        text = source.read()
    text = text[len(text) - int(len(text) * HELD_OUT):]
    total, count = 0.0, 0
    with torch.no_grad():
        for first in range(0, len(text) - 1, CONTEXT):
            row = torch.tensor([list(text[first:first + CONTEXT + 1])])
            targets = row.shape[1] - 1
            total += float(model(input_ids=row, labels=row).loss) * targets
            count += targets
    return total / count


def export(top, name, hub, data, expected):
    for rank in (4, 8, 16):
        adapter = os.path.join(top, f"{name}-rank-{rank}")
        atoll("export", "--dir", os.path.join(top, name), "--output", adapter, "--base", hub,
              "--lora-rank", str(rank))
        loss = peft_loss(hub, adapter, data)
        print(f"exported at rank {rank}: " + ("PEFT is not installed" if loss is None else
                                              f"loss {loss:.4f} by PEFT"), flush=True)
        if rank == 16 and loss is not None and abs(loss - expected) > 0.01:
            sys.exit(f"PEFT's loss of all ranks is {loss:.4f}, and the run's {expected:.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base-data", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--base-rounds", type=int, default=20)
    options = parser.parse_args()
    data = os.path.abspath(options.data)
    with tempfile.TemporaryDirectory(prefix="atoll-ranks-") as top:
        hub, base, digest = make_base(top, os.path.abspath(options.base_data),
                                      options.base_rounds)
        print(f"{'ranks':14s} {'seed':>4s} {'loss':>8s} {'bytes':>9s}")
        for seed in options.seeds.split(","):
            for name, rank, ranks in RUNS:
                # In slices also where all train all: what differs is the ranks alone.
                text = ADAPTERS.format(model=MODEL, rank=rank, seed=seed, base=base, data=data,
                                       digest=digest, rounds=options.rounds,
                                       slice="lora_slice = 4" if rank > 4 else "")
                folder = f"{name.replace(', ', '-').replace(' ', '-')}-{seed}"
                found = train(top, folder, text, *(["--lora-ranks", ranks] if ranks else []))
                print(f"{name:14s} {seed:>4s} {found['final_val_loss']:8.4f} "
                      f"{found['bytes_sent_per_peer_per_round']:9.0f}", flush=True)
                if ranks:
                    mixed = folder, found["final_val_loss"]
        export(top, mixed[0], hub, data, mixed[1])


if __name__ == "__main__":
    main()
