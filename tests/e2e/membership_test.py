"""Would fail if deaths at the worst moments, joins, pauses or workers that hang lost a round, held
the end up or split the replicas.

The workers only let time pass (model "stub"); everything else is what users run.
"""

import os
import re
import signal
import unittest

from cluster import Cluster, atoll, equal_digests, wait_for

# A vector for whose exchange two cores need some tenths of a second: long enough to be hit.
LARGE = {"parameters": 8_000_000, "chunk_elements": 65536}


def wait_line(cluster, name, pattern, after=0, seconds=90):
    """The first line of the log, beyond `after` bytes, that matches."""
    def look():
        return re.search(pattern, cluster.log(name)[after:])
    return wait_for(f"{name} says {pattern!r}", look, seconds)


def wait_exchange(cluster, name):
    """Returns when the peer has just begun an exchange."""
    after = len(cluster.log(name))
    wait_line(cluster, name, r"round \d+: exchange begins", after)


def stop(cluster, seconds=240):
    """Ends the run at its newest version: all hold the same bits."""
    done = atoll("run", "stop", "--dir", cluster.dir)
    assert done.returncode == 0, done.stderr
    report = cluster.finish(seconds)
    assert equal_digests(report), report
    return report


class DeathsTest(unittest.TestCase):

    def test_peers_killed_in_mid_exchange_and_below_the_quorum(self):
        with Cluster(rounds=100000, peers=6, quorum=4, steps=10, stub=LARGE) as cluster:
            cluster.wait_version(2)
            wait_exchange(cluster, "peer-2")
            before = cluster.version()
            cluster.kill("peer-2")
            # That round is not given up: the next version comes without a new epoch.
            cluster.wait_version(before + 2)
            self.assertEqual(1, int(cluster.status()["epoch"]))
            self.assertIn("peer peer-2 died", cluster.log("coordinator"))
            cluster.restart("peer-2")
            wait_for("peer-2 is back", lambda: self.state_of(cluster, "peer-2") == "live")

            # Two at once: four of six are left, as many as the quorum.
            wait_exchange(cluster, "peer-3")
            before = cluster.version()
            cluster.kill("peer-3")
            cluster.kill("peer-5")
            cluster.wait_version(before + 2)

            # Below the quorum the run waits and says so.
            cluster.kill("peer-6")
            status = wait_for("the run waits", lambda: (cluster.status() or {}).get(
                "reason", "").startswith("3 of 4 peers are here") and cluster.status())
            self.assertEqual("waiting", status["phase"])
            before = cluster.version()
            cluster.restart("peer-3")
            cluster.wait_version(before + 1)
            cluster.restart("peer-5")
            cluster.restart("peer-6")
            wait_for("all are back", lambda: all(self.state_of(cluster, f"peer-{i}") == "live"
                                                 for i in range(1, 7)))
            self.assertEqual(6, len(stop(cluster)["peers"]))

    def state_of(self, cluster, name):
        return (cluster.peer(name) or {"member": {}})["member"].get("state")

    def test_coordinator_killed_in_training_and_exchange(self):
        with Cluster(rounds=100000, peers=3, quorum=2, steps=20, stub=LARGE) as cluster:
            for phase in ["training", "exchanging"]:
                cluster.wait_version(cluster.version() + 1)
                if phase == "exchanging":
                    wait_exchange(cluster, "peer-1")
                else:
                    cluster.wait_phase(phase)
                announced = cluster.version()
                cluster.kill("coordinator")
                cluster.restart("coordinator")
                cluster.wait_version(announced)
                cluster.wait_version(announced + 2)
            stop(cluster)

    def test_coordinator_killed_before_the_first_round_and_after_the_last(self):
        with Cluster(rounds=2, peers=3, quorum=2, steps=20) as cluster:
            wait_for("a coordinator", cluster.status)
            cluster.kill("coordinator")
            cluster.restart("coordinator")
            cluster.wait_version(1)
            # What is left is the last evaluation, the digests and the seal.
            wait_for("the last version", lambda: cluster.version() == 2)
            cluster.kill("coordinator")
            cluster.restart("coordinator")
            report = cluster.finish()
            self.assertEqual(2, report["rounds"])
            # By their own logs: nobody was asked any more after the coordinator's death.
            self.assertEqual({report["state_digest"]},
                             {cluster.verify(f"peer-{i}")["state_digest"] for i in (1, 2, 3)})


class JoinsTest(unittest.TestCase):

    def test_joiner_whose_donors_die_goes_on_with_the_others(self):
        stub = {"parameters": 2_000_000, "chunk_elements": 65536, "snapshot_every": 2,
                "donate": 6_000_000}
        with Cluster(rounds=100000, peers=4, quorum=2, steps=10, stub=stub) as cluster:
            cluster.wait_version(3)
            cluster.kill("peer-4")
            cluster.wipe("peer-4")
            cluster.restart("peer-4")
            # Killed when the first blocks are there: 16 MB at 6 MB/s from each donor.
            wait_for("a snapshot that is partly there",
                     lambda: cluster.bytes_under("peer-4", "fetch") > 1_000_000)
            cluster.kill("peer-1")
            wait_for("peer-4 has a state", lambda: int(
                (cluster.peer("peer-4") or {"member": {}})["member"].get("version", 0)) > 0)
            cluster.restart("peer-1")
            stop(cluster)
            self.assertIn("snapshot: leaving donor", cluster.all_logs("peer-4"))


class PausesTest(unittest.TestCase):

    def test_a_peer_that_was_killed_or_stopped_fetches_what_it_missed(self):
        stub = {"parameters": 2_000_000, "chunk_elements": 65536, "snapshot_every": 50,
                "failure_timeout": "2s"}
        with Cluster(rounds=100000, peers=3, quorum=2, steps=20, stub=stub) as cluster:
            cluster.wait_version(3)
            cluster.kill("peer-3")
            cluster.wait_version(cluster.version() + 5)
            cluster.restart("peer-3")
            pattern = (r"fetched entries (\d+) to (\d+) from \d+ peers?: ([\d.]+ \w+) "
                       r"instead of a snapshot of ([\d.]+ \w+)")
            found = wait_for("what it fetched",
                             lambda: re.search(pattern, cluster.all_logs("peer-3")))
            print(f"a rejoiner that missed {int(found[2]) - int(found[1]) + 1} rounds received "
                  f"{found[3]}; a snapshot has {found[4]}")
            self.assertGreaterEqual(int(found[2]) - int(found[1]), 4)

            cluster.signal("peer-2", signal.SIGSTOP)
            wait_for("peer-2 is dead", lambda: (
                cluster.peer("peer-2") or {"member": {}})["member"].get("state") == "dead")
            cluster.wait_version(cluster.version() + 4)  # the time-out's rounds once more
            contributed = int(cluster.peer("peer-2")["rounds_contributed"])
            asleep = len(cluster.all_logs("peer-2"))
            cluster.signal("peer-2", signal.SIGCONT)
            wait_for("peer-2 contributes again", lambda: int(
                (cluster.peer("peer-2") or {}).get("rounds_contributed", 0)) > contributed)
            stop(cluster)
            # Waking up it blames nobody.
            self.assertNotIn("cannot be reached", cluster.all_logs("peer-2")[asleep:])
            self.assertNotIn("fetching a snapshot", cluster.all_logs("peer-3"))


class HungWorkersTest(unittest.TestCase):

    def test_a_worker_that_hangs_holds_neither_a_round_nor_the_end(self):
        # Of three peers all three are the quorum: no round goes on without the one that hangs.
        stub = {"failure_timeout": "2s"}
        with Cluster(rounds=100000, peers=3, quorum=3, steps=20, stub=stub) as cluster:
            cluster.wait_mid_round(2)
            before = cluster.version()
            self.hang_worker(cluster, "peer-2")
            # 3 s until its connection is dead, and as long again for whatever is slow here.
            cluster.wait_version(before + 3, 30)
            self.assertEqual(0, atoll("run", "pause", "--dir", cluster.dir).returncode)
            wait_for("all are idle", lambda: (cluster.status() or {}).get("phase") == "paused" and
                     all(one["progress"]["phase"] == "waiting" for one in cluster.status()["peers"]
                         if one["member"]["role"] == "peer"))
            # It is asked for its share of the last evaluation, and answers nothing.
            self.hang_worker(cluster, "peer-3")
            report = stop(cluster, 60)
            self.assertIsNotNone(report["final_val_loss"])
            for name in ("peer-2", "peer-3"):
                self.assertNotIn(f"peer {name} died", cluster.log("coordinator"))
                self.assertIn("the worker is gone", cluster.log(name))

    def hang_worker(self, cluster, name):
        os.kill(wait_for("a worker", lambda: cluster.worker_pid(name)), signal.SIGSTOP)


if __name__ == "__main__":
    unittest.main(verbosity=2)
