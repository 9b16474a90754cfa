"""Would fail if a real run did not go over the lab's lines, or did not survive them: a long way
between the peers, and one of them behind NAT."""

import argparse
import os
import unittest

import topology
import train
from lab_run import HERE, lab_json, skip_without_a_lab, topology_file

ROUNDS = 4
CONFIG = os.path.join(HERE, "..", "..", "configs", "churn.toml")
TOPOLOGY = """
[region.eu]
peers = 2
rate = "100Mbit"
rtt = "10ms"
[region.home]
peers = 1
up = "20Mbit"
down = "50Mbit"
rtt = "10ms"
nat = true
[link.eu-home]
rate = "1Gbit"
rtt = "50ms"
"""


class TrainTest(unittest.TestCase):

    def test_a_run_over_long_lines_is_sealed_with_equal_replicas(self):
        path = topology_file(self, TOPOLOGY)
        done, report = lab_json("train", path, "--config", CONFIG, "--rounds", str(ROUNDS))
        told = done.stdout + done.stderr
        self.assertEqual(0, done.returncode, told)
        self.assertEqual(ROUNDS, report["rounds"], told)
        self.assertEqual(3, report["peers"])
        self.assertTrue(report["equal_digests"])
        # From the plan to the agreement it takes two ways at least, and the ways are 60 ms.
        self.assertGreater(report["exchange_seconds_median"], 0.060)
        # A byte a parameter and round leaves each peer, and all that it sends goes over its line.
        one_update = report["parameters"] * ROUNDS / 3
        for name in ("eu-1.up", "eu-2.up", "home-1.up"):
            self.assertGreater(report["lines"][name]["bytes"], one_update, told)
        self.assertGreater(report["lines"]["home>eu"]["bytes"],
                           report["lines"]["home-1.up"]["bytes"] * 0.9)

    def test_a_run_of_homes_has_an_aggregator_and_survives_a_death(self):
        # Would fail if peers behind NAT alone could not train, or one's death in the middle of an
        # exchange cost more than its own chunks.
        path = topology_file(self, TOPOLOGY.replace("peers = 2", "peers = 0")
                             .replace("peers = 1", "peers = 3"))
        done, report = lab_json("train", path, "--config", CONFIG, "--rounds", "9",
                                "--kill", "home-2@3")
        told = done.stdout + done.stderr
        self.assertEqual(0, done.returncode, told)
        self.assertEqual(9, report["rounds"], told)
        self.assertEqual("home-2", report["killed"], told)
        self.assertTrue(report["equal_digests"])
        self.assertEqual(2, report["contributors"][-1], told)
        # What it averages goes to each of them.
        self.assertGreater(report["exchange_bytes_sent"]["aggregator"],
                           report["exchange_bytes_sent"]["home-1"], told)

    def test_what_a_config_says_of_the_coordinator_reaches_it(self):
        # Would fail if the lab's own address took the place of the whole section.
        plan = topology.load(topology_file(self, TOPOLOGY))
        config = topology_file(self, '[coordinator]\naggregator = "never"\n')
        run = train.prepare(plan, argparse.Namespace(config=config, rounds=1, dir=None, json=None,
                                                     kill=None), lambda name: name)
        run.dir = "kept"
        coordinator = run._config_of(plan.node(topology.COORDINATOR))["coordinator"]
        self.assertEqual("never", coordinator["aggregator"])
        self.assertIn(":", coordinator["address"])


if __name__ == "__main__":
    skip_without_a_lab()
    unittest.main()
