"""Would fail if a script would not train on while an entry is on its way, or not take it in as
worker.proto says of TrainSteps.start and Merge."""

import struct
import unittest

import packages  # noqa: F401

import numpy as np

import atoll_worker
from atoll.v1 import worker_pb2
from fake_daemon import FakeDaemon


def bits(value):
    return struct.unpack("<I", struct.pack("<f", value))[0]


def merge(version, own_share=0.5, **more):
    return worker_pb2.Merge(version=version, own_share_bits=bits(own_share), **more)


class ModesTest(unittest.TestCase):

    def setUp(self):
        self.w = np.zeros(10, np.float32)
        self.during = {}  # (version, step): what happens in that step

    def work(self, run):
        """Every step takes 1 from every parameter."""
        for one in run.rounds(atoll_worker.Arrays({"w": self.w}), held_out=4,
                              evaluate=lambda first, end: float(self.w[0]) * (end - first)):
            for number, _ in enumerate(one):
                self.w -= 1
                one.report(1)
                then = self.during.get((one.version, number))
                if then is not None and then(run) == "break":
                    break

    def begin(self, daemon):
        daemon.start(self.work)
        daemon.expect("configured")
        daemon.map()

    def round(self, daemon, theta=None, **train):
        if theta is not None:
            daemon.theta[:] = theta
        daemon.train(**train)
        return daemon.expect("boundary")

    def expect_waiting(self, daemon, step):
        """Tells of that step again and again, and that it has waited longer each time."""
        told = [0.0]
        while len(told) < 3:
            progress = daemon.expect("progress")
            if progress.waited_seconds > told[-1]:
                self.assertEqual(step, progress.step)
                told.append(progress.waited_seconds)

    def test_goes_on_from_its_own_parameters(self):
        """Broken: what a peer learned while an entry was on its way would be lost, or handed over
        twice; or a look at theta would take the place of its own parameters."""
        with FakeDaemon(10) as daemon:
            self.begin(daemon)
            self.round(daemon, 100, version=1, steps=3, start="own")  # a new worker: from theta
            np.testing.assert_array_equal([3] * 10, daemon.update)
            daemon.theta[:] = 200
            daemon.send(evaluate=worker_pb2.EvaluateShare(version=1, shares=1))
            self.assertEqual(800, daemon.expect("evaluated").loss_sum)
            self.round(daemon, version=2, steps=2, start="own")
            np.testing.assert_array_equal([5] * 10, daemon.update)
            self.round(daemon, version=3, steps=2)
            np.testing.assert_array_equal([2] * 10, daemon.update)
            daemon.stop()
            self.assertIsNone(daemon.error)

    def test_starts_from_the_guess(self):
        """Broken: a run in mode eager would train from the state before, as a delayed one does."""
        with FakeDaemon(10, guess=True) as daemon:
            self.begin(daemon)
            daemon.guess[:] = 50
            self.round(daemon, 100, version=1, steps=3, start="guess")
            np.testing.assert_array_equal([3] * 10, daemon.update)
            self.assertEqual([47] * 10, list(self.w))
            daemon.stop()
            self.assertIsNone(daemon.error)

    def test_waits_for_its_merge_and_says_so(self):
        """Broken: a peer would hand over an update that still holds the one before; or its daemon
        would take it for hung; or nobody would see that it waits."""
        with FakeDaemon(10) as daemon:
            self.begin(daemon)
            self.round(daemon, 100, version=1, steps=3)
            daemon.train(version=2, steps=4, start="own", merge_after=2, merge_version=1)
            self.expect_waiting(daemon, 2)
            daemon.theta[:] = 200
            daemon.send(merge=merge(1))
            boundary = daemon.expect("boundary")
            self.assertEqual(4, boundary.steps)
            self.assertGreater(boundary.waited_seconds, 0.25)
            self.assertLess(boundary.seconds, boundary.waited_seconds)
            # 95 when it is merged, (95 + 200) / 2 then, and two steps more
            np.testing.assert_array_equal([200 - 145.5] * 10, daemon.update)
            daemon.stop()
            self.assertIsNone(daemon.error)

    def test_an_early_merge_waits_for_its_step(self):
        """Broken: peers would merge after as many steps as the network takes, each another way."""
        def early(run):
            daemon.theta[:] = 200
            ranges = [worker_pb2.ValueRange(first=2, count=3)]
            daemon.send_seen(run, merge=merge(1, ranges=ranges))
        with FakeDaemon(10) as daemon:
            self.begin(daemon)
            self.during = {(2, 0): early}
            self.round(daemon, 100, version=1, steps=3)
            boundary = self.round(daemon, version=2, steps=4, start="own", merge_after=2,
                                  merge_version=1)
            self.assertLess(boundary.waited_seconds, 0.25)
            np.testing.assert_array_equal([7, 7] + [54.5] * 3 + [7] * 5, daemon.update)
            daemon.stop()
            self.assertIsNone(daemon.error)

    def test_a_merge_without_a_training_is_done_at_once(self):
        """Broken: the next update would hold what the others have committed."""
        with FakeDaemon(10) as daemon:
            self.begin(daemon)
            daemon.send(merge=merge(1))  # there is nothing yet to merge into
            self.round(daemon, 100, version=1, steps=3)
            daemon.theta[:] = 110
            daemon.send(merge=merge(1, rebase=True))
            # It is done, and so it is not waited for.
            self.round(daemon, version=2, steps=2, start="own", merge_after=1, merge_version=1)
            np.testing.assert_array_equal([5] * 10, daemon.update)
            self.assertEqual([105] * 10, list(self.w))
            daemon.stop()
            self.assertIsNone(daemon.error)

    def test_a_round_that_ends_early_merges_before(self):
        """Broken: a script that breaks off a round would hand over the update before once more."""
        with FakeDaemon(10) as daemon:
            self.begin(daemon)
            self.during = {(2, 1): lambda _: "break"}
            self.round(daemon, 100, version=1, steps=3)
            daemon.train(version=2, steps=9, start="own", merge_after=5, merge_version=1)
            self.expect_waiting(daemon, 2)
            daemon.theta[:] = 200
            daemon.send(merge=merge(1, own_share=0))
            self.assertEqual(2, daemon.expect("boundary").steps)
            np.testing.assert_array_equal([0] * 10, daemon.update)
            daemon.stop()
            self.assertIsNone(daemon.error)

    def test_newer_work_ends_the_wait(self):
        """Broken: a peer whose entry never comes would wait for ever."""
        with FakeDaemon(10) as daemon:
            self.begin(daemon)
            daemon.theta[:] = 100
            daemon.train(version=2, steps=4, merge_after=1, merge_version=1)
            self.expect_waiting(daemon, 1)
            boundary = self.round(daemon, 300, version=5, steps=2)
            self.assertEqual((5, 2, 0), (boundary.version, boundary.steps,
                                         boundary.waited_seconds))
            np.testing.assert_array_equal([2] * 10, daemon.update)
            daemon.train(version=6, steps=4, merge_after=0, merge_version=9)
            self.expect_waiting(daemon, 0)
            daemon.stop()  # so does the end
            self.assertIsNone(daemon.error)

    def failure(self, guess=False, mapped=None, **train):
        with FakeDaemon(10, guess=guess) as daemon:
            daemon.start(self.work)
            daemon.expect("configured")
            daemon.map(**(mapped or {}))
            if train:
                daemon.train(**train)
            what = daemon.expect("failed").what
            daemon.join()
            return what

    def test_what_cannot_be_done_is_said(self):
        """Broken: a worker would train from somewhere else than it is told, and say nothing."""
        self.assertEqual("TrainSteps.start is 'guess', and MapMemory named no slot for it",
                         self.failure(start="guess"))
        self.assertIn("TrainSteps.start is 'base'; this worker knows", self.failure(start="base"))
        self.assertIn("virtual parties", self.failure(start="own", party=1))
        self.assertEqual("shared memory: slots overlap",
                         self.failure(guess=True, mapped={"guess_offset": 4096}))
        for wanted, wrong in [
                ("own_share is 2.0; it is 0 to 1", merge(1, own_share=2)),
                ("4 values from 8 on; the model has 10",
                 merge(1, ranges=[worker_pb2.ValueRange(first=8, count=4)]))]:
            with FakeDaemon(10) as daemon:
                self.begin(daemon)
                self.round(daemon, 100, version=1, steps=1)
                daemon.send(merge=wrong)
                self.assertEqual("Merge of version 1: " + wanted, daemon.expect("failed").what)
                daemon.join()


if __name__ == "__main__":
    unittest.main(verbosity=2)
