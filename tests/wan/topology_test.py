"""Would fail if a topology file meant another network than README.md says, or a mistake in one
were taken for something."""

import os
import tomllib
import unittest

import topology

HERE = os.path.dirname(os.path.abspath(__file__))

TEXT = """
[region.eu]
peers = 2
rate = "1Gbit"
rtt = "4ms"
[region.us]
peers = 1
rate = "100Mbit"
queue = "10ms"
[region.home]
peers = 1
up = "10Mbit"
down = "50Mbit"
rtt = "20ms"
nat = true
[link.eu-us]
rate = "50Mbit"
rtt = "80ms"
loss = 0.01
[link.home-eu]
rate = "1Gbit"
rtt = "10ms"
[peer.eu-2]
rtt = "12ms"
rate = "10Mbit"
"""


def made(text=TEXT):
    return topology.make(tomllib.loads(text))


class TopologyTest(unittest.TestCase):

    def path(self, source, target):
        plan = made()
        return plan.path(plan.node(source), plan.node(target))

    def rtt(self, a, b):
        plan = made()
        return round(plan.rtt(plan.node(a), plan.node(b)), 9)

    def test_nodes_and_addresses(self):
        self.assertEqual(["coordinator", "eu-1", "eu-2", "us-1", "home-1"],
                         [node.name for node in made().nodes])
        addresses = [node.address for node in made().nodes]
        self.assertEqual(len(addresses), len(set(addresses)))
        self.assertEqual([False, False, False, False, True], [n.nat for n in made().nodes])

    def test_paths_go_over_every_line_between(self):
        self.assertEqual(["eu-1.up", "eu-2.down"], [n.name for n in self.path("eu-1", "eu-2")])
        self.assertEqual(["us-1.up", "us>eu", "eu>home", "home-1.down"],
                         [n.name for n in self.path("us-1", "home-1")])
        plan = made()
        self.assertIs(self.path("us-1", "eu-1")[1].__class__, topology.Line)
        self.assertIs(plan.links[("us", "eu")],
                      plan.path(plan.node("us-1"), plan.node("home-1"))[1])

    def test_round_trips(self):
        self.assertEqual(0.004, self.rtt("coordinator", "eu-1"))
        self.assertEqual(0.012, self.rtt("eu-1", "eu-2"))
        self.assertEqual(0.082, self.rtt("us-1", "eu-1"))    # 80 and the half of eu's 4
        self.assertEqual(0.022, self.rtt("home-1", "eu-1"))  # 10 + half of 20 + half of 4
        self.assertEqual(0.1, self.rtt("home-1", "us-1"))

    def test_rates_queues_and_losses(self):
        lines = {line.name: line for line in made().lines()}
        self.assertEqual((10e6, 50e6), (lines["home-1.up"].rate, lines["home-1.down"].rate))
        self.assertEqual((10e6, 10e6), (lines["eu-2.up"].rate, lines["eu-2.down"].rate))
        self.assertEqual(1e9, lines["coordinator.up"].rate)
        self.assertEqual((0.01, 0.1), (lines["us-1.up"].queue, lines["eu-1.up"].queue))
        self.assertEqual((0.01, 0.0), (lines["us>eu"].loss, lines["eu>home"].loss))

    def test_buffers_hold_what_may_be_under_way(self):
        # us-1 to eu-1: 50 Mbit/s for 82 ms and the queues of three lines.
        self.assertGreaterEqual(made().most_bytes_under_way(), 50e6 / 8 * (0.082 + 0.21) - 1)

    def test_mistakes_are_named(self):
        for text, said in [
                ("", "there is no region"),
                ("[region.eu]\npeers = 1\n", "needs a rate"),
                (TEXT + "[regions.x]\n", "did you mean 'region'"),
                (TEXT + "[region.x]\nspeed = '1Gbit'\n", "there is no 'speed'"),
                (TEXT + "[region.x]\nrate = '1Gb'\n", "region.x.rate: '1Gb' is not a rate"),
                (TEXT + "[region.x]\nrate = '0Mbit'\n", "carries something"),
                (TEXT + "[region.x]\nrate = '1Mbit'\nrtt = '-1ms'\n", "is not a time"),
                (TEXT + "[region.x]\nrate = '1Mbit'\nloss = 1\n", "is not a loss"),
                (TEXT + "[region.x]\nrate = '1Mbit'\nloss = nan\n", "is not a loss"),
                (TEXT + "[region.x]\nrate = '1Mbit'\npeers = 201\n", "from 0 to 200"),
                (TEXT + "[region.x]\nrate = '1Mbit'\nnat = 1\n", "neither true nor false"),
                (TEXT + "[region.x]\nrate = '1Mbit'\n", "no link leads from region"),
                (TEXT + "[region.a-b]\nrate = '1Mbit'\n", "lower-case"),
                (TEXT + "[link.eu-mars]\nrate = '1Mbit'\n", "there is no region 'mars'"),
                (TEXT + "[link.us-eu]\nrate = '1Mbit'\n", "another between these two"),
                (TEXT + "[link.eu]\nrate = '1Mbit'\n", "two regions"),
                (TEXT + "[link.us-home]\nrtt = '1ms'\n", "needs a rate"),
                (TEXT + "[peer.eu-3]\nrate = '1Mbit'\n", "no such peer; did you mean 'eu-"),
                (TEXT + "[peer.eu-1]\nrtt = '1ms'\n", "peer.eu-1.rtt: shorter"),
                (TEXT + "[coordinator]\nnat = true\n", "nobody could reach it"),
                (TEXT + "[coordinator]\nregion = 'uss'\n", "did you mean 'us'"),
                (TEXT + "[lab]\nseed = 'x'\n", "holds a seed")]:
            with self.subTest(said=said):
                with self.assertRaises(topology.Wrong) as caught:
                    made(text)
                self.assertIn(said, str(caught.exception))

    def test_the_examples_are_right(self):
        folder = os.path.join(HERE, "topologies")
        for name in os.listdir(folder):
            self.assertGreater(len(topology.load(os.path.join(folder, name)).nodes), 1, name)

    def test_a_file_that_is_none_is_named(self):
        with self.assertRaises(topology.Wrong) as caught:
            topology.load(os.path.join(HERE, "topology.py"))
        self.assertIn("topology.py", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
