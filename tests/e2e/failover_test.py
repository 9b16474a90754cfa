"""Would fail if a run could lose its coordinator: if none took over from one that was killed or
stopped, if the stopped one committed anything afterwards, or if a version that was announced were
lost.

Needs etcd: in ATOLL_ETCD, in build/etcd of the source tree (scripts/etcd puts it there) or in PATH.
Skips without it.
"""

import signal
import sys
import unittest

from cluster import wait_for
from coordinators import Coordinators
from etcd_members import etcd_program


class FailoverTest(unittest.TestCase):

    def setUp(self):
        self.cluster = Coordinators()
        self.addCleanup(self.cluster.close)
        self.addCleanup(lambda: self.passed or sys.stderr.write(self.cluster.tails()))
        self.passed = False

    def wait_more(self):
        """Two versions more: the second was begun and committed by whoever leads now."""
        self.cluster.wait_version(self.cluster.version() + 2)

    def check_kept(self, before):
        """Every header that was announced is still that version's."""
        self.assertEqual(before, self.cluster.headers()[:len(before)])

    def test_the_run_goes_on_whoever_dies(self):
        cluster = self.cluster
        cluster.wait_version(3)

        announced = cluster.headers()
        cluster.signal(0, signal.SIGKILL)
        cluster.wait_leader(1)
        self.wait_more()
        self.check_kept(announced)
        cluster.start(0)
        wait_for("the killed one waits", lambda: cluster.log(0).rstrip().endswith("waiting"))

        # One of three members of etcd is nobody's loss.
        cluster.etcd.kill(0)
        self.wait_more()

        # The stopped leader does not know that its time has passed.
        announced = cluster.headers()
        cluster.signal(1, signal.SIGSTOP)
        cluster.wait_leader(0)
        self.wait_more()
        cluster.signal(1, signal.SIGCONT)
        wait_for("the stopped one has noticed",
                 lambda: "this coordinator leads no longer" in cluster.log(1))
        self.wait_more()
        self.check_kept(announced)

        digests = cluster.digests()
        self.assertEqual(1, len(digests), digests)
        self.passed = True


if __name__ == "__main__":
    if etcd_program() is None:
        print("no etcd: scripts/etcd build/etcd fetches it")
        sys.exit(77)
    unittest.main(verbosity=2)
