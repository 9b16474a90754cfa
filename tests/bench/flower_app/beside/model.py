"""The model, and how a party trains it: nanogpt_reference.py's, on a piece of the text."""

import importlib.util

import torch

RATE = 1e-3


def reference(path):
    spec = importlib.util.spec_from_file_location("nanogpt_reference", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def texts(module, path):
    tokens, vocabulary = module.read_tokens(path, "bytes")
    split = int(len(tokens) * (1 - module.HELD_OUT))
    return tokens[:split], tokens[split:], vocabulary


def parameters_of(optimizer):
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def moments(optimizer):
    """What AdamW keeps between steps, by name; empty before the first."""
    kept = {}
    for number, parameter in enumerate(parameters_of(optimizer)):
        for name, value in optimizer.state.get(parameter, {}).items():
            kept[f"{number}.{name}"] = value
    return kept


def take_moments(optimizer, kept):
    for number, parameter in enumerate(parameters_of(optimizer)):
        prefix = f"{number}."
        optimizer.state[parameter] = {name[len(prefix):]: value.clone()
                                      for name, value in kept.items() if name.startswith(prefix)}


def train(module, model, piece, steps, seed, kept=None):
    """Plain steps of AdamW at a constant rate, from these moments on; returns the mean loss and the
    moments after them."""
    torch.manual_seed(seed)
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": module.DECAY},
                                   {"params": others, "weight_decay": 0.0}],
                                  lr=RATE, betas=module.BETAS)
    if kept:
        take_moments(optimizer, kept)
    total = 0.0
    for _ in range(steps):
        starts = torch.randint(len(piece) - module.CONTEXT, (module.BATCH,))
        loss = model(*module.windows_at(piece, starts))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), module.CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        total += loss.item()
    return total / steps, moments(optimizer)
