"""Trains one mixture of experts whose peers own some each, and with full copies, and compares them.

    ATOLL_BIN=build/release/bin python3 tests/bench/experts_benchmark.py --data FILE
        [--seeds 1,2,3] [--rounds N] [--config configs/experts.toml]

Each line is a run of four peers by `atoll local`: with owners as the config says, and with none, so
that every peer trains all of the model on the same number of tokens. It prints the last validation
loss, the bytes that a peer sends in a round, means included, and the peak resident memory (VmHWM)
of a worker and of a peer's daemon, each the largest of the four. The memory has libtorch and the
program in it. The last lines are the ratios. The exit status is 1 if replicas differ at the end of
a run.
"""

import argparse
import json
import os
import re
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
from cluster import Cluster, equal_digests  # noqa: E402


def peak(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as status:
            return int(re.search(r"VmHWM:\s+(\d+) kB", status.read())[1]) / 1024
    except (OSError, TypeError):
        return 0.0


def config_of(text, owners, seed, rounds, data):
    text = re.sub(r"(?m)^path = .*$", f'path = "{data}"', text)
    text = re.sub(r"(?m)^rounds = .*$", f"rounds = {rounds}\nseed = {seed}", text)
    if not owners:
        text = re.sub(r"(?ms)^\[experts\].*?(?=^\[)", "", text)
    return text


def run(text):
    most = {"worker": 0.0, "daemon": 0.0}
    with Cluster(peers=4, text=text) as cluster:
        names = [f"peer-{i}" for i in range(1, 5)]
        while (cluster.status() or {}).get("phase") != "sealed" and cluster.process.poll() is None:
            for name in names:
                try:
                    most["worker"] = max(most["worker"], peak(cluster.worker_pid(name)))
                    most["daemon"] = max(most["daemon"], peak(cluster.pid_of(name)))
                except (AssertionError, KeyError, TypeError, StopIteration, IndexError):
                    pass  # it has not started yet, or has ended
            time.sleep(0.5)
        report = cluster.finish(seconds=600)
    if not equal_digests(report):
        sys.exit(f"replicas differ: {json.dumps(report['peers'])}")
    return {"loss": report["final_val_loss"], "bytes": report["bytes_sent_per_peer_per_round"],
            **most}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--config", default=os.path.join(HERE, "..", "..", "configs",
                                                         "experts.toml"))
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seeds", default="1,2,3")
    options = parser.parse_args()
    with open(options.config, encoding="utf-8") as source:
        text = source.read()
    print(f"{'run':14s} {'loss':>8s} {'bytes':>10s} {'worker MB':>10s} {'daemon MB':>10s}")
    ratios = []
    for seed in options.seeds.split(","):
        found = {}
        for name, owners in (("owners", True), ("full copies", False)):
            one = run(config_of(text, owners, seed, options.rounds,
                                os.path.abspath(options.data)))
            found[name] = one
            print(f"{name + ' ' + seed:14s} {one['loss']:8.4f} {one['bytes']:10.0f} "
                  f"{one['worker']:10.1f} {one['daemon']:10.1f}", flush=True)
        ratios.append({key: found["owners"][key] / found["full copies"][key]
                       for key in found["owners"]})
    for key in ratios[0]:
        each = ", ".join(f"{one[key]:.3f}" for one in ratios)
        print(f"{key}: {sum(one[key] for one in ratios) / len(ratios):.3f} of full copies ({each})")


if __name__ == "__main__":
    main()
