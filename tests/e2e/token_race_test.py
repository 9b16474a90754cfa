"""Would fail if a token let two machines in, or none, when its coordinator dies in the middle; or
if two machines with one copied folder ended each other and nobody were told why.
"""

import os
import random
import shutil
import signal
import time
import unittest

from cluster import token_file, wait_for
from lone_coordinator import LoneCoordinator


class RaceTest(LoneCoordinator):
    """It is killed while two machines join with one token."""

    def race(self, number, coordinator, rng):
        """Returns the coordinator's next life, and whether it died with an answer on its way."""
        peer = f"late-{number}"
        token = wait_for("a token", lambda: self.order("token", "create", "--peer", peer))["token"]
        folders = [os.path.join(self.top, f"{peer}-{name}") for name in "ab"]
        racers = {folder: self.start(folder + ".log", "join", "--token-file",
                                     token_file(folder + ".token", token), "--dir", folder)
                  for folder in folders}

        def joined(folder):
            return os.path.exists(os.path.join(folder, "identity", "certificate.pem"))
        heard = f"peer {peer} enrols with token"
        if number % 2 == 0:  # at any instant
            end = time.monotonic() + rng.uniform(0, 0.4)
            while time.monotonic() < end:
                pass
        else:  # at the instant in which one of them is heard
            end = time.monotonic() + 20
            while heard not in self.log() and time.monotonic() < end:
                pass
        coordinator.send_signal(signal.SIGKILL)
        coordinator.wait()
        lost = heard in self.log() and not any(joined(folder) for folder in folders)
        coordinator = self.start_coordinator()
        loser = wait_for("one of them is refused", lambda: next(
            (folder for folder, racer in racers.items() if racer.poll() is not None), None))
        winner = next(folder for folder in folders if folder != loser)
        self.assertEqual(1, racers[loser].poll(), self.text(loser + ".log"))
        self.assertIn("the token is spent", self.text(loser + ".log"))
        wait_for("the other has joined", lambda: joined(winner))
        self.assertFalse(joined(loser))
        self.assertIsNone(racers[winner].poll(), self.text(winner + ".log"))
        states = {one["peer"]: one["state"] for one in self.order("token", "list")}
        self.assertEqual("spent", states[peer])
        racers[winner].kill()
        racers[winner].wait()
        return coordinator, lost

    def test_one_of_two_wins_whenever_the_coordinator_dies(self):
        seed = int(os.environ.get("ATOLL_TEST_SEED", random.randrange(1 << 30)))
        print(f"ATOLL_TEST_SEED={seed}")
        rng = random.Random(seed)
        coordinator = self.start_coordinator()
        lost = 0
        for number in range(10):
            coordinator, died_with_it = self.race(number, coordinator, rng)
            lost += died_with_it
        print(f"{lost} of 10 coordinators died before the answer had come")


class CopiedFolderTest(LoneCoordinator):
    """One peer's folder is used on two machines."""

    def test_the_later_one_stays_and_all_are_told(self):
        self.start_coordinator()
        token = self.order("token", "create", "--peer", "twice")["token"]
        handed = token_file(os.path.join(self.top, "token"), token)
        folders = [os.path.join(self.top, name) for name in "ab"]
        logs = [folder + ".log" for folder in folders]

        def start(which):
            joined = self.log().count("peer twice joined")
            process = self.start(logs[which], "join", "--token-file", handed, "--dir",
                                 folders[which])
            wait_for("it has joined", lambda: self.log().count("peer twice joined") > joined)
            return process
        first = start(0)
        first.kill()
        first.wait()
        shutil.copytree(folders[0], folders[1], symlinks=True,
                        ignore=shutil.ignore_patterns("*.sock", "lock"))
        running = start(0)
        for turn, which in enumerate((1, 0), start=1):
            following = start(which)
            self.assertEqual(1, running.wait(timeout=30), self.text(logs[1 - which]))
            self.assertIn("another process (pid ", self.text(logs[1 - which]))
            self.assertIsNone(following.poll())
            self.assertIn("give each machine a token of its own", self.text(logs[which]))
            self.assertIn("has a folder that was copied or put back from a backup", self.log())
            self.assertEqual(turn == 2, "its key is used by two processes in turn" in self.log())
            running = following
        listed = next(one for one in self.order("peer", "list") if one["member"]["peer"] == "twice")
        self.assertIn("its key is used by two processes in turn", str(listed))


if __name__ == "__main__":
    unittest.main(verbosity=2)
