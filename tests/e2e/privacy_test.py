"""Would fail if a run with a budget of differential privacy spent more than that, did not say what
it has spent, or ended with replicas that differ: each peer adds noise that no other knows.
"""

import json
import unittest

from cluster import Cluster, atoll, equal_digests

BUDGET = 4
PRIVATE = f"""
[federation]
weights = "equal"
[privacy]
clip = 1.0
noise = 4.0
epsilon = {BUDGET}.0
"""


class PrivacyTest(unittest.TestCase):

    def test_a_run_ends_before_it_has_spent_its_budget(self):
        with Cluster(rounds=500, stub={"step_time": "1ms"}, extra=PRIVATE) as cluster:
            report = cluster.finish()
            self.assertTrue(equal_digests(report), report)
            told = atoll("run", "metrics", "--dir", cluster.dir, "--format", "jsonl")
            self.assertEqual(0, told.returncode, told.stderr)
            rows = [json.loads(line) for line in told.stdout.splitlines()]
            spent = [row["privacy/epsilon"] for row in rows if row["privacy/epsilon"] is not None]
            # With three peers in each round 11 fit; one that a peer misses spends more.
            self.assertGreaterEqual(len(spent), 5, spent)
            self.assertLess(len(spent), 14, spent)
            self.assertEqual(sorted(spent), spent)
            self.assertLessEqual(spent[-1], BUDGET)
            self.assertGreater(spent[-1], BUDGET / 2)
            with open(cluster.output_path, encoding="utf-8") as output:
                text = output.read()
            self.assertIn("epsilon", text)


if __name__ == "__main__":
    unittest.main()
