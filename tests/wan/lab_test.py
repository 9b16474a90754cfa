"""Would fail if the lab's lines were not as configured, if somebody could dial into a NAT, or if a
lab left something behind."""

import os
import re
import signal
import subprocess
import time
import unittest

from lab_run import LAB, TWO, lab, lab_json, skip_without_a_lab, topology_file

# Of a machine that measures lines by the second.
ATTEMPTS = 5
LATE_PERCENT = 0.5

# One node behind NAT listens and dials the coordinator; that one dials back to where it is seen,
# and to the address that the topology gives it.
DIAL_BACK = """
import os, socket
listener = socket.create_server(("0.0.0.0", 7000))
listener.settimeout(30)
if os.environ["ATOLL_NODE"] == "coordinator":
    connection, seen = listener.accept()
    print("seen as", seen[0], "from a NAT at", os.environ["ATOLL_ADDRESS"])
    try:
        socket.create_connection((seen[0], 7000), timeout=3)
        print("dialled back")
    except OSError as error:
        print("refused")
    connection.sendall(b"x")
else:
    for attempt in range(300):
        try:
            connection = socket.create_connection((os.environ["ATOLL_COORDINATOR"], 7000), 1)
            break
        except OSError:
            if attempt == 299: raise
    connection.settimeout(30)
    assert connection.recv(1) == b"x"
    print("done")
"""


def processes_with(mark):
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as source:
                    if mark.encode() in source.read():
                        found.append(int(entry))
            except OSError:
                pass
    return found


def wait_for(what, condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.02)  # between two looks


class LabTest(unittest.TestCase):

    def test_lines_are_as_configured(self):
        # A line is never faster than configured. Slower is a machine's right that has no time for
        # it, and the lab says when it was late: such a machine gets other attempts.
        for attempt in range(ATTEMPTS):
            done, rows = lab_json("check", TWO, "--seconds", "1")
            self.assertEqual(4, len(rows), done.stdout)
            for row in rows:
                self.assertEqual(100e6, row["rate"])
                # All of it is more than a program can get: there are headers.
                self.assertLess(row["got"], row["rate"], done.stdout)
            round_trips = [row["got_rtt"] for row in rows if row["rtt"]]
            self.assertEqual(2, len(round_trips))
            self.assertGreaterEqual(min(round_trips), 0.020, done.stdout)
            if (all(row["got"] >= 0.9 * row["rate"] for row in rows) and
                    max(round_trips) <= 0.023):
                self.assertEqual(0, done.returncode, done.stdout + done.stderr)
                return
            self.assertEqual(1, done.returncode, done.stdout + done.stderr)
            late = float(re.search(r"([\d.]+)% of its deliveries over 1 ms late", done.stdout)[1])
            if late <= LATE_PERCENT:
                self.fail(f"wrong, on a machine that kept up:\n{done.stdout}")
        self.skipTest(f"this machine is too busy to measure: {late}% of deliveries came late")

    def test_loses_what_it_is_told_to(self):
        path = topology_file(self, '[region.eu]\npeers = 1\nrate = "20Mbit"\nrtt = "2ms"\n'
                                   '[peer.eu-1]\nloss = 0.02\n')
        done, rows = lab_json("check", path, "--seconds", "1")
        self.assertTrue(all(row["lossy"] for row in rows), done.stdout)
        line = re.search(r"^eu-1\.up .* (\d+) +[\d.]+% +[\d.]+ ms +\d+ +(\d+)$", done.stdout, re.M)
        self.assertIsNotNone(line, done.stdout)
        packets, lost = int(line[1]), int(line[2])
        self.assertGreater(packets, 500)
        # Five standard deviations of a binomial.
        self.assertAlmostEqual(0.02, lost / packets, delta=5 * (0.02 * 0.98 / packets) ** 0.5)

    def test_nobody_dials_into_a_nat(self):
        path = topology_file(self, '[region.eu]\npeers = 0\nrate = "100Mbit"\n'
                                   '[region.home]\npeers = 1\nrate = "10Mbit"\nnat = true\n'
                                   '[link.eu-home]\nrate = "1Gbit"\nrtt = "10ms"\n')
        done = lab("run", path, "--", "python3", "-c", DIAL_BACK)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        self.assertIn("| seen as 10.77.2.1 from", done.stdout)
        self.assertIn("coordinator | refused", done.stdout)
        self.assertIn("home-1      | done", done.stdout)

    def test_leaves_nothing_behind_however_it_ends(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            with self.subTest(signal=number.name):
                mark = f"{os.getpid()}.{number}"
                names = set(os.listdir("/sys/class/net"))
                process = subprocess.Popen([*LAB, "run", TWO, "--", "sleep", "1" + mark],
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                try:
                    # The lab itself (outside and inside) and three nodes.
                    wait_for("the commands run", lambda: len(processes_with(mark)) == 5)
                    process.send_signal(number)
                    self.assertNotEqual(0, process.wait(timeout=30))
                    wait_for("all are gone", lambda: not processes_with(mark))
                finally:
                    process.kill()
                    process.wait()
                self.assertEqual(names, set(os.listdir("/sys/class/net")))
                self.assertFalse(os.path.exists("/run/netns/eu-1"))

    def test_a_wrong_call_is_one_line_and_code_2(self):
        for arguments in (["check", topology_file(self, "[region.eu]\npeers = 1\n")],
                          ["run", TWO, "--on", "eu-7", "--", "true"], ["show", TWO + "x"]):
            done = lab(*arguments)
            self.assertEqual(2, done.returncode, done.stdout + done.stderr)
            self.assertEqual(1, done.stderr.count("\n"), done.stderr)

    def test_tells_which_node_failed(self):
        done = lab("run", TWO, "--", "sh", "-c", '[ "$ATOLL_NODE" != eu-2 ]')
        self.assertEqual(1, done.returncode)
        self.assertIn("eu-2        | exit 1", done.stdout)
        self.assertNotIn("eu-1        | exit", done.stdout)


if __name__ == "__main__":
    skip_without_a_lab()
    unittest.main()
