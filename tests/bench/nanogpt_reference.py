#!/usr/bin/env python3
"""A GPT of nanoGPT's architecture, trained in PyTorch as nanoGPT trains: what Atoll is measured by.

Pre-norm blocks, no biases, learned positions, exact GELU, tied head, AdamW that decays matrices
only, clipping to the global norm, a linear warm-up and a cosine; windows at random places. The
loss is read after every step. One process, run by nanogpt_benchmark.py. Prints one JSON object:

    train_seconds, train_cpu_seconds    of the steps alone
    validation_loss                     over all non-overlapping windows of the last tenth
"""

import argparse
import json
import math
import time

import torch
from torch import nn
from torch.nn import functional as F

LAYERS, HEADS, WIDTH, CONTEXT, BATCH = 4, 4, 128, 64, 12
PEAK_RATE, LAST_RATE, WARMUP = 1e-3, 1e-4, 100
BETAS, DECAY, CLIP = (0.9, 0.99), 0.1, 1.0
HELD_OUT = 0.1


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, None, 1e-5)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.inward = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.c_proj = nn.Linear(WIDTH, WIDTH, bias=False)
        self.fused = hasattr(F, "scaled_dot_product_attention")
        lower = torch.tril(torch.ones(CONTEXT, CONTEXT)).view(1, 1, CONTEXT, CONTEXT)
        self.register_buffer("seen", lower)

    def forward(self, x):
        batch, tokens, _ = x.shape
        q, k, v = (part.view(batch, tokens, HEADS, WIDTH // HEADS).transpose(1, 2)
                   for part in self.inward(x).split(WIDTH, dim=2))
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = (q @ k.transpose(-2, -1)) / math.sqrt(WIDTH // HEADS)
            hidden = self.seen[:, :, :tokens, :tokens] == 0
            y = F.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(batch, tokens, WIDTH))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.attention, self.norm2 = Norm(), Attention(), Norm()
        self.inward = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.c_proj = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.c_proj(F.gelu(self.inward(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = Norm()
        for name, parameter in self.named_parameters():
            if parameter.dim() >= 2:
                scale = 1 / math.sqrt(2 * LAYERS) if name.endswith("c_proj.weight") else 1
                nn.init.normal_(parameter, 0.0, 0.02 * scale)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.norm(x) @ self.tokens.weight.t()
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def read_tokens(path, tokenizer):
    with open(path, "rb") as source:
        raw = source.read()
    if tokenizer == "bytes":
        return torch.tensor(list(raw), dtype=torch.long), 256
    text = raw.decode("utf-8")
    index = {character: i for i, character in enumerate(sorted(set(text)))}
    return torch.tensor([index[character] for character in text], dtype=torch.long), len(index)


def rate_of(step, steps):
    if step < WARMUP:
        return PEAK_RATE * (step + 1) / (WARMUP + 1)
    share = (step - WARMUP) / max(1, steps - WARMUP)
    return LAST_RATE + 0.5 * (1 + math.cos(math.pi * share)) * (PEAK_RATE - LAST_RATE)


def windows_at(tokens, starts):
    rows = torch.stack([tokens[start:start + CONTEXT + 1] for start in starts])
    return rows[:, :-1], rows[:, 1:]


def evaluate(model, tokens):
    starts = range(0, (len(tokens) - 1) // CONTEXT * CONTEXT, CONTEXT)
    total = 0.0
    with torch.no_grad():
        for first in range(0, len(starts), 64):
            some = starts[first:first + 64]
            total += model(*windows_at(tokens, some)).item() * len(some)
    return total / len(starts)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--text", required=True)
    parser.add_argument("--tokenizer", choices=("bytes", "chars"), default="bytes")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1337)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    tokens, vocabulary = read_tokens(options.text, options.tokenizer)
    split = int(len(tokens) * (1 - HELD_OUT))
    train, held_out = tokens[:split], tokens[split:]
    model = Gpt(vocabulary)
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": DECAY},
                                   {"params": others, "weight_decay": 0.0}],
                                  lr=PEAK_RATE, betas=BETAS)
    evaluate(model, held_out)  # as a run of Atoll does before its first step
    began, cpu_began = time.monotonic(), time.process_time()
    for step in range(options.steps):
        for group in optimizer.param_groups:
            group["lr"] = rate_of(step, options.steps)
        starts = torch.randint(len(train) - CONTEXT, (BATCH,))
        loss = model(*windows_at(train, starts))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if not math.isfinite(loss.item()):
            raise SystemExit(f"step {step}: the loss is {loss.item()}")
    seconds, cpu = time.monotonic() - began, time.process_time() - cpu_began
    print(json.dumps({"train_seconds": seconds, "train_cpu_seconds": cpu,
                      "validation_loss": evaluate(model, held_out)}))


if __name__ == "__main__":
    main()
