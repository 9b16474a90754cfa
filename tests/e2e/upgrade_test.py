"""Would break: a run must be stopped to upgrade it, or loses rounds while its machines are.

Six peers and their coordinator are started with the programs of one release and, one after another
while rounds go on, started again with those of another: three peers, the coordinator, the other
peers. ATOLL_OLD_BIN names the folder of the release before; without it both are this build, which
is a rolling restart.
"""

import json
import os
import signal
import subprocess
import tempfile
import unittest

from cluster import BIN, atoll, free_port, wait_for

OLD_BIN = os.environ.get("ATOLL_OLD_BIN") or BIN
PEERS = [f"p{i}" for i in range(1, 7)]

# An exchange is given up at twice what is predicted: seconds to spare on a busy machine.
RUN = """
[run]
id = "upgrade"
rounds = 5000
peers = 6
quorum = 4
[model]
kind = "stub"
parameters = 40000
[inner]
steps = 5
step_time = "50ms"
[exchange]
chunk_elements = 4096
[evaluation]
every_rounds = 0
"""
ALL = """
[membership]
failure_timeout = "3s"
[coordinator]
address = "{address}"
"""
COORDINATOR = """dir = "{top}/coordinator"
aggregator = "never"
exit_when_sealed = true
"""
PEER = """
[model]
kind = "stub"
parameters = 40000
[peer]
id = "{peer}"
dir = "{top}/{peer}"
snapshot_every = 10
"""


class RollingUpgrade(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="atoll-upgrade-")
        self.address = f"127.0.0.1:{free_port()}"
        self.processes = {}
        shared = ALL.format(address=self.address)
        self.write("coordinator", RUN + shared + COORDINATOR.format(top=self.top))
        for peer in PEERS:
            self.write(peer, shared + PEER.format(top=self.top, peer=peer))
            done = atoll("identity", "issue", "--dir", os.path.join(self.top, "coordinator"),
                         "--run", "upgrade", "--id", peer, "--out",
                         os.path.join(self.top, peer, "identity"))
            self.assertEqual(done.returncode, 0, done.stderr)

    def tearDown(self):
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()
        subprocess.run(["rm", "-rf", self.top], check=True)

    def write(self, name, text):
        with open(os.path.join(self.top, name + ".toml"), "w", encoding="utf-8") as out:
            out.write(text)

    def log(self, name):
        with open(os.path.join(self.top, name + ".log"), encoding="utf-8") as source:
            return source.read()

    def start(self, folder, name):
        role = "coordinator" if name == "coordinator" else "peer"
        with open(os.path.join(self.top, name + ".log"), "a", encoding="utf-8") as out:
            self.processes[name] = subprocess.Popen(
                [os.path.join(folder, "atolld"), role, "--config",
                 os.path.join(self.top, name + ".toml")],
                stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def stop(self, name):
        process = self.processes[name]
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=60), 0, self.log(name)[-2000:])

    def order(self, *words):
        done = atoll(*words, "--coordinator", self.address, "--identity",
                     os.path.join(self.top, "coordinator", "admin"), "--json")
        return json.loads(done.stdout) if done.returncode == 0 else None

    def status(self):
        return self.order("run", "show") or {}

    def version(self):
        return int(self.status().get("version", 0))

    def holds(self, name, version):
        """Whether a peer is live and has come as far."""
        for peer in self.status().get("peers", []):
            member = peer["member"]
            if member["peer"] == name and member["state"] == "live":
                return int(member.get("version", 0)) >= version
        return False

    def goes_on(self, rounds=2):
        version = self.version() + rounds
        wait_for(f"version {version}", lambda: self.version() >= version, 60)

    def upgrade(self, name):
        self.stop(name)
        self.start(BIN, name)
        if name == "coordinator":
            return wait_for("all are back", lambda: all(self.holds(p, 1) for p in PEERS), 60)
        version = self.version() + 1
        return wait_for(f"{name} holds version {version}", lambda: self.holds(name, version), 60)

    def test_no_round_is_lost_while_all_are_upgraded_one_by_one(self):
        for name in ["coordinator", *PEERS]:
            self.start(OLD_BIN, name)
        wait_for("the run has begun", lambda: self.version() >= 2, 60)
        for name in [*PEERS[:3], "coordinator", *PEERS[3:]]:
            self.upgrade(name)
            self.goes_on()
        wait_for("a round of all six",
                 lambda: int(self.status()["rounds"][-1]["contributors"]) == 6, 60)
        rounds = self.status()["rounds"]
        self.assertIsNotNone(self.order("run", "stop"))
        for name in ["coordinator", *PEERS]:
            code = self.processes[name].wait(timeout=90)
            self.assertEqual(code, 0, f"{name}: {self.log(name)[-3000:]}")

        self.assertEqual([int(one["version"]) for one in rounds], list(range(1, len(rounds) + 1)))
        for one in rounds:  # one is away, and the one before may still be training
            self.assertGreaterEqual(int(one["contributors"]), 4, one)
        everything = "".join(self.log(name) for name in ["coordinator", *PEERS])
        for sign in ("this attempt failed", "is not believed", "does not believe"):
            self.assertNotIn(sign, everything)
        digests = set()
        for peer in PEERS:
            done = atoll("log", "verify", "--dir", os.path.join(self.top, peer), "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            told = json.loads(done.stdout)
            self.assertEqual(told["chain"], "ok")
            digests.add(told["state_digest"])
        self.assertEqual(len(digests), 1, digests)


if __name__ == "__main__":
    unittest.main(verbosity=2)
