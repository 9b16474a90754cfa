"""Would fail if `atoll bench exchange --topology` did not go over the lab's lines, compared with a
bound that is none, or could not use a peer behind NAT."""

import json
import os
import subprocess
import unittest

from lab_run import TWO, skip_without_a_lab, topology_file

ATOLL = os.path.join(os.environ.get("ATOLL_BIN", "build/release/bin"), "atoll")
ELEMENTS = 1 << 20
# int8: a byte a value, and a scale of 4 for each 256.
UPDATE = ELEMENTS * (1 + 4 / 256)
HOME = """
[region.eu]
peers = 2
rate = "100Mbit"
rtt = "10ms"
[region.home]
peers = 1
up = "20Mbit"
down = "100Mbit"
nat = true
[link.eu-home]
rate = "1Gbit"
rtt = "10ms"
"""


def bench(*arguments):
    return subprocess.run([ATOLL, "bench", "exchange", *arguments], capture_output=True, text=True,
                          timeout=150, stdin=subprocess.DEVNULL, check=False)


class ExchangeTest(unittest.TestCase):

    def measure(self, topology, rtt):
        done = bench("--topology", topology, "--elements", str(ELEMENTS), "--repeats", "2",
                     "--json", "-")
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        report = json.loads(done.stdout)
        self.assertTrue(report["identical"])
        self.assertEqual(report["ratio"], report["seconds_median"] / report["bound_seconds"])
        # The line, and a chunk's way up and its mean's down: nothing on these lines beats that by
        # more than what a line that was idle lets through at once, and what clocks are read apart.
        # The bound has another round trip, to begin.
        self.assertGreater(min(report["seconds"]), 0.9 * (report["bound_seconds"] - rtt))
        return report, done.stderr

    def test_takes_what_the_lines_take(self):
        report, lines = self.measure(TWO, 0.020)
        self.assertEqual(["eu-1", "eu-2"], report["names"])
        # Half an update up, and half a mean.
        self.assertAlmostEqual(UPDATE * 8 / 100e6 + 2 * 0.020, report["bound_seconds"], delta=1e-3)
        self.assertAlmostEqual(UPDATE, report["bytes_sent_per_peer"], delta=0.02 * UPDATE)
        self.assertEqual(2, len(report["cpu_seconds"]))
        self.assertTrue(0 < report["machine_busy"] <= 1)
        self.assertIn("eu-2.down", lines)

    def test_a_peer_behind_nat_reduces_nothing_and_has_its_part(self):
        report, _ = self.measure(topology_file(self, HOME), 0.015)
        # It sends its whole update up and nothing else, and that is what takes longest.
        self.assertEqual("home-1 up", report["busiest_line"])
        self.assertAlmostEqual(UPDATE * 8 / 20e6 + 2 * 0.015, report["bound_seconds"], delta=1e-3)

    def test_a_wrong_call_is_one_line_and_code_2(self):
        for arguments in (["--topology", TWO, "--peers", "3"], ["--topology", TWO + "x"],
                          ["--topology", TWO, "--codec", "int9"]):
            done = bench(*arguments)
            self.assertEqual(2, done.returncode, done.stdout + done.stderr)
            self.assertEqual(1, done.stderr.count("\n"), done.stderr)


if __name__ == "__main__":
    skip_without_a_lab()
    unittest.main()
