#!/usr/bin/env python3
"""What liars among eight peers do to the quickstart's model, by each way to make updates one.

    cmake --build build/release --target atoll atolld atoll-worker atoll-liar-worker
    ATOLL_BIN=build/release/bin python3 tests/bench/liars_benchmark.py --text build/data/gcide.txt

A liar hands over ten times what it learned, backwards. For every seed: eight honest peers with
the defaults; one liar with plain means (clip = 0, nobody left out) and with the defaults; two liars
with the trimmed mean (faulty = 2) and with centred clipping, the rest as by default; and these two
by their rule alone, nobody left out for what its updates were. Prints one JSON object: for each
case the last validation loss by seed, the mean of them, and that over the honest one's, less 1.

--rounds is the length of each run; the quickstart has 44. --only takes cases by name, with a
semicolon between them.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = 8

TRIMMED = 'aggregation = "trimmed_mean"\nfaulty = 2'
CENTRED = 'aggregation = "centred_clipping"\nfaulty = 2'
KEEP_ALL = "offences = 0"

CASES = {  # name: (liars, lines of [exchange], lines of [membership])
    "honest": (0, "", ""),
    "plain mean, 1 liar": (1, "clip = 0", KEEP_ALL),
    "default, 1 liar": (1, "", ""),
    "trimmed mean, 2 liars": (2, TRIMMED, ""),
    "centred clipping, 2 liars": (2, CENTRED, ""),
    "trimmed mean alone, 2 liars": (2, TRIMMED, KEEP_ALL),
    "centred clipping alone, 2 liars": (2, CENTRED, KEEP_ALL),
}

CONFIG = """
[run]
rounds = {rounds}
seed = {seed}
[data]
path = "{text}"
[exchange]
codec = "int8"
chunk_elements = 16384
{exchange}
[evaluation]
every_rounds = 0
[membership]
failure_timeout = "20s"
{membership}
[worker]
program = "{worker}"
"""


def last_loss(arguments, case, seed, folder):
    liars, exchange, membership = CASES[case]
    config = os.path.join(folder, "run.toml")
    report = os.path.join(folder, "report.json")
    with open(config, "w", encoding="utf-8") as file:
        file.write(CONFIG.format(
            rounds=arguments.rounds, seed=seed, text=os.path.abspath(arguments.text),
            exchange=exchange, membership=membership,
            worker=os.path.abspath(arguments.liar_worker)))
    names = ",".join(f"peer-{PEERS - i}" for i in range(liars))
    done = subprocess.run(
        [os.path.join(arguments.bin, "atoll"), "local", "--config", config, "--peers", str(PEERS),
         "--dir", os.path.join(folder, "run"), "--json", report],
        env={**os.environ, "ATOLL_LIARS": names}, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, timeout=arguments.timeout, check=False)
    if done.returncode != 0 or not os.path.exists(report):
        return None, done.stderr[-500:]
    with open(report, encoding="utf-8") as file:
        return json.load(file)["final_val_loss"], ""


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", required=True)
    parser.add_argument("--rounds", type=int, default=44)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--only", default="")
    parser.add_argument("--timeout", type=float, default=3600)
    parser.add_argument("--bin", default=os.environ.get("ATOLL_BIN", "build/release/bin"))
    parser.add_argument("--liar-worker",
                        default=os.path.join(HERE, "../../build/release/tests/atoll-liar-worker"))
    arguments = parser.parse_args()
    results = {}
    for case in CASES:
        if arguments.only and case not in arguments.only.split(";"):
            continue
        losses = []
        for seed in (int(word) for word in arguments.seeds.split(",")):
            with tempfile.TemporaryDirectory() as folder:
                loss, why = last_loss(arguments, case, seed, folder)
            print(f"{case}, seed {seed}: {'no end: ' + why if loss is None else loss}",
                  file=sys.stderr, flush=True)
            losses.append(loss)
        ended = [loss for loss in losses if loss is not None]
        results[case] = {"losses": losses, "mean": statistics.mean(ended) if ended else None}
    honest = results.get("honest", {}).get("mean")
    for case in results.values():
        whole = honest and case["mean"] is not None
        case["above_honest"] = case["mean"] / honest - 1 if whole else None
    print(json.dumps({"rounds": arguments.rounds, "peers": PEERS, "cases": results}, indent=1))


if __name__ == "__main__":
    main()
