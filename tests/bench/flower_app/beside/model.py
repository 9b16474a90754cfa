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


def train(module, model, piece, steps, seed):
    """Plain steps of AdamW at a constant rate; returns the mean loss."""
    torch.manual_seed(seed)
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": module.DECAY},
                                   {"params": others, "weight_decay": 0.0}],
                                  lr=RATE, betas=module.BETAS)
    total = 0.0
    for _ in range(steps):
        starts = torch.randint(len(piece) - module.CONTEXT, (module.BATCH,))
        loss = model(*module.windows_at(piece, starts))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), module.CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        total += loss.item()
    return total / steps
