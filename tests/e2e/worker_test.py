"""Would fail if a trainer of a user's own could not take part in a run like ours."""

import os
import signal
import sys
import unittest

from cluster import Cluster, equal_digests, wait_for

try:
    import google.protobuf  # noqa: F401
    import grpc  # noqa: F401
    import numpy  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing}; /usr/bin/python3 needs python3-grpcio, -numpy and -protobuf")
    sys.exit(77)

EXAMPLES = os.environ["ATOLL_EXAMPLES"]

COMMON = """
[run]
rounds = {rounds}
peers = 3
quorum = 2
[inner]
steps = {steps}
batch = 16
learning_rate = {rate}
warmup_steps = 0
[outer]
rule = "average"
[exchange]
codec = "int8"
chunk_elements = 4096
[evaluation]
tokens = 0
every_rounds = 10
[membership]
failure_timeout = "3s"
"""

PYTHON = COMMON.format(rounds=30, steps=200, rate=0.01) + f"""
[model]
kind = "external"
[worker]
program = "{EXAMPLES}/linear_numpy.py"
"""


class WorkerTest(unittest.TestCase):

    def survives_a_killed_worker(self, cluster, rounds):
        """One worker is killed in the middle; the daemon starts another, which goes on."""
        cluster.wait_version(4)
        first = wait_for("a worker of peer-2", lambda: cluster.worker_pid("peer-2"))
        os.kill(first, signal.SIGKILL)
        wait_for("its successor", lambda: cluster.worker_pid("peer-2") not in (None, first))
        report = cluster.finish()
        self.assertTrue(equal_digests(report), report)
        for peer in report["peers"]:
            self.assertEqual((0, rounds), (peer["exit"], peer["version"]))
        self.assertIn("the worker is gone", cluster.all_logs("peer-2"))
        dead = report["peers"][1]
        self.assertEqual("peer-2", dead["id"])
        self.assertGreater(dead["rounds_contributed"], 5)  # it came back
        return report

    def test_a_script_in_python(self):
        with Cluster(text=PYTHON) as cluster:
            report = self.survives_a_killed_worker(cluster, rounds=30)
            self.assertEqual(65, report["parameters"])
            for peer in report["peers"]:
                self.assertEqual(0, peer["tokens"] % 16)
            # The hidden truth has 65 values of about 1, the noise a variance of 0.01.
            self.assertGreater(report["initial_val_loss"], 10)
            self.assertLess(report["final_val_loss"], 0.03)


if __name__ == "__main__":
    unittest.main(verbosity=2)
