"""Would fail if a mode in which peers train while they exchange did not train, hung, or led
replicas apart: each with a real model, and with a worker and the coordinator killed in mid-run."""

import json
import os
import signal
import unittest

from cluster import Cluster, equal_digests, wait_for
from text_case import TextCase

ROUNDS = 24
CONFIG = """
[run]
rounds = {rounds}
peers = 3
[model]
kind = "gpt"
layers = 2
heads = 2
width = 32
context = 32
[data]
path = "{text}"
[inner]
steps = 8
batch = 4
learning_rate = 3e-3
warmup_steps = 8
[exchange]
codec = "int8"
chunk_elements = 4096
[evaluation]
tokens = 4096
every_rounds = 12
[membership]
failure_timeout = "3s"
"""
MODES = {
    "streaming": '[mode]\nkind = "streaming"\nfragments = 3\noverlap = 2\n',
    "one fragment, merged at the boundary": '[mode]\nkind = "streaming"\noverlap = 0\n',
    "eager": '[mode]\nkind = "eager"\n',
    "delayed": '[mode]\nkind = "delayed"\ngap_penalty = true\nmomentum_clip = 0.1\n',
    "async": '[mode]\nkind = "async"\nage_decay = 0.1\n[outer]\nrule = "delayed_nesterov"\n',
}


class ModesTest(TextCase):

    def train_through_deaths(self, mode):
        text = CONFIG.format(rounds=ROUNDS, text=self.text) + mode
        with Cluster(peers=3, text=text) as cluster:
            cluster.wait_version(4)
            worker = wait_for("a worker of peer-2", lambda: cluster.worker_pid("peer-2"))
            os.kill(worker, signal.SIGKILL)
            cluster.wait_version(9)
            cluster.kill("coordinator")
            cluster.restart("coordinator")
            report = cluster.finish(seconds=120)
        self.assertEqual({ROUNDS}, {peer["version"] for peer in report["peers"]})
        self.assertTrue(equal_digests(report), json.dumps(report["peers"]))
        return report

    def check(self, name):
        report = self.train_through_deaths(MODES[name])
        self.assertLess(report["final_val_loss"], report["initial_val_loss"] - 1.0)

    def test_streaming(self):
        self.check("streaming")

    def test_one_fragment_at_the_boundary(self):
        self.check("one fragment, merged at the boundary")

    def test_eager(self):
        self.check("eager")

    def test_delayed(self):
        self.check("delayed")

    def test_async(self):
        self.check("async")


if __name__ == "__main__":
    unittest.main()
