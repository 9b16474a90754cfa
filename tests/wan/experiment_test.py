"""Would fail if `atoll experiment run --in lab` did not put every party behind its own line, with
its rate and its delay, or if a run in the lab could not be ended in order and gone on with."""

import glob
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

from lab_run import skip_without_a_lab

ATOLL = os.path.join(os.environ.get("ATOLL_BIN", "build/release/bin"), "atoll")
PARAMETERS = 100000
UPDATE = 4 * PARAMETERS  # bytes, as fp32
DELAY = 0.050
FILE = f"""
[experiment]
name = "lines"
in = "lab"
parties = 3
[run]
rounds = ROUNDS
[model]
kind = "stub"
parameters = {PARAMETERS}
[inner]
steps = 1
[exchange]
codec = "fp32"
[links]
default = {{up = "50Mbit", down = "50Mbit", delay = "5ms"}}
"party-2" = {{up = "SLOW", delay = "DELAY"}}
"""
PATIENCE = 60


def lines_of(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as source:
        return source.read().splitlines()


class LabExperimentTest(unittest.TestCase):

    def setUp(self):
        top = tempfile.TemporaryDirectory(prefix="atoll-wan-experiment-")
        self.addCleanup(top.cleanup)
        self.file = os.path.join(top.name, "lines.toml")
        self.dir = os.path.join(top.name, "out")

    def begin(self):
        return subprocess.Popen([ATOLL, "experiment", "run", self.file, "--dir", self.dir],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                stdin=subprocess.DEVNULL)

    def write(self, rounds, slow, delay):
        with open(self.file, "w", encoding="utf-8") as out:
            out.write(FILE.replace("ROUNDS", str(rounds)).replace("SLOW", slow)
                      .replace("DELAY", delay))

    def exchange_seconds(self, slow, delay):
        """The fastest of four exchanges."""
        self.write(4, slow, delay)
        run = self.begin()
        told, _ = run.communicate(timeout=150)
        log = "\n".join(lines_of(os.path.join(self.dir, "runs", "01-lines-seed-1.log")))
        self.assertEqual(0, run.returncode, told + log)
        metrics = lines_of(os.path.join(self.dir, "runs", "01-lines-seed-1", "metrics.jsonl"))
        seconds = [json.loads(line)["time/exchange_seconds"] for line in metrics]
        return min(one for one in seconds if one)

    def test_rates_hold(self):
        # A third of the update is reduced by each; party 2 sends two thirds and a third's mean
        # twice, and no less than one third whatever the plan.
        taken = self.exchange_seconds("2Mbit", "5ms")
        self.assertGreater(taken, 0.9 * UPDATE / 3 * 8 / 2e6)

    def test_delays_hold(self):
        # From the plan to the agreement it takes two ways at least to and from party 2.
        taken = self.exchange_seconds("50Mbit", f"{DELAY * 1e3:.0f}ms")
        self.assertGreater(taken, 2 * DELAY)

    def test_an_interrupted_run_ends_in_order_and_goes_on(self):
        self.write(12, "20Mbit", "20ms")
        log = os.path.join(self.dir, "runs", "01-lines-seed-1.log")
        run = self.begin()
        self.addCleanup(run.kill)
        end = time.monotonic() + PATIENCE
        while not any(line.startswith("round 2 of") for line in lines_of(log)):
            self.assertLess(time.monotonic(), end, "\n".join(lines_of(log)))
            self.assertIsNone(run.poll(), "it was over too soon")
            time.sleep(0.1)
        run.send_signal(signal.SIGINT)
        told, _ = run.communicate(timeout=PATIENCE)
        self.assertEqual(1, run.returncode, told)
        self.assertIn("stopping: each peer finishes its round", "\n".join(lines_of(log)))
        # The lab is gone with all that ran in it.
        self.assertEqual([], glob.glob("/run/netns/peer-*"))
        again = self.begin()
        told, _ = again.communicate(timeout=150)
        self.assertEqual(0, again.returncode, told + "\n".join(lines_of(log)))
        self.assertIn("goes on at round", told)


if __name__ == "__main__":
    skip_without_a_lab()
    unittest.main(verbosity=2)
