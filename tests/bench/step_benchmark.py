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

With `--beside FOLDER` the atoll-worker of that folder, of another build, takes PyTorch's place, and
`beside_ms` that of `pytorch_ms`. With `--processor-time` the times are those of the processors, for
machines that have other work.

Needs Debian's python3-protobuf for the worker's orders. If PYTHON has no torch, one line says so,
and the exit code is 77.
"""

import argparse
import json
import os
import resource
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


def worker_step(options, model, folder):
    """Seconds a step, as `atoll-worker measure` says; with --processor-time, of the processors."""
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

    def run(seconds):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [os.path.join(folder, "atoll-worker"), "measure", "--spec", "-", "--device", "cpu",
             "--threads", str(options.threads), "--seconds", str(seconds)],
            input=spec.SerializeToString(), check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        return json.loads(done.stdout), taken

    measured, taken = run(2 * options.seconds)
    if not options.processor_time:
        return measured["step_seconds"]
    # So short a time is over after the first step, which the longer one does not count either.
    return (taken - run(1e-6)[1]) / measured["steps"]


def pytorch_step(options, model):
    environment = dict(os.environ, OMP_NUM_THREADS=str(options.threads),
                       MKL_NUM_THREADS=str(options.threads))
    done = subprocess.run([options.python, os.path.abspath(__file__), "--inside",
                           json.dumps(model), "--seconds", str(options.seconds), "--threads",
                           str(options.threads), "--precision", options.precision] +
                          ["--processor-time"] * options.processor_time,
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
    clock = time.process_time if options.processor_time else time.monotonic
    began, steps = clock(), 0
    while clock() - began < options.seconds:
        step()
        steps += 1
    print(json.dumps({"step_seconds": (clock() - began) / steps}))


def measure(options, model):
    steps = {"worker": lambda: worker_step(options, model, options.bin)}
    if options.beside:
        steps["beside"] = lambda: worker_step(options, model, options.beside)
    else:
        steps["pytorch"] = lambda: pytorch_step(options, model)
    names = list(steps)
    pairs = []
    for number in range(options.pairs):
        turns = names if number % 2 == 0 else reversed(names)
        pairs.append({name: round(1000 * steps[name](), 3) for name in turns})
    medians = {f"{name}_ms": statistics.median(pair[name] for pair in pairs) for name in names}
    ratio = statistics.median(pair["worker"] / pair[names[1]] for pair in pairs)
    return {**medians, "ratio": round(ratio, 3), "pairs": pairs}


def version_of_torch(options):
    found = subprocess.run([options.python, "-c", "import torch; print(torch.__version__)"],
                           capture_output=True, text=True, check=False)
    if found.returncode != 0:
        print(f"skipped: {options.python} has no torch; name one that has with --python")
        sys.exit(SKIPPED)
    return found.stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--python", default="/usr/bin/python3", help="one that has torch")
    parser.add_argument("--beside", metavar="FOLDER",
                        help="of the programs of another build, in place of PyTorch")
    parser.add_argument("--processor-time", action="store_true", help="in place of the clock's")
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
    result = {"threads": options.threads, "precision": options.precision,
              "load": round(os.getloadavg()[0], 2)}
    if options.beside:
        result["beside"] = options.beside
    else:
        result["torch"] = version_of_torch(options)
    result["models"] = {name: measure(options, MODELS[name]) for name in names}
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
