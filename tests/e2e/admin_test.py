"""Would fail if an operator could not pause, stop or thin out a run, or if that lost anything."""

import json
import os
import subprocess
import time
import unittest

from cluster import BIN, Cluster, atoll, wait_for


def order(cluster, *words):
    """Runs an admin verb with --json and returns its answer; it must succeed."""
    done = atoll(*words, "--dir", cluster.dir, "--json")
    assert done.returncode == 0, (words, done.stderr)
    return json.loads(done.stdout)


def peer_of(cluster, name):
    status = cluster.status()
    return {p["member"]["peer"]: p for p in status["peers"]}.get(name) if status else None


def wait_state(cluster, name, state):
    def is_so():
        peer = peer_of(cluster, name)
        return peer if peer and peer["member"]["state"] == state else None
    return wait_for(f"{name} is {state}", is_so)


def read(path):
    with open(path, encoding="utf-8") as source:
        return source.read()


class AdminTest(unittest.TestCase):

    def watch(self, cluster):
        """`run watch`, and the file of what it says."""
        told = os.path.join(cluster.top, "watch.txt")
        with open(told, "w", encoding="utf-8") as out:
            process = subprocess.Popen(
                [os.path.join(BIN, "atoll"), "run", "watch", "--dir", cluster.dir, "--results",
                 os.path.join(cluster.top, "results")],
                stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        self.addCleanup(process.kill)
        wait_for("it has heard of the run", lambda: read(told))
        return process, told

    def test_pause_resume_and_stop(self):
        with Cluster(rounds=5000, steps=20) as cluster:
            cluster.wait_version(3)
            order(cluster, "run", "pause", "--reason", "moving house")
            status = wait_for("the phase is paused", lambda: (
                lambda s: s if s and s["phase"] == "paused" else None)(cluster.status()))
            self.assertTrue(status["paused"])
            self.assertIn("moving house", status["reason"])
            version = status["version"]
            shown = atoll("run", "show", "--dir", cluster.dir)
            self.assertIn("paused: an operator has paused it: moving house", shown.stdout)
            self.assertIn("data ", shown.stdout)
            self.assertIn("pass 1, ", shown.stdout)
            # Several rounds' time, in which every look finds the same.
            round_seconds = status["rounds"][-1]["elapsed_seconds"] / version
            end = time.monotonic() + max(3, 8 * round_seconds)
            while time.monotonic() < end:
                status = cluster.status()
                self.assertEqual(("paused", version), (status["phase"], status["version"]))
            wait_for("the peers say why they wait",
                     lambda: "the run waits: an operator has paused it" in cluster.log("peer-1"))
            # A coordinator that is killed in the pause is paused when it is back.
            watch, told = self.watch(cluster)
            cluster.kill("coordinator")
            wait_for("run watch says that nobody answers",
                     lambda: "has not answered since" in read(told))
            cluster.restart("coordinator")
            status = wait_for("the coordinator is back", cluster.status)
            self.assertTrue(status["paused"])
            self.assertEqual(version, status["version"])
            order(cluster, "run", "resume")
            cluster.wait_version(version + 3)
            # Told with the next heartbeat, which may come after three short rounds.
            wait_for("the peers say that it goes on",
                     lambda: "the run goes on" in cluster.log("peer-1"))

            answer = order(cluster, "run", "stop", "--reason", "good enough")
            # At a version that has been evaluated there is nothing left to wait for.
            self.assertTrue(answer["stopping"] or answer["phase"] == "sealed", answer)
            report = cluster.finish()
            self.assertLess(report["rounds"], 5000)
            self.assertGreaterEqual(report["rounds"], version + 3)
            self.assertIsNotNone(report["final_val_loss"])
            for peer in report["peers"]:
                self.assertEqual(report["rounds"], peer["version"], report)
                self.assertEqual(report["state_digest"], peer["state_digest"])
            self.assertEqual(0, watch.wait(timeout=30))
            self.assertIn(" answers again", read(told))
            # What it has left is what `atoll local` tells.
            left = json.loads(read(os.path.join(cluster.top, "results", "report.json")))
            for key in ("rounds", "state_digest", "parameters", "codec", "final_val_loss"):
                self.assertEqual(report[key], left[key])
            figures = read(os.path.join(cluster.top, "results", "metrics.jsonl")).splitlines()
            self.assertEqual(report["rounds"], json.loads(figures[-1])["version"])
            # Its folder tells of a run that is over.
            for words in (("run", "show"), ("run", "watch"), ("peer", "list")):
                said = atoll(*words, "--dir", cluster.dir)
                self.assertEqual(0, said.returncode, said.stderr)
                self.assertIn("ended" if words[0] == "peer" else "sealed", said.stdout)
            verified = atoll("log", "verify", "--dir", cluster.process_of("peer-1")["dir"],
                             "--json")
            self.assertEqual(0, verified.returncode, verified.stderr)
            self.assertEqual(report["state_digest"], json.loads(verified.stdout)["state_digest"])

    def check_receipt(self, cluster):
        """What a peer gave is listed, signed, and checked by anybody; nothing in it is changed."""
        rows = order(cluster, "peer", "list", "--sort", "tokens")
        given = [row["account"]["tokens"] for row in rows]
        self.assertEqual(sorted(given, reverse=True), given)
        self.assertAlmostEqual(1, sum(row["account"]["share"] for row in rows))
        path = os.path.join(cluster.top, "peer-2.receipt")
        done = atoll("peer", "receipt", "peer-2", "--dir", cluster.dir, "--out", path)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("signed by key", done.stdout)
        receipt = json.loads(read(path))
        self.assertGreaterEqual(receipt["tokens"], min(given))
        for words, whose in ((("--dir", cluster.dir), "the history key of run"),
                             (("--key", receipt["history_key"]), "the key that --key gives"),
                             ((), "the key that it names itself")):
            done = atoll("peer", "receipt", "--verify", path, *words)
            self.assertEqual(0, done.returncode, done.stderr)
            self.assertIn(f"the signature is good, by {whose}", done.stdout)
        other = atoll("peer", "receipt", "--verify", path, "--key", "ab" * 32)
        self.assertEqual(1, other.returncode)
        self.assertIn("is signed by key " + receipt["history_key"], other.stderr)
        receipt["tokens"] += 1
        with open(path, "w", encoding="utf-8") as out:
            json.dump(receipt, out)
        forged = atoll("peer", "receipt", "--verify", path, "--dir", cluster.dir)
        self.assertEqual(1, forged.returncode)
        self.assertIn("is not what was signed", forged.stderr)
        for words in ((), ("peer-2", "--verify", path), ("peer-2", "--key", "ab" * 32),
                      ("--verify", path, "--key", "xyz")):
            self.assertEqual(2, atoll("peer", "receipt", *words, "--dir", cluster.dir).returncode)

    def test_drain_evict_and_undo(self):
        with Cluster(rounds=5000, steps=20, peers=4, quorum=2) as cluster:
            cluster.wait_version(2)
            self.check_receipt(cluster)
            wrong = atoll("peer", "drain", "peer-22", "--dir", cluster.dir)
            self.assertEqual(2, wrong.returncode)
            self.assertIn('did you mean "peer-2"?', wrong.stderr)
            self.assertEqual(1, wrong.stderr.count("\n"), wrong.stderr)

            answer = order(cluster, "peer", "drain", "peer-2", "--reason", "a new disk")
            self.assertEqual("", answer["notice"])
            left = wait_state(cluster, "peer-2", "left")
            self.assertEqual("drained", left["why"])
            cluster.wait_version(cluster.version() + 3)

            order(cluster, "peer", "evict", "peer-3", "--reason", "it sends nonsense")
            self.assertEqual("evicted", peer_of(cluster, "peer-3")["member"]["state"])
            wait_for("the evicted peer says why it ends",
                     lambda: "was evicted: it sends nonsense" in cluster.log("peer-3"))
            cluster.wait_version(cluster.version() + 3)
            again = cluster.restart("peer-3")
            self.assertEqual(1, again.wait(timeout=60))
            answer = order(cluster, "peer", "evict", "peer-3", "--undo")
            self.assertEqual("left", answer["member"]["state"])
            before = peer_of(cluster, "peer-3")["rounds_contributed"]
            cluster.restart("peer-3")
            wait_for("peer-3 contributes again",
                     lambda: peer_of(cluster, "peer-3")["rounds_contributed"] > before + 1)
            shown = atoll("peer", "show", "peer-3", "--dir", cluster.dir)
            self.assertEqual(0, shown.returncode, shown.stderr)
            self.assertIn("rounds contributed", shown.stdout)

            below = order(cluster, "peer", "drain", "peer-1")
            self.assertEqual("", below["notice"])
            wait_state(cluster, "peer-1", "left")
            below = order(cluster, "peer", "drain", "peer-4")
            self.assertIn("1 peer stays, fewer than the quorum of 2", below["notice"])
            wait_for("the run waits and says so",
                     lambda: "1 of 2 peers is here" in (cluster.status() or {})["reason"])
            order(cluster, "run", "stop")
            report = cluster.finish()
            exits = {peer["id"]: peer["exit"] for peer in report["peers"]}
            self.assertEqual(0, exits["peer-1"])
            self.assertEqual(0, exits["peer-2"])
            self.assertEqual(0, exits["peer-4"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
