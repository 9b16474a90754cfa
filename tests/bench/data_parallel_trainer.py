#!/usr/bin/env python3
"""One process of data-parallel training: nanogpt_reference.py's model in PyTorch's
DistributedDataParallel over Gloo, for data_parallel_benchmark.py.

    data_parallel_trainer.py --rank 0 --peers 4 --meeting FILE --interface lo --text T --out F ...

All processes meet at the file --meeting, which must not be there before, and talk over the address
of --interface. Each draws windows of its own, a batch of them a step; gradients are averaged by an
all-reduce a step. The first process writes to --out, as JSON: `parameters`, the seconds of each
step, and [step, loss] on the first --validation-tokens of the held-out tenth, every --every steps.
"""

import argparse
import json
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import nanogpt_reference as reference


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    for name in ("rank", "peers", "steps", "schedule", "layers", "heads", "width", "context",
                 "batch", "warmup", "seed", "every", "validation-tokens"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("meeting", "interface", "text", "out"):
        parser.add_argument(f"--{name}", required=True)
    return parser.parse_args()


def set_sizes(options):
    """The reference has its sizes as constants of its module."""
    reference.LAYERS, reference.HEADS = options.layers, options.heads
    reference.WIDTH, reference.CONTEXT = options.width, options.context
    reference.BATCH, reference.WARMUP = options.batch, options.warmup


def optimizer_of(model):
    groups = [{"params": [p for p in model.parameters() if p.dim() >= 2],
               "weight_decay": reference.DECAY},
              {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=reference.PEAK_RATE, betas=reference.BETAS)


def train_step(model, optimizer, tokens, rate):
    for group in optimizer.param_groups:
        group["lr"] = rate
    starts = torch.randint(len(tokens) - reference.CONTEXT, (reference.BATCH,))
    model(*reference.windows_at(tokens, starts)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), reference.CLIP)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def main():
    options = parse()
    os.environ["GLOO_SOCKET_IFNAME"] = options.interface
    torch.set_num_threads(1)
    set_sizes(options)
    tokens, vocabulary = reference.read_tokens(options.text, "bytes")
    split = int(len(tokens) * (1 - reference.HELD_OUT))
    held_out = tokens[split:][:options.validation_tokens + 1]
    torch.manual_seed(options.seed)
    bare = reference.Gpt(vocabulary)
    dist.init_process_group("gloo", init_method=f"file://{options.meeting}", rank=options.rank,
                            world_size=options.peers)
    model = DistributedDataParallel(bare)
    optimizer = optimizer_of(bare)
    torch.manual_seed(options.seed + 1000 * (options.rank + 1))  # windows of its own
    seconds, losses = [], []
    for step in range(options.steps):
        if options.rank == 0 and options.every > 0 and step % options.every == 0:
            losses.append([step, reference.evaluate(bare, held_out)])
        dist.barrier()  # the evaluation is not a part of the step
        began = time.monotonic()
        train_step(model, optimizer, tokens[:split],
                   reference.rate_of(step, options.schedule))
        seconds.append(time.monotonic() - began)
    if options.rank == 0:
        if options.every > 0:
            losses.append([options.steps, reference.evaluate(bare, held_out)])
        with open(options.out, "w", encoding="utf-8") as out:
            json.dump({"parameters": sum(p.numel() for p in bare.parameters()),
                       "seconds": seconds, "losses": losses}, out)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
