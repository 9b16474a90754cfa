#!/usr/bin/env python3
"""Writes gpt2_reference.txt and llama_reference.txt: loss, logits and the gradient of every tensor
of tiny models, computed by PyTorch in fp64 from the published formulas.

GPT-2: Radford et al. 2019, as Hugging Face's GPT2LMHeadModel computes it. Llama: Touvron et al.
2023 with grouped queries (Ainslie et al. 2023), rotary positions as Su et al. 2021 in the layout of
Hugging Face's weights. Parameters and tokens come from a generator that the C++ test repeats
exactly. Run it only to make the files again (Debian: python3-torch).
"""
import math

import torch

LAYERS, WIDTH, CONTEXT, VOCABULARY, BATCH = 2, 16, 8, 16, 3
HEADS, KV_HEADS, HIDDEN, THETA, EPSILON = 4, 2, 12, 100.0, 1e-3


class Lcg:
    def __init__(self):
        self.state = 12345

    def next(self):
        self.state = (self.state * 1664525 + 1013904223) % 2**32
        return self.state >> 8


class Parameters(dict):
    """Tensors by name, made on first use in the order in which they are asked for."""

    def __init__(self):
        super().__init__()
        self.lcg = Lcg()

    def add(self, name, *shape):
        mean = 1.0 if len(shape) == 1 and not name.endswith(".bias") else 0.0
        values = [((self.lcg.next() / 2**24) - 0.5) * 0.5 + mean for _ in range(math.prod(shape))]
        single = torch.tensor(values, dtype=torch.float64).to(torch.float32)
        self[name] = single.to(torch.float64).view(*shape).requires_grad_(True)

    def rows(self):
        count = BATCH * (CONTEXT + 1)
        return torch.tensor([self.lcg.next() % VOCABULARY for _ in range(count)]).view(BATCH, -1)


def attend(q, k, v):
    """One head: position t attends to 0..t, one row of the softmax at a time."""
    rows = []
    for t in range(CONTEXT):
        scores = (k[:, :t + 1] * q[:, t:t + 1]).sum(-1) / math.sqrt(q.shape[-1])
        weights = torch.exp(scores - torch.logsumexp(scores, -1, keepdim=True))
        rows.append((weights.unsqueeze(-1) * v[:, :t + 1]).sum(1))
    return torch.stack(rows, 1)


def cross_entropy(logits, targets):
    picked = torch.gather(logits, 2, targets.unsqueeze(-1)).squeeze(-1)
    return (torch.logsumexp(logits, -1) - picked).mean()


def gpt2(p, tokens, tied):
    def linear(x, name):
        return x @ p[name + ".weight"].T + p[name + ".bias"]

    def norm(x, name):
        centred = x - x.mean(-1, keepdim=True)
        scale = torch.sqrt((centred**2).mean(-1, keepdim=True) + EPSILON)
        return centred / scale * p[name + ".weight"] + p[name + ".bias"]

    def gelu(x):
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    size = WIDTH // HEADS
    x = p["transformer.wte.weight"][tokens] + p["transformer.wpe.weight"][:CONTEXT]
    for layer in range(LAYERS):
        h = f"transformer.h.{layer}."
        qkv = linear(norm(x, h + "ln_1"), h + "attn.c_attn")
        heads = []
        for i in range(HEADS):
            q, k, v = (qkv[..., WIDTH * j + size * i:WIDTH * j + size * (i + 1)] for j in range(3))
            heads.append(attend(q, k, v))
        x = x + linear(torch.cat(heads, -1), h + "attn.c_proj")
        x = x + linear(gelu(linear(norm(x, h + "ln_2"), h + "mlp.c_fc")), h + "mlp.c_proj")
    head = p["transformer.wte.weight"] if tied else p["lm_head.weight"]
    return norm(x, "transformer.ln_f") @ head.T


def gpt2_parameters(tied):
    p = Parameters()
    p.add("transformer.wte.weight", VOCABULARY, WIDTH)
    p.add("transformer.wpe.weight", CONTEXT, WIDTH)
    for layer in range(LAYERS):
        h = f"transformer.h.{layer}."
        for name, *shape in [("ln_1", WIDTH), ("attn.c_attn", 3 * WIDTH, WIDTH),
                             ("attn.c_proj", WIDTH, WIDTH), ("ln_2", WIDTH),
                             ("mlp.c_fc", HIDDEN, WIDTH), ("mlp.c_proj", WIDTH, HIDDEN)]:
            p.add(h + name + ".weight", *shape)
            p.add(h + name + ".bias", shape[0])
    p.add("transformer.ln_f.weight", WIDTH)
    p.add("transformer.ln_f.bias", WIDTH)
    if not tied:
        p.add("lm_head.weight", VOCABULARY, WIDTH)
    return p


def llama(p, tokens, tied):
    def norm(x, name):
        return x / torch.sqrt((x**2).mean(-1, keepdim=True) + EPSILON) * p[name + ".weight"]

    size = WIDTH // HEADS

    def rotate(x):
        """Pairs (i, i + size/2) as complex numbers, turned by position * theta^(-2i/size)."""
        pairs = torch.complex(x[..., :size // 2], x[..., size // 2:])
        rate = torch.tensor([THETA**(-2 * i / size) for i in range(size // 2)], dtype=x.dtype)
        angle = torch.arange(CONTEXT, dtype=x.dtype)[:, None] * rate[None, :]
        turned = pairs * torch.exp(torch.complex(torch.zeros_like(angle), angle))
        return torch.cat([turned.real, turned.imag], -1)

    x = p["model.embed_tokens.weight"][tokens]
    for layer in range(LAYERS):
        h = f"model.layers.{layer}."
        y = norm(x, h + "input_layernorm")
        q, k, v = (y @ p[h + f"self_attn.{name}_proj.weight"].T for name in "qkv")
        heads = []
        for i in range(HEADS):
            j = i // (HEADS // KV_HEADS)
            heads.append(attend(rotate(q[..., size * i:size * (i + 1)]),
                                rotate(k[..., size * j:size * (j + 1)]),
                                v[..., size * j:size * (j + 1)]))
        x = x + torch.cat(heads, -1) @ p[h + "self_attn.o_proj.weight"].T
        y = norm(x, h + "post_attention_layernorm")
        gate = y @ p[h + "mlp.gate_proj.weight"].T
        up = y @ p[h + "mlp.up_proj.weight"].T
        x = x + (gate / (1 + torch.exp(-gate)) * up) @ p[h + "mlp.down_proj.weight"].T
    head = p["model.embed_tokens.weight"] if tied else p["lm_head.weight"]
    return norm(x, "model.norm") @ head.T


def llama_parameters(tied):
    p = Parameters()
    p.add("model.embed_tokens.weight", VOCABULARY, WIDTH)
    keys = WIDTH // HEADS * KV_HEADS
    for layer in range(LAYERS):
        h = f"model.layers.{layer}."
        p.add(h + "input_layernorm.weight", WIDTH)
        p.add(h + "self_attn.q_proj.weight", WIDTH, WIDTH)
        p.add(h + "self_attn.k_proj.weight", keys, WIDTH)
        p.add(h + "self_attn.v_proj.weight", keys, WIDTH)
        p.add(h + "self_attn.o_proj.weight", WIDTH, WIDTH)
        p.add(h + "post_attention_layernorm.weight", WIDTH)
        p.add(h + "mlp.gate_proj.weight", HIDDEN, WIDTH)
        p.add(h + "mlp.up_proj.weight", HIDDEN, WIDTH)
        p.add(h + "mlp.down_proj.weight", WIDTH, HIDDEN)
    p.add("model.norm.weight", WIDTH)
    if not tied:
        p.add("lm_head.weight", VOCABULARY, WIDTH)
    return p


def write(path, make, model):
    with open(path, "w") as out:
        def line(name, values):
            out.write(f"{name} {len(values)}\n")
            out.write("\n".join("%.7g" % value for value in values) + "\n")
        for tied in (True, False):
            p = make(tied)
            rows = p.rows()
            logits = model(p, rows[:, :-1], tied)
            loss = cross_entropy(logits, rows[:, 1:])
            loss.backward()
            prefix = "tied/" if tied else "untied/"
            line(prefix + "loss", [loss.item()])
            line(prefix + "logits", logits.detach().reshape(-1).tolist())
            for name, tensor in p.items():
                line(prefix + name, tensor.grad.reshape(-1).tolist())


write("gpt2_reference.txt", gpt2_parameters, gpt2)
write("llama_reference.txt", llama_parameters, llama)
