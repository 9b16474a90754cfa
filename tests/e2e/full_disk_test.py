"""Would fail if an order that could not be stored were answered with anything but the error, if it
took effect when the disk has room again, or if whoever gave it had to wait for the disk: orders of
the operator, with the coordinator's disk full, and orders of a machine's owner with that one full.

Each has a folder in a small tmpfs, in a mount namespace of this test's own: that takes root.
"""

import ctypes
import json
import os
import subprocess
import sys
import time
import unittest

from cluster import STORE, atoll, token_file, wait_for
from lone_coordinator import LoneCoordinator

NEW_MOUNTS = 0x00020000  # CLONE_NEWNS


def own_mounts():
    """False: this process may not have mounts of its own."""
    if os.geteuid() != 0 or ctypes.CDLL(None, use_errno=True).unshare(NEW_MOUNTS) != 0:
        return False
    return subprocess.run(["mount", "--make-rprivate", "/"], check=False).returncode == 0


class SmallDisk:
    """A folder with little room."""

    def __init__(self, folder, megabytes):
        self.folder = folder
        self.filler = os.path.join(folder, "filler")
        os.makedirs(folder)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", folder],
                       check=True)

    def fill(self):
        with open(self.filler, "ab", buffering=0) as out:
            for size in (1 << 16, 1 << 12, 1):
                try:
                    while out.write(b"x" * size) == size:
                        pass
                except OSError:
                    pass

    def empty(self):
        os.remove(self.filler)

    def close(self):
        subprocess.run(["umount", "-l", self.folder], check=False)


class FullDiskTest(LoneCoordinator):
    def setUp(self):
        super().setUp()
        self.disks = []

    def tearDown(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        for disk in self.disks:
            disk.close()
        super().tearDown()

    def disk(self, folder, megabytes):
        self.disks.append(SmallDisk(folder, megabytes))
        return self.disks[-1]

    def operator(self, *words):
        """The order's exit code, what it said of an error, and how long it took."""
        began = time.monotonic()
        done = atoll(*words, "--coordinator", self.address, "--identity",
                     os.path.join(self.dir, "admin"), "--json")
        self.assertLess(time.monotonic() - began, 15, words)
        return done.returncode, done.stderr

    def shown(self, *words):
        return self.order(*words) or {}

    def test_orders_of_the_operator(self):
        disk = self.disk(self.dir, 8)
        self.start_coordinator()
        made = 0
        disk.fill()
        # What the log of the store has room for is kept, and said so.
        for _ in range(20):
            code, said = self.operator("token", "create")
            if code != 0:
                break
            made += 1
        self.assertEqual(code, 1, said)
        for part in ("nothing has changed", "disk"):
            self.assertIn(part, said)
        for words in (("token", "create"), ("run", "pause"), ("run", "stop")):
            code, said = self.operator(*words)
            self.assertEqual(code, 1, words)
            self.assertIn("nothing has changed", said)
        self.assertFalse(self.shown("run", "show")["paused"])
        disk.empty()
        code, said = self.operator("token", "create")
        self.assertEqual(code, 0, said)
        self.assertFalse(self.shown("run", "show")["paused"])
        self.assertEqual(len(self.order("token", "list")), made + 1)
        self.assertEqual(self.operator("run", "pause")[0], 0)
        self.assertTrue(self.shown("run", "show")["paused"])

    def test_orders_of_a_machines_owner(self):
        self.start_coordinator()
        token = self.shown("token", "create")["token"]
        path = token_file(os.path.join(self.top, "token"), token)
        folder = os.path.join(self.top, "machine", "peer")
        disk = self.disk(os.path.dirname(folder), 64)
        log = os.path.join(self.top, "peer.log")
        self.start(log, "join", "--token-file", path, "--dir", folder)

        def owner(*words):
            return atoll(*words, "--dir", folder, "--json")

        def status():
            done = owner("status")
            return json.loads(done.stdout) if done.returncode == 0 else None
        wait_for("the peer runs", status)
        disk.fill()
        for words in (("pause",), ("limits", "set", "up_cap=1Mbit"), ("finish",)):
            done = owner(*words)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("nothing has changed", done.stderr)
        disk.empty()
        self.assertFalse(status()["paused"])
        self.assertEqual(owner("pause").returncode, 0)
        self.assertTrue(status()["paused"])


if __name__ == "__main__":
    if STORE != "sqlite" or not own_mounts():
        print("skipped: a small disk of its own takes root, and a store that lies on it")
        sys.exit(77)
    unittest.main(verbosity=2)
