"""Would fail if a volunteer's orders and limits did not hold on a live run: a pause, a finished
round, hours, floors of memory and disk, other programs' work; if a killed daemon forgot them; or if
`atoll status` did not say why the machine idles.

The workers only let time pass (model "stub"); everything else is what users run.
"""

import json
import os
import subprocess
import sys
import time
import unittest

from cluster import Cluster, atoll, equal_digests, wait_for

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def far_hours():
    """Hours that do not begin for days."""
    return f"{DAYS[(time.localtime().tm_wday + 3) % 7]} 10:00-11:00"


class Owner:
    """Of the machine of one peer."""

    def __init__(self, cluster, name):
        self.cluster = cluster
        self.name = name
        self.dir = cluster.process_of(name)["dir"]

    def ask(self, *words, code=0):
        done = atoll(*words, "--dir", self.dir, "--json")
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return json.loads(done.stdout) if code == 0 else done.stderr

    def status(self):
        return self.ask("status")

    def idles(self, reason, seconds=30):
        """Waits until this is the most pressing reason, also as the coordinator shows it."""
        def look():
            status = self.status()
            return status["idle"] and reason in status["idle"][0] and status
        status = wait_for(f"{self.name} idles: {reason}", look, seconds)
        wait_for(f"the run shows: {reason}", lambda: reason in (self.shown() or ""), seconds)
        return status

    def shown(self):
        peer = self.cluster.peer(self.name)
        return peer and peer.get("why")

    def trains(self, seconds=30):
        return wait_for(f"{self.name} trains", lambda: not self.status()["idle"] and
                        self.cluster.worker_pid(self.name), seconds)

    def contributes(self):
        """Waits for an entry with something of this peer that began after now."""
        before = self.status()["rounds"]
        wait_for(f"{self.name} contributes", lambda: self.status()["rounds"] >= before + 2, 30)


class MachineTest(unittest.TestCase):

    def test_a_day_of_a_volunteer(self):
        with Cluster(rounds=100000, peers=3, quorum=1, steps=10, stub={}) as cluster:
            cluster.wait_version(1)
            owner = Owner(cluster, "peer-2")
            owner.trains()
            owner.contributes()
            self.pause_and_kill(cluster, owner)
            self.finish(owner)
            self.limits(owner)
            self.others_work(owner)
            self.network_hours(cluster, owner)
            self.without_a_daemon(cluster, owner)
            cluster.restart("peer-2")
            owner.trains()
            self.assertIn(("processors", "75"), [(one["key"], one["value"].split(".")[0])
                                                 for one in owner.ask("limits", "show")])
            owner.contributes()
            self.assertEqual(0, atoll("run", "stop", "--dir", cluster.dir).returncode)
            report = cluster.finish()
            self.assertTrue(equal_digests(report), report)
            self.assertNotIn("peer peer-2: its worker died", cluster.log("coordinator"))

    def pause_and_kill(self, cluster, owner):
        paused = owner.ask("pause")
        self.assertTrue(paused["paused"])
        owner.idles("paused by its owner")
        wait_for("its worker has ended", lambda: cluster.worker_pid("peer-2") is None, 10)
        rounds = owner.status()["rounds"]
        version = cluster.version()
        cluster.wait_version(version + 3)  # nobody waits for it, and it follows
        wait_for("it follows the run",
                 lambda: owner.status()["progress"]["version"] >= version + 3, 10)
        self.assertLessEqual(owner.status()["rounds"], rounds + 1)  # one may have been ready
        cluster.kill("peer-2")
        cluster.restart("peer-2")
        status = owner.idles("paused by its owner")
        self.assertTrue(status["running"] and status["paused"])
        self.assertIsNone(cluster.worker_pid("peer-2"))
        self.assertFalse(owner.ask("resume")["paused"])
        owner.trains()
        owner.contributes()
        # A timed one ends by itself.
        self.assertGreater(owner.ask("pause", "--for", "2s")["paused_until_unix_seconds"], 0)
        owner.trains()

    def finish(self, owner):
        owner.contributes()
        asked = owner.ask("finish")
        self.assertTrue(asked["finishing"] or asked["paused"])
        owner.idles("paused by its owner")
        self.assertFalse(owner.status()["finishing"])
        if asked["progress"]["phase"] == "training":
            self.assertGreater(owner.status()["rounds"], asked["rounds"])
        owner.ask("resume")
        owner.trains()

    def limits(self, owner):
        for limit, reason in [("memory_floor=1000TB", "of memory is available"),
                              ("disk_floor=1000TB", "of the disk is free"),
                              (f"hours={far_hours()}", "outside its hours until")]:
            owner.ask("limits", "set", limit, "--until-restart")
            status = owner.idles(reason)
            key = limit.partition("=")[0]
            self.assertIn((key, "set"), [(one["key"], one["from"]) for one in status["limits"]])
            owner.ask("limits", "set", "memory_floor=0", "disk_floor=0", "hours=",
                      "--until-restart")
            owner.trains()
        said = owner.ask("limits", "set", "hour=18:00-08:00", code=2)
        self.assertIn("the nearest is 'hours'", said)
        self.assertIn("others_above", owner.ask("limits", "set", "others_above=lots", code=2))
        owner.ask("limits", "set", "processors=50")
        self.assertIn({"key": "processors", "value": "50"},
                      [{"key": one["key"], "value": one["value"].split(".")[0]}
                       for one in owner.ask("limits", "show")])
        owner.contributes()  # the worker has been started again

    def others_work(self, owner):
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
                for _ in range(os.cpu_count())]
        try:
            owner.ask("limits", "set", "others_above=20", "--until-restart")
            owner.idles("other programs use over 20 % of the processors")
        finally:
            for process in busy:
                process.kill()
                process.wait()
        owner.ask("limits", "set", "others_above=0", "--until-restart")
        owner.trains()

    def network_hours(self, cluster, owner):
        owner.ask("limits", "set", f"network_hours={far_hours()}", "--until-restart")
        wait_for("it leaves the run", lambda: not owner.status()["connected"], 20)
        wait_for("the run says so",
                 lambda: "outside its network hours" in (owner.shown() or ""), 20)
        before = cluster.version()
        cluster.wait_version(before + 2)
        owner.ask("limits", "set", "network_hours=", "--until-restart")
        owner.trains()
        owner.contributes()

    def without_a_daemon(self, cluster, owner):
        pid = cluster.kill("peer-2")
        wait_for("it is gone", lambda: not os.path.exists(f"/proc/{pid}/cmdline") or
                 not open(f"/proc/{pid}/cmdline", encoding="utf-8").read(), 10)
        status = owner.status()
        self.assertFalse(status["running"])
        self.assertGreater(status["rounds"], 0)
        self.assertIn("no daemon runs in", owner.ask("pause", code=1))
        # What was kept holds without it.
        self.assertIn(("processors", "set"),
                      [(one["key"], one["from"]) for one in owner.ask("limits", "show")])
        self.assertIn("no daemon runs in",
                      atoll("status", "--dir", owner.dir).stdout)
        # Limits can be set without it, for its next start.
        self.assertIn("no daemon runs in",
                      owner.ask("limits", "set", "processors=60", "--until-restart", code=2))
        self.assertIn("the nearest is 'hours'", owner.ask("limits", "set", "hour=", code=2))
        said = atoll("limits", "set", "processors=75", "--dir", owner.dir)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("this holds from its next start on", said.stderr)


if __name__ == "__main__":
    unittest.main()
