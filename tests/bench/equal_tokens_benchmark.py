#!/usr/bin/env python3
"""Several peers beside data parallel training on as many tokens: what communicating seldom costs.

    ATOLL_BIN=build/release/bin python3 tests/bench/equal_tokens_benchmark.py \\
        --text tinyshakespeare.txt --steps 1000 --outer-learning-rates 0.7

nanoGPT's shakespeare_char configuration for a CPU, by characters: --peers peers with a batch of 12
each and an exchange every --round steps, against one peer whose batch is as large as theirs
together, which is data parallel training without the network. Both take the same number of steps,
so the same number of tokens. Prints a line a run on stderr and at the end one JSON object:

    data_parallel   loss a seed on the whole held-out tenth, nats a character, and their mean
    peers_by_outer_learning_rate
                    for each the same, and `gap`: how far the mean is above
                    data parallel training's, a share of it

Every run with the same seed gives the same loss, whatever else the machine does meanwhile.
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile

import shakespeare_char

def nesterov(rate, momentum):
    return f'rule = "nesterov"\nlearning_rate = {rate}\nmomentum = {momentum}'


def loss_of(options, top, **settings):
    # A busy machine slows all of them alike; nobody is to be given up for it.
    result = shakespeare_char.train(options, top, failure_timeout="60s", **settings)
    wanted = settings["peers"] * settings["batch"] * options.steps * shakespeare_char.CONTEXT
    if result["tokens"] != wanted:
        sys.exit(f"the run took {result['tokens']} tokens, not {wanted}")
    print(json.dumps({"peers": settings["peers"], "seed": settings["seed"],
                      "outer": settings["outer"], "loss": result["final_val_loss"]}),
          file=sys.stderr, flush=True)
    return result["final_val_loss"]


def summary(losses):
    return {"losses": [round(loss, 4) for loss in losses],
            "mean": round(statistics.mean(losses), 4)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    shakespeare_char.add_options(parser, 1000, 20)
    parser.add_argument("--peers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=12, help="of one peer")
    parser.add_argument("--codec", default="int8")
    parser.add_argument("--seeds", default="1337,1338,1339")
    parser.add_argument("--outer-learning-rates", default="0.7")
    parser.add_argument("--outer-momentum", type=float, default=0.9)
    options = parser.parse_args()
    shakespeare_char.check_options(parser, options)
    seeds = [int(seed) for seed in options.seeds.split(",")]
    rates = [float(rate) for rate in options.outer_learning_rates.split(",")]
    top = tempfile.mkdtemp(prefix="atoll-equal-tokens-")
    try:
        together = [loss_of(options, top, peers=1, batch=options.batch * options.peers, seed=seed,
                            outer=shakespeare_char.AVERAGE, codec="fp32") for seed in seeds]
        apart = {rate: [loss_of(options, top, peers=options.peers, batch=options.batch, seed=seed,
                                outer=nesterov(rate, options.outer_momentum), codec=options.codec)
                        for seed in seeds] for rate in rates}
    finally:
        shutil.rmtree(top, ignore_errors=True)
    base = summary(together)
    print(json.dumps({
        "peers": options.peers, "batch": options.batch, "steps": options.steps,
        "round": options.round, "codec": options.codec, "outer_momentum": options.outer_momentum,
        "seeds": seeds, "data_parallel": base,
        "peers_by_outer_learning_rate": {
            str(rate): {**summary(losses),
                        "gap": round(statistics.mean(losses) / base["mean"] - 1, 4)}
            for rate, losses in apart.items()}}, indent=2))


if __name__ == "__main__":
    main()
