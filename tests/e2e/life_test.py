"""Would fail if a run that is stopped, cannot begin, or has an oddly named folder hung, lost what
it had reached, or took its logs away.
"""

import json
import os
import signal
import subprocess
import tempfile
import unittest

from cluster import BIN, Cluster, atoll, wait_for

CUT = """
[run]
rounds = 3
peers = 2
[model]
kind = "gpt"
layers = 1
heads = 2
width = 32
vocabulary = 100
[data]
kind = "bin"
path = "{path}"
"""


class LifeTest(unittest.TestCase):

    def setUp(self):
        self.top = tempfile.TemporaryDirectory(prefix="atoll-e2e-")
        self.addCleanup(self.top.cleanup)

    def start(self, cluster):
        return subprocess.Popen(
            [os.path.join(BIN, "atoll"), "local", "--config", cluster.config, "--peers", "2",
             "--dir", cluster.dir, "--json", cluster.json_path], stdout=cluster.output,
            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def stop(self, cluster, *signals):
        for number in signals:
            cluster.process.send_signal(number)
        self.assertEqual(1, cluster.process.wait(timeout=100), cluster.text())

    def test_a_run_that_is_stopped_says_what_it_reached_and_goes_on(self):
        with Cluster(rounds=100000, peers=2, quorum=1, steps=2, width=32) as cluster:
            cluster.wait_version(2)
            # As `timeout` does: the process, then its group.
            self.stop(cluster, signal.SIGTERM, signal.SIGTERM)
            said = cluster.text()
            for part in ("validation loss before", "loss curve", "Go on with: ",
                         "stopped at round "):
                self.assertIn(part, said)
            for name in ("model.safetensors", "loss.svg", "peer-1/log.txt"):
                self.assertTrue(os.path.exists(os.path.join(cluster.dir, name)), name)
            with open(cluster.json_path, encoding="utf-8") as source:
                report = json.load(source)
            self.assertGreaterEqual(report["rounds"], 2)
            # The folder tells how it stands.
            shown = atoll("run", "show", "--dir", cluster.dir, "--json")
            self.assertEqual(0, shown.returncode, shown.stderr)
            self.assertEqual("stopped", json.loads(shown.stdout)["phase"])
            reached = json.loads(shown.stdout)["version"]
            self.assertEqual(report["rounds"], reached)
            # The command that was named goes on from there.
            cluster.process = self.start(cluster)
            cluster.wait_version(reached + 1)
            self.assertEqual(1, self.start(cluster).wait(timeout=60))  # not twice
            self.assertIn(" is in use by process ", cluster.text())
            self.stop(cluster, signal.SIGHUP)

    def test_a_run_none_of_whose_workers_starts_ends_with_the_reason(self):
        cut = os.path.join(self.top.name, "cut.bin")
        with open(cut, "wb") as out:
            out.write(bytes(20001))
        text = CUT.format(path=cut)
        with Cluster(peers=2, text=text) as cluster:
            self.assertEqual(1, cluster.process.wait(timeout=100), cluster.text())
            said = cluster.text()
            self.assertIn("its worker does not start: ", said)
            self.assertIn("for 20 s no worker of this run has started: ", said)
            self.assertIn(f"{cut} ends in the middle of a token", said)
            self.assertTrue(os.path.exists(os.path.join(cluster.dir, "peer-1", "log.txt")))

    def test_a_folder_with_an_odd_name_trains(self):
        before = self.socket_folders()
        with Cluster(rounds=100000, peers=1, quorum=1, stub={"parameters": 1000},
                     folder="lr=1e-3,batch=4 #1?%41" + "x" * 80) as cluster:
            cluster.wait_version(2)
            self.stop(cluster, signal.SIGINT)
        self.assertEqual(before, self.socket_folders())

    def socket_folders(self):
        return {name for name in os.listdir("/tmp")
                if name.startswith("atoll-") and not name.startswith("atoll-e2e-")}

    def test_a_second_daemon_in_one_folder_is_refused(self):
        with Cluster(rounds=100000, peers=2, quorum=2, stub={"parameters": 1000}) as cluster:
            cluster.wait_version(1)
            for name in ("peer-1", "coordinator"):
                pid = cluster.pid_of(name)
                second = cluster.restart(name)
                self.assertEqual(1, second.wait(timeout=60))
                self.assertIn(f"is in use by process {pid}", cluster.all_logs(name))
                self.assertEqual(pid, cluster.pid_of(name))
            version = cluster.version()
            wait_for("the run goes on", lambda: cluster.version() > version)


if __name__ == "__main__":
    unittest.main()
