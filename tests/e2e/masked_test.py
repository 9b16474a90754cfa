"""Would fail if a run whose updates are masked did not learn what it learns without masks, if its
replicas differed, or if the death of a peer or of the coordinator stopped it.
"""

import os
import unittest

from cluster import Cluster, atoll, equal_digests, wait_for

AVERAGE = """
[outer]
rule = "average"
"""
MASKS = """
[privacy]
masked = true
"""


def pinned(cluster, name):
    """The peers whose keys it keeps: those with whom it has unmasked a sum."""
    path = os.path.join(cluster.process_of(name)["dir"], "mask_keys")
    try:
        with open(path, encoding="utf-8") as source:
            return {line.split()[0] for line in source}
    except FileNotFoundError:
        return set()


def contributed(cluster, name):
    return int((cluster.peer(name) or {}).get("rounds_contributed", 0))


class MaskedTest(unittest.TestCase):

    def loss_after(self, extra):
        # 60 steps, so that the first round's updates have room in the ring.
        with Cluster(rounds=8, peers=4, quorum=4, steps=60, stub={"step_time": "1ms"},
                     extra=AVERAGE + extra) as cluster:
            report = cluster.finish()
            self.assertTrue(equal_digests(report), report)
            self.assertEqual(report["state_digest"], cluster.verify("peer-1")["state_digest"])
            masked = pinned(cluster, "peer-2")
            self.assertLess(report["final_val_loss"], report["initial_val_loss"] / 10)
            return report["final_val_loss"], masked

    def test_the_mean_is_that_of_a_run_without_masks(self):
        plain, nobody = self.loss_after("")
        masked, others = self.loss_after(MASKS)
        self.assertEqual(set(), nobody)
        self.assertEqual({"peer-1", "peer-3", "peer-4"}, others)
        self.assertLess(abs(masked - plain), 0.05 * plain)

    def test_a_peer_and_the_coordinator_may_die(self):
        stub = {"step_time": "2ms", "failure_timeout": "2s"}
        with Cluster(rounds=5000, peers=5, quorum=3, steps=20, stub=stub,
                     extra=AVERAGE + MASKS) as cluster:
            cluster.wait_mid_round(3)
            cluster.kill("peer-2")
            cluster.wait_version(cluster.version() + 3)
            cluster.restart("peer-2")
            before = contributed(cluster, "peer-2")
            wait_for("peer-2 masks its updates again",
                     lambda: contributed(cluster, "peer-2") >= before + 2)
            announced = cluster.version()
            cluster.kill("coordinator")
            cluster.restart("coordinator")
            cluster.wait_version(announced + 3)
            self.assertGreaterEqual(int(cluster.status()["epoch"]), 2)
            stopped = atoll("run", "stop", "--dir", cluster.dir, "--reason", "it goes on")
            self.assertEqual(0, stopped.returncode, stopped.stderr)
            report = cluster.finish()
            self.assertTrue(equal_digests(report), report)
            self.assertEqual(report["state_digest"], cluster.verify("peer-2")["state_digest"])
            self.assertNotIn("another key than", cluster.all_logs("peer-1"))


if __name__ == "__main__":
    unittest.main()
