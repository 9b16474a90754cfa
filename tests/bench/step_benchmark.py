#!/usr/bin/env python3
"""A step of the native worker on one thread beside the same step in PyTorch.

    ATOLL_BIN=build/release/bin python3 tests/bench/step_benchmark.py --python PYTHON

PYTHON is one that has torch. Both take whole steps of one model on random bytes: forward, backward,
clipping to the global norm, AdamW. PyTorch's model is that of nanogpt_reference.py, with
scaled_dot_product_attention and the fused AdamW where it has them. They run in turns, so that a
machine that slows down slows both. Prints one JSON object, of each model:

    worker_ms, pytorch_ms    milliseconds a step, the median of the pairs
    ratio                    median over the pairs of the worker's time over PyTorch's
    pairs                    what they were made of

Needs Debian's python3-protobuf for the worker's orders. If PYTHON has no torch, one line says so,
and the exit code is 77.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SKIPPED = 77

# Layers, heads, width, context, batch; all over bytes.
MODELS = {
    "quickstart": (4, 4, 128, 64, 12),
    "experiment": (2, 4, 64, 64, 4),
    "experiment-12": (2, 4, 64, 64, 12),
    "10m": (6, 6, 384, 256, 4),
}
VOCABULARY = 256


def worker_step(options, model):
    """Seconds a step, as `atoll-worker measure` says."""
    sys.path.insert(0, os.path.join(options.bin, "..", "python"))
    from atoll.v1 import run_pb2
    layers, heads, width, context, batch = model
    spec = run_pb2.RunSpec(run_id="step", seed=1)
    spec.model.MergeFrom(run_pb2.ModelSpec(kind="gpt", layers=layers, heads=heads, width=width,
                                           context=context, vocabulary=VOCABULARY))
    spec.inner.MergeFrom(run_pb2.InnerSpec(
        optimizer="adamw", batch=batch, precision=options.precision, learning_rate=1e-3,
        min_learning_rate=1e-4, warmup_steps=100, decay_steps=1000, beta1=0.9, beta2=0.99,
        weight_decay=0.1, gradient_clip=1.0))
    done = subprocess.run(
        [os.path.join(options.bin, "atoll-worker"), "measure", "--spec", "-", "--device", "cpu",
         "--threads", str(options.threads), "--seconds", str(2 * options.seconds)],
        input=spec.SerializeToString(), check=True, capture_output=True)
    return json.loads(done.stdout)["step_seconds"]


def pytorch_step(options, model):
    environment = dict(os.environ, OMP_NUM_THREADS=str(options.threads),
                       MKL_NUM_THREADS=str(options.threads))
    done = subprocess.run([options.python, os.path.abspath(__file__), "--inside",
                           json.dumps(model), "--seconds", str(options.seconds), "--threads",
                           str(options.threads), "--precision", options.precision],
                          env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["step_seconds"]


def inside(model, options):
    """What the other Python does: the same steps, for as long as the worker's take."""
    import torch
    import nanogpt_reference as reference
    (reference.LAYERS, reference.HEADS, reference.WIDTH, reference.CONTEXT,
     reference.BATCH) = model
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    gpt = reference.Gpt(VOCABULARY)
    groups = [{"params": [p for p in gpt.parameters() if p.dim() >= 2], "weight_decay": 0.1},
              {"params": [p for p in gpt.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    try:
        optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99), fused=True)
    except (RuntimeError, TypeError):  # an older one has it on GPUs alone, or not
        optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99))

    def step():
        rows = torch.randint(VOCABULARY, (reference.BATCH, reference.CONTEXT + 1))
        with torch.autocast("cpu", torch.bfloat16, enabled=options.precision == "bf16"):
            loss = gpt(rows[:, :-1], rows[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(gpt.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    for _ in range(3):
        step()
    began, steps = time.monotonic(), 0
    while time.monotonic() - began < options.seconds:
        step()
        steps += 1
    print(json.dumps({"step_seconds": (time.monotonic() - began) / steps}))


def measure(options, model):
    pairs = []
    for number in range(options.pairs):
        pair = {}
        for which in ("worker", "pytorch") if number % 2 == 0 else ("pytorch", "worker"):
            step = worker_step if which == "worker" else pytorch_step
            pair[which] = round(1000 * step(options, model), 3)
        pairs.append(pair)
    return {"worker_ms": statistics.median(pair["worker"] for pair in pairs),
            "pytorch_ms": statistics.median(pair["pytorch"] for pair in pairs),
            "ratio": round(statistics.median(p["worker"] / p["pytorch"] for p in pairs), 3),
            "pairs": pairs}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--python", default="/usr/bin/python3", help="one that has torch")
    parser.add_argument("--only", help="of the models, names with commas between them: " +
                        ", ".join(MODELS))
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="of steps, a measurement")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32",
                        help="of the products")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        inside(json.loads(options.inside), options)
        return
    options.bin = os.environ.get("ATOLL_BIN", os.path.join(HERE, "../../build/release/bin"))
    names = options.only.split(",") if options.only else list(MODELS)
    unknown = [name for name in names if name not in MODELS]
    if unknown:
        parser.error(f"no model {unknown[0]}; there are {', '.join(MODELS)}")
    found = subprocess.run([options.python, "-c", "import torch; print(torch.__version__)"],
                           capture_output=True, text=True, check=False)
    if found.returncode != 0:
        print(f"skipped: {options.python} has no torch; name one that has with --python")
        sys.exit(SKIPPED)
    print(json.dumps({"torch": found.stdout.strip(), "threads": options.threads,
                      "precision": options.precision, "load": round(os.getloadavg()[0], 2),
                      "models": {name: measure(options, MODELS[name]) for name in names}},
                     indent=2))


if __name__ == "__main__":
    main()
