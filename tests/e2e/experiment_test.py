"""Would fail if an experiment did not come from one file to a table and a report: with data of each
party's own, two settings and two seeds, through SIGKILL in the middle; or if its report could not
be read in a browser, on a telephone and on a large screen, in light and dark. The screenshots lie
in the build's folder experiment/. The same in containers, where a script plays the engine: it
writes down what it is asked, and answers as containers would."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import unittest

from cluster import BIN, atoll, wait_for, write_corpus
from dashboard_test import FAULTS_OF_LAYOUT, SCHEMES, WIDTHS, Browser, missing

FILE = """
[experiment]
name = "tiny"
seeds = [1, 2]
jobs = 1
target_loss = 5.0
[run]
rounds = 8
[model]
kind = "gpt"
layers = 1
heads = 2
width = 32
context = 32
[data]
path = "text.txt"
validation_fraction = 0.1
[inner]
steps = 4
batch = 4
warmup_steps = 4
[outer]
rule = "average"
[exchange]
chunk_elements = 4096
[evaluation]
tokens = 1024
every_rounds = 2
[membership]
failure_timeout = "3s"
[partition]
scheme = "iid"
parties = 2
unit = "line"
[[setting]]
name = "FedAvg"
[[setting]]
name = "FedAvg, bf16"
"exchange.codec" = "bf16"
"""

# What scrolls within the page may be wider than it.
FAULTS = FAULTS_OF_LAYOUT.replace("if (!text ||",
                                  "if (!text || element.closest('.wide, pre') ||")


def lines_of(path):
    try:
        with open(path, encoding="utf-8") as source:
            return source.read().splitlines()
    except FileNotFoundError:
        return []


class ExperimentTest(unittest.TestCase):
    """One experiment; the methods follow each other, in the order of their names."""

    @classmethod
    def setUpClass(cls):
        cls.top = tempfile.mkdtemp(prefix="atoll-e2e-experiment-")
        cls.addClassCleanup(shutil.rmtree, cls.top, ignore_errors=True)
        cls.file = os.path.join(cls.top, "tiny.toml")
        cls.dir = os.path.join(cls.top, "out")
        with open(cls.file, "w", encoding="utf-8") as out:
            out.write(FILE)
        write_corpus(os.path.join(cls.top, "text.txt"), 2000)

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def results(self):
        return [json.loads(line) for line in lines_of(self.path("results.jsonl"))]

    def begin(self):
        return subprocess.Popen(
            [os.path.join(BIN, "atoll"), "experiment", "run", self.file, "--dir", self.dir,
             "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)

    def test_1_a_wrong_setting_is_refused_before_anything_is_made(self):
        with open(self.file, "a", encoding="utf-8") as out:
            out.write('"inner.stepz" = 3\n')
        done = atoll("experiment", "run", self.file, "--dir", self.dir)
        with open(self.file, "w", encoding="utf-8") as out:
            out.write(FILE)
        self.assertEqual(2, done.returncode, done.stderr)
        last = len(FILE.splitlines()) + 1
        self.assertIn(f"tiny.toml:{last}: unknown key 'stepz' in [inner]; did you mean 'steps'?",
                      done.stderr)
        self.assertFalse(os.path.exists(self.dir))

    def test_2_goes_on_after_sigkill(self):
        first = self.begin()
        try:
            wait_for("the first run's result", lambda: len(self.results()) == 1)
            second = self.path("runs", "02-fedavg-bf16-seed-1")
            wait_for("the second run", lambda: os.path.exists(os.path.join(second, "peers.json")))
        finally:
            first.send_signal(signal.SIGKILL)
            first.communicate()
        before = lines_of(self.path("runs", "01-fedavg-seed-1.log"))
        again = self.begin()
        out, err = again.communicate(timeout=120)
        self.assertEqual(0, again.returncode, err)
        # What was finished was left alone.
        self.assertEqual(before, lines_of(self.path("runs", "01-fedavg-seed-1.log")))
        told = json.loads(out)
        self.assertEqual(4, told["finished"])
        self.assertEqual(["FedAvg", "FedAvg, bf16"], [row["setting"] for row in told["table"]])
        for row in told["table"]:
            self.assertEqual(2, row["loss"]["seeds"])
            self.assertLess(row["loss"]["mean"], 5.6)  # ln 256 = 5.55 knows nothing
            self.assertGreater(row["loss"]["spread"], 0)
            self.assertGreater(row["bytes"]["mean"], 0)
        self.assertGreater(told["table"][1]["bytes"]["mean"], told["table"][0]["bytes"]["mean"])
        self.assertEqual(["01-fedavg-seed-1", "02-fedavg-bf16-seed-1", "01-fedavg-seed-2",
                          "02-fedavg-bf16-seed-2"], [one["id"] for one in self.results()])

    def test_3_a_changed_file_is_refused(self):
        with open(self.file, "w", encoding="utf-8") as out:
            out.write(FILE.replace("rounds = 8", "rounds = 9"))
        done = atoll("experiment", "run", self.file, "--dir", self.dir)
        self.assertNotEqual(0, done.returncode)
        self.assertIn("`rounds = 8` there, `rounds = 9` here", done.stderr)
        self.assertEqual(4, len(self.results()))

    def test_4_the_report_is_made_again(self):
        os.remove(self.path("report.html"))
        done = atoll("experiment", "report", self.dir)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("FedAvg, bf16", done.stdout)
        self.assertTrue(os.path.exists(self.path("report.html")))

    def test_5_the_report_is_readable(self):
        if missing():
            self.skipTest(f"there is no {missing()}")
        shots = os.path.join(os.path.dirname(BIN), "experiment")
        os.makedirs(shots, exist_ok=True)
        browser = Browser()
        self.addCleanup(browser.close)
        browser.driver.get("file://" + self.path("report.html"))
        for scheme in SCHEMES:
            for width in WIDTHS:
                with self.subTest(scheme=scheme, width=width):
                    browser.show(scheme, width)
                    browser.shoot(os.path.join(shots, f"report-{scheme}-{width}.png"))
                    self.assertEqual([], browser.driver.execute_script(FAULTS))
        count = "return document.querySelectorAll(arguments[0]).length"
        for selector, wanted in (("path.line", 2 + 4 * 2), ("path.band", 4 * 2),
                                 (".partition img", 2), ("tbody tr", 2 + 2 + 4)):
            self.assertEqual(wanted, browser.driver.execute_script(count, selector), selector)
        self.assertEqual(0, browser.driver.execute_script(
            "return [...document.images].filter((one) => !one.naturalWidth).length"))
        self.assertEqual([], browser.driver.get_log("browser"))


# Plays `docker` with Compose v2, in the folder that it lies in: `calls` is what it was asked, a
# line of JSON each. The run of a project whose name ends in what `stuck` says never ends, and the
# peers of one whose name ends in what `gone` says have all given up.
ENGINE = """#!/usr/bin/env python3
import json, os, sys, threading
here = os.path.dirname(os.path.abspath(__file__))
words = sys.argv[1:]
with open(os.path.join(here, "calls"), "a") as calls:
    calls.write(json.dumps(words) + "\\n")
if words[0] == "ps":
    project = [word for word in words if "compose.project=" in word][0].split("project=")[1]
    with open(os.path.join(here, "gone")) as gone:
        how = "Exited (1) 3 seconds ago" if project.endswith(gone.read()) else "Up 3 seconds"
    for peer in (2, 1):
        print(f"{project}-peer-{peer} {how}")
if words[0] != "compose" or words[1] == "version":
    sys.exit(0)
project, words = words[2], words[5:]
if words[:4] == ["exec", "-T", "coordinator", "atoll"]:
    print("round 1 of 2: training loss 5.1", flush=True)
    with open(os.path.join(here, "stuck")) as stuck:
        if project.endswith(stuck.read()):
            threading.Event().wait()
    print("round 2 of 2: training loss 4.0", flush=True)
if words[0] == "logs":
    print("coordinator-1  | waits for peers")
    for peer in (1, 2):
        print(f"peer-{peer}         | starts")
        print(f"peer-{peer}         | no data is left for peer-{peer}")
if words[3:4] == ["cat"]:
    seed = int(project[-1])
    if words[4].endswith("report.json"):
        print(json.dumps({"run_id": project, "parameters": 7, "codec": "fp32",
                          "wall_seconds": 3.5, "state_digest": "ab",
                          "bytes_sent_per_peer_per_round": 10.0}))
    else:
        for version in (0, 1, 2):
            print(json.dumps({"version": version, "time/elapsed_seconds": float(version),
                              "validation/loss": 6.0 - version - seed / 10,
                              "train/total_tokens": 100 * version,
                              "train/contributors": 2 if version else None}))
"""


class ContainersTest(unittest.TestCase):
    """One experiment of two seeds; the methods follow each other, in the order of their names."""

    @classmethod
    def setUpClass(cls):
        cls.top = tempfile.mkdtemp(prefix="atoll-e2e-containers-")
        cls.addClassCleanup(shutil.rmtree, cls.top, ignore_errors=True)
        cls.file = os.path.join(cls.top, "tiny.toml")
        with open(cls.file, "w", encoding="utf-8") as out:
            out.write(FILE[:FILE.index("[[setting]]")])
        write_corpus(os.path.join(cls.top, "text.txt"), 200)
        cls.dir = os.path.join(cls.top, "out")
        cls.engine = os.path.join(cls.top, "engine")
        os.mkdir(cls.engine)

    def begin(self, folder=None):
        path = self.engine + os.pathsep + "/usr/bin" + os.pathsep + "/bin"
        return subprocess.Popen(
            [os.path.join(BIN, "atoll"), "experiment", "run", self.file, "--dir",
             folder or self.dir, "--in", "compose", "--json"], env={**os.environ, "PATH": path},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)

    def install(self, text, stuck, gone="none"):
        docker = os.path.join(self.engine, "docker")
        with open(docker, "w", encoding="utf-8") as out:
            out.write(text)
        os.chmod(docker, 0o755)
        for name, ending in (("stuck", stuck), ("gone", gone)):
            with open(os.path.join(self.engine, name), "w", encoding="utf-8") as out:
                out.write(ending)

    def calls(self):
        """Of the projects: (project, what was asked of it)."""
        asked = [json.loads(line) for line in lines_of(os.path.join(self.engine, "calls"))]
        return [(words[2], " ".join(words[5:])) for words in asked if words[1:2] == ["-p"]]

    def test_1_without_an_engine_it_says_so_and_makes_nothing(self):
        self.install("#!/bin/sh\necho Cannot connect to the daemon >&2\nexit 1\n", "none")
        run = self.begin()
        _, err = run.communicate(timeout=60)
        self.assertEqual(1, run.returncode, err)
        self.assertIn("no container engine answers here", err)
        self.assertIn("Cannot connect to the daemon", err)
        self.assertFalse(os.path.exists(self.dir))

    def test_2_goes_on_after_sigkill(self):
        self.install(ENGINE, "seed-2")
        first = self.begin()
        try:
            wait_for("the second run's watch", lambda: any(
                project.endswith("seed-2") and " watch " in asked
                for project, asked in self.calls()))
        finally:
            first.send_signal(signal.SIGKILL)
            first.communicate()
        killed = len(self.calls())
        self.install(ENGINE, "none")
        again = self.begin()
        out, err = again.communicate(timeout=60)
        self.assertEqual(0, again.returncode, err)
        before, after = self.calls()[:killed], self.calls()[killed:]
        # The first run was whole, from an empty project to one that is taken down.
        project = before[0][0]
        whole = ["down -v --remove-orphans", "up -d --no-build",
                 "exec -T coordinator atoll run watch --coordinator 127.0.0.1:7070 --identity "
                 "/data/coordinator/admin --results /data/results",
                 "exec -T coordinator cat /data/results/metrics.jsonl",
                 "exec -T coordinator cat /data/results/report.json",
                 "logs --no-color", "down -v --remove-orphans"]
        self.assertEqual(whole, [asked for name, asked in before if name == project])
        # It was left alone then, and what was left of the second one was taken down first.
        self.assertEqual({before[-1][0]}, {name for name, _ in after})
        self.assertNotEqual(project, before[-1][0])
        self.assertEqual(whole, [asked for _, asked in after])
        told = json.loads(out)
        self.assertEqual(2, told["finished"])
        row = told["table"][0]
        self.assertAlmostEqual(6.0 - 2 - 0.15, row["loss"]["mean"])
        self.assertEqual(40, row["bytes"]["mean"])
        with open(os.path.join(self.dir, "report.html"), encoding="utf-8") as report:
            self.assertIn("--in compose", report.read())

    def test_3_what_was_started_is_what_compose_takes(self):
        folder = os.path.join(self.dir, "compose")
        self.assertEqual(["01-tiny-seed-1", "01-tiny-seed-1.yml", "01-tiny-seed-2",
                          "01-tiny-seed-2.yml"], sorted(os.listdir(folder)))
        with open(os.path.join(folder, "01-tiny-seed-2.yml"), encoding="utf-8") as text:
            self.assertIn("127.0.0.1:${ATOLL_DASHBOARD:-0}:7080", text.read())
        with open(os.path.join(folder, "01-tiny-seed-2", "coordinator.toml"),
                  encoding="utf-8") as text:
            self.assertIn("exit_when_sealed = false", text.read())

    def test_4_peers_that_have_all_given_up_end_their_run(self):
        self.install(ENGINE, "seed-2", gone="seed-2")
        folder = os.path.join(self.top, "gone")
        before = len(self.calls())
        out, err = self.begin(folder).communicate(timeout=60)
        logs = os.path.join(folder, "runs", "01-tiny-seed-2", "containers.txt")
        self.assertIn("seed 2: failed: no peer runs any more: peer-1 exited with 1: no data is "
                      "left for peer-1; peer-2 exited with 1: no data is left for peer-2 "
                      f"({logs})", err)
        self.assertEqual(1, json.loads(out)["finished"], "the other seed's peers were up")
        self.assertEqual("down -v --remove-orphans", self.calls()[before:][-1][1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
