#!/usr/bin/env python3
"""Writes gpt_reference.txt: loss, logits and gradient of a tiny GPT as PyTorch computes them.

The model is nanoGPT's model.py, bias=False, written out; parameters and tokens come from a
generator
that the C++ test repeats exactly. Run it only to make the file again (Debian: python3-torch).
"""
import torch
import torch.nn.functional as F

LAYERS, HEADS, WIDTH, CONTEXT, VOCABULARY, BATCH = 2, 2, 8, 8, 16, 3


class Lcg:
    def __init__(self):
        self.state = 12345

    def next(self):
        self.state = (self.state * 1664525 + 1013904223) % 2**32
        return self.state >> 8


lcg = Lcg()


def tensor(*shape):
    count = 1
    for size in shape:
        count *= size
    mean = 1.0 if len(shape) == 1 else 0.0
    values = [((lcg.next() / 2**24) - 0.5) * 0.5 + mean for _ in range(count)]
    exact = torch.tensor(values, dtype=torch.float64)
    return exact.to(torch.float32).view(*shape).requires_grad_(True)


parameters = [tensor(VOCABULARY, WIDTH), tensor(CONTEXT, WIDTH)]
for _ in range(LAYERS):
    parameters += [tensor(WIDTH), tensor(3 * WIDTH, WIDTH), tensor(WIDTH, WIDTH), tensor(WIDTH),
                   tensor(4 * WIDTH, WIDTH), tensor(WIDTH, 4 * WIDTH)]
parameters.append(tensor(WIDTH))
rows = torch.tensor([[lcg.next() % VOCABULARY for _ in range(CONTEXT + 1)] for _ in range(BATCH)])
tokens, targets = rows[:, :-1], rows[:, 1:]


def attention(x, c_attn, c_proj):
    q, k, v = F.linear(x, c_attn).split(WIDTH, dim=2)
    q, k, v = (t.view(BATCH, CONTEXT, HEADS, WIDTH // HEADS).transpose(1, 2) for t in (q, k, v))
    weights = (q @ k.transpose(-2, -1)) * (WIDTH // HEADS) ** -0.5
    mask = torch.tril(torch.ones(CONTEXT, CONTEXT))
    weights = F.softmax(weights.masked_fill(mask == 0, float("-inf")), dim=-1)
    return F.linear((weights @ v).transpose(1, 2).reshape(BATCH, CONTEXT, WIDTH), c_proj)


def norm(x, weight):
    return F.layer_norm(x, weight.shape, weight, None, 1e-5)


x = F.embedding(tokens, parameters[0]) + parameters[1]
for layer in range(LAYERS):
    ln_1, c_attn, c_proj, ln_2, c_fc, mlp_proj = parameters[2 + 6 * layer: 8 + 6 * layer]
    x = x + attention(norm(x, ln_1), c_attn, c_proj)
    x = x + F.linear(F.gelu(F.linear(norm(x, ln_2), c_fc)), mlp_proj)
logits = F.linear(norm(x, parameters[-1]), parameters[0])
loss = F.cross_entropy(logits.view(-1, VOCABULARY), targets.reshape(-1))
loss.backward()

with open("gpt_reference.txt", "w") as out:
    def line(name, values):
        out.write(f"{name} {len(values)}\n" + "\n".join("%.7g" % value for value in values) + "\n")
    line("loss", [loss.item()])
    line("logits", logits.detach().view(-1).tolist())
    line("gradient", torch.cat([p.grad.view(-1) for p in parameters]).tolist())
