#!/usr/bin/env python3
"""What a branch does to the loss: a run is sealed, and a branch of it trains as many rounds again.

    ATOLL_BIN=build/release/bin python3 tests/bench/branch_benchmark.py --text tinyshakespeare.txt

Both have configs/quickstart.toml; the branch has the schedule "wsd" at --rate (a quarter of the old
peak, as `atoll run branch` chooses it) and is evaluated after every round. Prints one JSON object:

    loss_at_seal   validation loss of the sealed run, nats a byte
    losses         of the branch, by version; 0 is the state that it begins with
    worst_ratio    the highest of them over the loss at the seal
    lower_from     the version from which on every one is below the loss at the seal; null: none
    tokens         of the parent, and of the branch

A few minutes of all cores.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
QUICKSTART = os.path.join(SOURCE, "configs", "quickstart.toml")


def changed(text, **values):
    """The config with other values for these keys; the first of a name counts."""
    for key, value in values.items():
        text, found = re.subn(rf"(?m)^{key} = [^#\n]*", f"{key} = {json.dumps(value)}  ", text,
                              count=1)
        assert found == 1, f"the config has no key {key}"
    return text


def run(options, *words):
    done = subprocess.run([os.path.join(options.bin, "atoll"), *words], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"atoll {' '.join(words)}: {done.stderr or done.stdout}")
    return done.stdout


def losses_of(folder):
    found = {}
    with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as source:
        for line in source:
            row = json.loads(line)
            if row.get("validation/loss") is not None:
                found[row["version"]] = float(row["validation/loss"])
    return found


def report(path):
    with open(path, encoding="utf-8") as source:
        return json.load(source)


def measure(options, top):
    with open(QUICKSTART, encoding="utf-8") as source:
        parent = changed(source.read(), path=os.path.abspath(options.text),
                         rounds=options.rounds)
    branch = changed(parent, schedule="wsd", learning_rate=options.rate,
                     min_learning_rate=options.rate / 10, every_rounds=1)
    for name, text in (("parent", parent), ("branch", branch)):
        with open(os.path.join(top, name + ".toml"), "w", encoding="utf-8") as out:
            out.write(text)
    old, new = os.path.join(top, "old"), os.path.join(top, "new")
    reports = [os.path.join(top, name + ".json") for name in ("parent", "branch")]
    run(options, "local", "--config", os.path.join(top, "parent.toml"), "--dir", old, "--json",
        reports[0])
    run(options, "run", "branch", "--from", old, "--config", os.path.join(top, "branch.toml"),
        "--dir", new)
    run(options, "local", "--dir", new, "--json", reports[1])
    sealed, losses = report(reports[0])["final_val_loss"], losses_of(new)
    higher = [version for version, loss in losses.items() if loss >= sealed]
    first = max(higher, default=-1) + 1
    return {"loss_at_seal": sealed, "losses": losses, "worst_ratio": max(losses.values()) / sealed,
            "lower_from": first if first <= max(losses) else None,
            "tokens": [report(path)["tokens"] for path in reports]}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", required=True)
    parser.add_argument("--rounds", type=int, default=44)
    parser.add_argument("--rate", type=float, default=2.5e-4)
    options = parser.parse_args()
    options.bin = os.environ["ATOLL_BIN"]
    with tempfile.TemporaryDirectory(prefix="atoll-branch-") as top:
        print(json.dumps(measure(options, top), indent=2))


if __name__ == "__main__":
    main()
