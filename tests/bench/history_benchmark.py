"""How a coordinator bears a run of many rounds.

    ATOLL_BIN=build/release/bin python3 tests/bench/history_benchmark.py [--rounds 100000]

Makes the store of such a run (history_maker beside the tests), starts its coordinator, and prints
one JSON object: seconds until the coordinator answers, what its process then holds in memory, how
long `atoll run show` takes for the newest page and for one in the middle, and how fast
`atolld coordinator --verify` checks every header.
"""

import argparse
import json
import os
import re
import socket
import statistics
import subprocess
import tempfile
import time

BIN = os.path.abspath(os.environ.get("ATOLL_BIN", "build/release/bin"))
MAKER = os.path.join(os.path.dirname(BIN), "tests", "history_maker")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def timed(*command):
    """Its seconds and its output; it must end well."""
    began = time.monotonic()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return time.monotonic() - began, done.stdout


def resident_mb(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        text = status.read()
    return {name: int(re.search(rf"{key}:\s+(\d+) kB", text).group(1)) / 1024
            for name, key in (("resident_mb", "VmRSS"), ("most_resident_mb", "VmHWM"))}


def measure_start(config, log_path, show):
    """Seconds until it answers, and its memory; leaves it running."""
    began = time.monotonic()
    with open(log_path, "w", encoding="utf-8") as log:
        process = subprocess.Popen([os.path.join(BIN, "atolld"), "coordinator", "--config", config],
                                   stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    while True:
        with open(log_path, encoding="utf-8") as log:
            text = log.read()
        if "listening on" in text:
            break
        if process.poll() is not None:
            raise SystemExit(text)
        time.sleep(0.005)
    seconds = time.monotonic() - began
    show("--limit", "1")
    return process, {"start_seconds": seconds, **resident_mb(process.pid)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100000)
    parser.add_argument("--contributors", type=int, default=8)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="atoll-history-") as top:
        folder = os.path.join(top, "coordinator")
        address = f"127.0.0.1:{free_port()}"
        config = os.path.join(top, "run.toml")
        with open(config, "w", encoding="utf-8") as out:
            out.write(f'[run]\nid = "long"\nrounds = {2 * options.rounds}\n[model]\nkind = "stub"\n'
                      f'parameters = 1000000\n[coordinator]\naddress = "{address}"\n'
                      f'dir = "{folder}"\naggregator = "never"\n[network]\nplaintext = true\n')
        result = {"rounds": options.rounds, "contributors": options.contributors}
        result["make_seconds"], made = timed(MAKER, "--config", config, "--rounds",
                                             str(options.rounds), "--contributors",
                                             str(options.contributors))
        result.update(json.loads(made))
        result["store_mb"] = os.path.getsize(os.path.join(folder, "coordinator.db")) / 1e6
        seconds, said = timed(os.path.join(BIN, "atolld"), "coordinator", "--config", config,
                              "--verify")
        result["verify_seconds"] = seconds
        result["verify_says"] = said.strip().split(": ", 1)[1]

        def show(*words):
            return timed(os.path.join(BIN, "atoll"), "run", "show", "--json", "--coordinator",
                         address, "--plaintext", *words)

        process, start = measure_start(config, os.path.join(top, "log.txt"), show)
        try:
            result.update(start)
            middle = str(options.rounds // 2)
            result["show_newest_seconds"] = statistics.median(show()[0] for _ in range(5))
            result["show_middle_seconds"] = statistics.median(
                show("--from", middle)[0] for _ in range(5))
            result.update({f"shown_{key}": value for key, value in
                           resident_mb(process.pid).items()})
        finally:
            process.kill()
            process.wait()
        print(json.dumps({key: round(value, 3) if isinstance(value, float) else value
                          for key, value in result.items()}, indent=1))


if __name__ == "__main__":
    main()
