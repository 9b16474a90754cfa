"""Would fail if README's "Let others join" did not work between two machines: a run of `atoll
local --listen`, a token, a check, a join, a list, an eviction, from a second network namespace
that reaches the first one's address and nothing else of it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "wan"))

import world  # noqa: E402  pylint: disable=wrong-import-position
from cluster import BIN, STUB_CONFIG, atoll, wait_for  # noqa: E402

HERE, THERE = "10.77.0.1", "10.77.0.2"
PORT = 7070


def make_machines():
    """This namespace and "far", with one line between them."""
    os.makedirs("/run/netns", exist_ok=True)
    for command in ("ip link set lo up", "ip netns add far",
                    "ip link add name here0 type veth peer name far0 netns far",
                    f"ip addr add {HERE}/24 dev here0", "ip link set here0 up",
                    f"ip -n far addr add {THERE}/24 dev far0", "ip -n far link set far0 up",
                    "ip -n far link set lo up"):
        done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise world.Impossible(f"{command}: {done.stderr.strip()}")


def far(*command, timeout=60):
    return subprocess.run(["ip", "netns", "exec", "far", *command], capture_output=True, text=True,
                          timeout=timeout, check=False)


class OthersJoinTest(unittest.TestCase):

    def start(self, top, *options, extra=""):
        config = os.path.join(top, "run.toml")
        with open(config, "w", encoding="utf-8") as out:
            out.write(extra + STUB_CONFIG.format(
                rounds=100000, peers=2, quorum=2, steps=2, parameters=20000, step_time="10ms",
                chunk_elements=4096, failure_timeout="3s", snapshot_every=20, donate=0))
        self.folder = os.path.join(top, "run")
        with open(os.path.join(top, "local.txt"), "w", encoding="utf-8") as log:
            self.local = subprocess.Popen(
                [os.path.join(BIN, "atoll"), "local", "--config", config, "--dir", self.folder,
                 *options], stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        self.addCleanup(self.end, self.local)

    @staticmethod
    def end(process):
        process.terminate()
        process.wait(timeout=60)

    def status(self):
        done = atoll("run", "show", "--dir", self.folder, "--json")
        return json.loads(done.stdout) if done.returncode == 0 else None

    def peer(self, name):
        peers = (self.status() or {}).get("peers", [])
        return next((one for one in peers if one["member"]["peer"] == name), None)

    def test_readme_from_another_machine(self):
        top = tempfile.mkdtemp(prefix="atoll-e2e-")
        self.addCleanup(shutil.rmtree, top, ignore_errors=True)  # after the processes' ends
        self.start(top, "--listen", f"{HERE}:{PORT}")
        wait_for("version 1", lambda: int((self.status() or {}).get("version", 0)) >= 1, 60)
        for peer in ("peer-1", "peer-2"):
            self.assertTrue(self.peer(peer)["member"]["address"].startswith(f"{HERE}:"))

        handed = os.path.join(top, "anna.token")
        made = atoll("token", "create", "--dir", self.folder, "--peer", "anna", "--out", handed)
        self.assertEqual(0, made.returncode, made.stderr)
        self.assertNotIn("warning", made.stderr)
        self.assertEqual(handed, made.stdout.strip())

        theirs = os.path.join(top, "theirs")
        checked = far(os.path.join(BIN, "atoll"), "check", "--token-file", handed, "--dir", theirs)
        self.assertEqual(0, checked.returncode, checked.stdout + checked.stderr)
        self.assertIn(f"coordinator: {HERE}:{PORT} answers", checked.stdout)
        anna = subprocess.Popen(
            ["ip", "netns", "exec", "far", os.path.join(BIN, "atolld"), "join", "--token-file",
             handed, "--dir", theirs], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            stdin=subprocess.DEVNULL)
        self.addCleanup(anna.kill)
        wait_for("a round with anna", lambda: int(
            (self.peer("anna") or {}).get("rounds_contributed", 0)) >= 1, 60)

        listed = atoll("token", "list", "--dir", self.folder)
        self.assertRegex(listed.stdout, r"peer +anna +spent")
        evicted = atoll("peer", "evict", "anna", "--dir", self.folder)
        self.assertEqual(0, evicted.returncode, evicted.stderr)
        _, said = anna.communicate(timeout=60)
        self.assertEqual(1, anna.returncode, said)
        self.assertIn("evicted", said.splitlines()[-1])
        version = int(self.status()["version"])
        wait_for("rounds without anna", lambda: int(self.status()["version"]) > version + 1, 60)
        self.say_what_it_was(top)

    def test_the_config_says_where_others_find_it(self):
        # Would fail if `atoll local` passed over [coordinator] address and listen, or a second
        # coordinator did not say which key gives it an address that is taken.
        top = tempfile.mkdtemp(prefix="atoll-e2e-")
        self.addCleanup(shutil.rmtree, top, ignore_errors=True)
        self.start(top, extra=f'[coordinator]\naddress = "{HERE}:{PORT}"\n'
                   f'listen = "0.0.0.0:{PORT}"\n')
        token = wait_for("a token", lambda: atoll(
            "token", "create", "--dir", self.folder, "--json").stdout, 60)
        checked = far(os.path.join(BIN, "atoll"), "check", json.loads(token)["token"], "--dir", top)
        self.assertEqual(0, checked.returncode, checked.stdout + checked.stderr)
        self.assertIn(f"coordinator: {HERE}:{PORT} answers", checked.stdout)

        folder = os.path.join(self.folder, "coordinator")
        with open(os.path.join(folder, "config.toml"), encoding="utf-8") as source:
            text = source.read().replace(folder, f"{top}/second")
        with open(os.path.join(top, "second.toml"), "w", encoding="utf-8") as out:
            out.write(text)
        done = subprocess.run([os.path.join(BIN, "atolld"), "coordinator", "--config",
                               f"{top}/second.toml"], capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual(2, done.returncode, done.stderr)
        self.assertIn(f"[coordinator] listen: cannot listen on 0.0.0.0:{PORT}: the address is in "
                      "use", done.stderr)

    def test_a_token_of_a_run_on_loopback_warns(self):
        # Would fail if a token that no other machine can use were made without a word.
        top = tempfile.mkdtemp(prefix="atoll-e2e-")
        self.addCleanup(shutil.rmtree, top, ignore_errors=True)
        self.start(top)
        wait_for("a coordinator", self.status, 60)
        made = atoll("token", "create", "--dir", self.folder)
        self.assertEqual(0, made.returncode, made.stderr)
        self.assertIn("can be dialled from this machine alone", made.stderr)
        self.assertIn("--listen HOST:PORT", made.stderr)
        self.assertTrue(made.stdout.startswith("atoll1-"))
        checked = far(os.path.join(BIN, "atoll"), "check", made.stdout.strip(), "--dir", top)
        self.assertIn("connection refused", checked.stdout)
        self.assertIn("that is this machine itself", checked.stdout)

    def say_what_it_was(self, top):
        """Each failed connection says which of its kinds it was."""
        def show(address, identity):
            done = far(os.path.join(BIN, "atoll"), "run", "show", "--coordinator", address,
                       "--identity", identity)
            self.assertEqual(1, done.returncode, done.stdout)
            return done.stderr
        own = os.path.join(self.folder, "coordinator", "admin")
        other = os.path.join(top, "other")
        done = atoll("identity", "issue", "--dir", f"{top}/elsewhere", "--run", "elsewhere", "--id",
                     "me", "--role", "admin", "--out", other)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("connection refused", show(f"{HERE}:{PORT + 5}", own))
        self.assertIn("unreachable", show("10.99.0.1:7070", own))
        self.assertIn("name not found", show("no-such-name.invalid:7070", own))
        self.assertIn("wrong run: coordinator", show(f"{HERE}:{PORT}", other))


if __name__ == "__main__":
    try:
        if os.geteuid() != 0:
            raise world.Impossible("needs root: it makes network namespaces")
        world.enter()
        make_machines()
    except world.Impossible as reason:
        print(f"skipped: {reason}")
        sys.exit(world.SKIPPED)
    unittest.main()
