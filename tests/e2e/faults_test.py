"""Would fail if one process's death lost a round, stopped the run or split the replicas."""

import os
import shutil
import signal
import subprocess
import time
import unittest

from cluster import BIN, STORE, STUB_CONFIG, Cluster, equal_digests, wait_for


class FaultsTest(unittest.TestCase):

    def test_peer_killed_in_mid_round_comes_back(self):
        with Cluster(rounds=120, steps=20) as cluster:
            cluster.wait_mid_round(3)
            pid = cluster.kill("peer-2")
            before = cluster.version()
            cluster.wait_version(before + 3)
            wait_for("atoll local says so",
                     lambda: "peer-2" in cluster.text() and str(pid) in cluster.text())
            cluster.restart("peer-2")

            def caught_up():
                status = cluster.status()
                if not status:
                    return None
                peers = {p["member"]["peer"]: p for p in status["peers"]}
                back, other = peers["peer-2"], peers["peer-1"]
                same = all(back.get(key) == other.get(key)
                           for key in ("state_version", "state_digest"))
                return status if same and int(back["rounds_contributed"]) > 3 else None

            wait_for("peer-2 holds the same digest and contributes again", caught_up)
            report = cluster.finish()
            self.assertTrue(equal_digests(report), report)
            # It came back from its own disk: it did not fetch a snapshot.
            with open(cluster.top + "/peer-2.restart.txt", encoding="utf-8") as source:
                log = source.read() + cluster.log("peer-2")
            self.assertIn("found in", log)

    def test_coordinator_killed_in_mid_round_comes_back(self):
        with Cluster(rounds=40, steps=20) as cluster:
            cluster.wait_mid_round(3)
            announced = cluster.version()
            pid = cluster.kill("coordinator")
            wait_for("atoll local says so",
                     lambda: "coordinator" in cluster.text() and str(pid) in cluster.text())
            cluster.restart("coordinator")
            cluster.wait_version(announced)
            self.assertGreaterEqual(int(cluster.status()["epoch"]), 2)
            cluster.wait_version(announced + 2)
            report = cluster.finish()
            self.assertTrue(equal_digests(report), report)

    @unittest.skipIf(STORE == "etcd", "etcd has backups of its own")
    def test_a_backup_from_before_all_headers_goes_on(self):
        # Peers keep some 50 headers of this run, so that none has the one after the copy's.
        text = STUB_CONFIG.format(
            rounds=400, peers=3, quorum=2, steps=2, parameters=2000, step_time="1ms",
            chunk_elements=4096, failure_timeout="3s", snapshot_every=5, donate=0)
        with Cluster(text=text.replace("[peer]", "[peer]\nkeep_bytes = 1000000")) as cluster:
            cluster.wait_version(5)
            folder = os.path.join(cluster.dir, "coordinator")
            backup = os.path.join(cluster.top, "backup")
            copied = subprocess.run(
                [os.path.join(BIN, "atolld"), "coordinator", "--config",
                 os.path.join(folder, "config.toml"), "--backup", backup],
                capture_output=True, text=True, timeout=60, check=False)  # while it commits
            self.assertEqual(copied.returncode, 0, copied.stderr)
            self.assertIn("chain ok", copied.stdout)
            reached = cluster.wait_version(200) and cluster.version()
            self.end_coordinator(cluster)
            for name in ("authority", "admin", "identity"):  # its disk is lost
                shutil.rmtree(os.path.join(folder, name))
            for name in os.listdir(folder):
                if name.startswith("coordinator.db"):
                    os.remove(os.path.join(folder, name))
            shutil.copytree(backup, folder, dirs_exist_ok=True)
            began = time.monotonic()
            cluster.restart("coordinator")
            cluster.wait_version(reached + 1, 30)
            took = time.monotonic() - began
            self.assertIn("no peer that is here has the headers from",
                          cluster.all_logs("coordinator"))
            report = cluster.finish()
            self.assertTrue(equal_digests(report), report)
            self.assertLess(took, 15)

    def end_coordinator(self, cluster):
        pid = cluster.kill("coordinator")
        wait_for("it is gone", lambda: not os.path.exists(f"/proc/{pid}/fd") or
                 not os.listdir(f"/proc/{pid}/fd"))

    def test_worker_killed_is_back_within_the_round(self):
        # Rounds of a few seconds, as short as a worker's start allows.
        with Cluster(rounds=5, steps=3000) as cluster:
            cluster.wait_mid_round(1)
            before = cluster.version()
            worker = wait_for("peer-1's worker", lambda: cluster.worker_pid("peer-1"))
            daemon = cluster.pid_of("peer-1")
            os.kill(worker, signal.SIGKILL)
            ready = "peer peer-1: its worker is ready"
            wait_for("a new worker", lambda: cluster.log("coordinator").count(ready) == 2)
            self.assertNotEqual(worker, cluster.worker_pid("peer-1"))
            self.assertEqual(before, cluster.version(), "the round went by without a worker")
            report = cluster.finish()
            self.assertEqual(daemon, cluster.pid_of("peer-1"))
            self.assertIn("the worker is gone (killed by signal 9", cluster.log("peer-1"))
            self.assertNotIn("peer peer-1 died", cluster.log("coordinator"))
            self.assertTrue(equal_digests(report), report)
            contributed = {peer["id"]: peer["rounds_contributed"] for peer in report["peers"]}
            self.assertGreaterEqual(contributed["peer-1"], 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
