"""Would fail if a run could not be moved between sqlite and etcd while its peers train: if a
version were lost on the way, or if a coordinator started on the store that the run has left.

Needs etcd, as failover_test.py does, and skips without it.
"""

import json
import os
import re
import signal
import subprocess
import sys
import unittest

from cluster import BIN, Cluster, atoll, equal_digests, with_store
from etcd_members import EtcdMembers, etcd_program

# Long enough for the moves; it is stopped at the end.
ROUNDS = 100000


class MigrateTest(unittest.TestCase):

    def setUp(self):
        self.cluster = Cluster(rounds=ROUNDS, peers=2, quorum=2, steps=5, stub={})
        self.addCleanup(self.cluster.close)
        self.etcd = EtcdMembers(self.cluster.top, 1)
        self.addCleanup(self.etcd.close)
        self.cluster.wait_version(3)
        self.folder = os.path.join(self.cluster.dir, "coordinator")
        self.alone = os.path.join(self.folder, "config.toml")
        self.shared = os.path.join(self.folder, "shared.toml")
        with open(self.alone, encoding="utf-8") as source:
            text = re.sub(r"(?m)^(store|etcd) = .*\n", "", source.read())
        with open(self.shared, "w", encoding="utf-8") as out:
            out.write(with_store(text, self.etcd))

    def headers(self):
        done = atoll("log", "list", "--dir", self.cluster.dir, "--json")
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout)

    def end_coordinator(self):
        """Killed amid its work. What was announced by then is what must be there later."""
        announced = self.headers()
        self.cluster.kill("coordinator")
        return announced

    def migrate(self, source, target):
        done = atoll("store", "migrate", "--config", source, "--to", target, "--json")
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout)

    def check_goes_on(self, announced, moved):
        self.assertGreaterEqual(moved["headers"], len(announced) - 1)  # version 0 has none
        self.cluster.wait_version(moved["version"] + 2, 30)
        self.assertEqual(announced, self.headers()[:len(announced)])

    def check_refused(self, config, *words):
        """A coordinator does not start on a store that the run has left."""
        done = subprocess.run([os.path.join(BIN, "atolld"), "coordinator", "--config", config],
                              capture_output=True, text=True, timeout=30, check=False)
        self.assertEqual(2, done.returncode, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stdout + done.stderr)

    def test_there_and_back_while_the_peers_train(self):
        cluster = self.cluster
        peers = {name: cluster.pid_of(name) for name in ("peer-1", "peer-2")}
        announced = self.end_coordinator()
        moved = self.migrate(self.alone, self.shared)
        self.check_refused(self.alone, "has moved to", self.etcd.endpoints)
        command = f"{os.path.join(BIN, 'atolld')} coordinator --config {self.shared}"
        with open(os.path.join(cluster.top, "shared.txt"), "w", encoding="utf-8") as log:
            leader = subprocess.Popen(command.split(), stdout=log, stderr=subprocess.STDOUT)
        cluster.restarted.append(leader)
        self.check_goes_on(announced, moved)

        announced = self.headers()
        leader.send_signal(signal.SIGKILL)
        leader.wait()
        moved = self.migrate(self.shared, self.alone)
        self.assertGreaterEqual(moved["version"], int(announced[-1]["version"]))
        self.check_refused(self.shared, "has moved to", self.folder)
        cluster.restart("coordinator")
        self.check_goes_on(announced, moved)

        self.assertEqual(peers, {name: cluster.pid_of(name) for name in peers})
        self.assertEqual(0, atoll("run", "stop", "--dir", cluster.dir).returncode)
        report = cluster.finish()
        self.assertTrue(equal_digests(report), report)
        verified = subprocess.run([os.path.join(BIN, "atolld"), "coordinator", "--config",
                                   self.alone, "--verify"], capture_output=True, text=True,
                                  check=False)
        self.assertEqual(0, verified.returncode, verified.stderr)
        self.assertIn("sealed", verified.stdout)


if __name__ == "__main__":
    if etcd_program() is None:
        print("no etcd: scripts/etcd build/etcd fetches it")
        sys.exit(77)
    unittest.main(verbosity=2)
