"""Would fail if processes that die, freeze or are cut off split the replicas or stop a run."""

import json
import os
import subprocess
import tempfile
import unittest

from cluster import BIN, atoll, own_store, with_store

CONFIG = """
[run]
rounds = 1000000
peers = 3
[model]
kind = "stub"
parameters = 20000
[inner]
steps = 20
step_time = "20ms"
[exchange]
chunk_elements = 4096
[evaluation]
every_rounds = 10
[membership]
failure_timeout = "2s"
"""

KINDS = {"kill_peer", "freeze_peer", "black_hole_peer", "restart_peer", "kill_worker",
         "freeze_worker", "kill_coordinator", "freeze_coordinator"}


def processes_under(folder):
    """Pids of processes whose command line names the folder."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as source:
                command = source.read()
        except OSError:
            continue
        if folder.encode() in command and b"bench" not in command:
            found.append(int(entry))
    return found


class ChurnTest(unittest.TestCase):

    def setUp(self):
        self.top = tempfile.TemporaryDirectory(prefix="atoll-e2e-")
        self.addCleanup(self.top.cleanup)
        etcd = own_store(self.top.name)
        if etcd is not None:
            self.addCleanup(etcd.close)
        self.config = os.path.join(self.top.name, "churn.toml")
        with open(self.config, "w", encoding="utf-8") as out:
            out.write(with_store(CONFIG, etcd))
        self.json = os.path.join(self.top.name, "churn.json")
        self.dir = os.path.join(self.top.name, "run")

    def arguments(self, minutes):
        return ["bench", "churn", "--peers", "3", "--minutes", str(minutes), "--every", "4",
                "--seed", "1", "--config", self.config, "--dir", self.dir, "--json", self.json]

    def test_replicas_stay_equal_through_faults(self):
        # Six faults in 24 s; a machine that is slow lands fewer of them.
        done = atoll(*self.arguments(0.4), timeout=360)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        with open(self.json, encoding="utf-8") as source:
            report = json.load(source)
        self.assertTrue(report["digests_equal"], report)
        self.assertEqual("", report["digest_problem"])
        self.assertEqual([], report["not_back"], report)
        self.assertEqual([], report["unexpected_exits"], report)
        self.assertEqual(6, report["faults_planned"])
        self.assertGreaterEqual(report["faults_landed"], 3, report)
        self.assertEqual(report["faults_landed"], len(report["faults"]))
        self.assertGreater(report["rounds_committed"], 5)
        self.assertGreater(report["rounds_committed_fault_free"], report["rounds_committed"])
        self.assertLess(report["mean_live_fraction"], 1)
        self.assertGreater(report["goodput"], 0)
        for fault in report["faults"]:
            self.assertIn(fault["kind"], KINDS)
            self.assertIsNotNone(fault["rejoined_seconds"], fault)
        for name, kind in report["kinds"].items():
            self.assertEqual(0, kind["undetected"], f"{name}: {report}")
        self.assertEqual([], processes_under(self.dir))

    def test_interrupted_leaves_nothing_running(self):
        process = subprocess.Popen([os.path.join(BIN, "atoll"), *self.arguments(10)],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            for line in process.stdout:
                if "have committed the first round" in line:
                    break
            self.assertGreaterEqual(len(processes_under(self.dir)), 4)  # daemons, workers
            process.terminate()
            process.communicate(timeout=60)
        finally:
            process.kill()
            process.wait()
        self.assertEqual(1, process.returncode)
        self.assertEqual([], processes_under(self.dir))


if __name__ == "__main__":
    unittest.main(verbosity=2)
