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


class Freezing(atoll_worker.Arrays):

    def freeze(self, names):
        self.frozen = names


class FrozenTest(unittest.TestCase):

    def begin(self, daemon, kind=Freezing, during=None):
        """Every step takes 1 from every parameter that is trained."""
        self.arrays = {"a": np.zeros((2, 2), np.float32), "b": np.zeros(6, np.float32)}

        def work(run):
            parameters = kind(self.arrays)
            for one in run.rounds(parameters):
                for number, _ in enumerate(one):
                    self.assertEqual(list(one.frozen), list(getattr(parameters, "frozen", [])))
                    for name, array in self.arrays.items():
                        array -= name not in one.frozen
                    one.report(1)
                    if during is not None and number == 0:
                        during(run)
        daemon.start(work)
        daemon.expect("configured")
        daemon.map()

    @staticmethod
    def range(first, count):
        return worker_pb2.ValueRange(first=first, count=count)

    def test_what_is_frozen_is_thetas_and_has_no_update(self):
        """Broken: a peer would train and move experts that are not its own; or they would stay
        behind when theta moves; or they would stay frozen for ever."""
        def move(run):
            if self.moving is None:
                return
            daemon.theta[:] = 200.3
            daemon.send_seen(run, rebase=worker_pb2.Rebase(version=1, keep_parameters=self.moving))
        with FakeDaemon(10, guess=True) as daemon:
            self.moving = None
            self.begin(daemon, during=move)
            for keep, others in [(None, [3] * 6), (False, [3] * 6), (True, [103.3] * 6)]:
                self.moving = keep
                daemon.theta[:] = 100
                daemon.train(version=1, steps=3, frozen=[self.range(0, 4)])
                daemon.expect("boundary")
                self.assertEqual([0] * 4, list(daemon.update[:4]))
                np.testing.assert_allclose(daemon.update[4:], others, rtol=1e-5)
                self.assertEqual([daemon.theta[0]] * 4, self.arrays["a"].ravel().tolist())
            self.moving = None
            daemon.theta[:], daemon.guess[:] = 100, 50
            daemon.train(version=2, steps=3, frozen=[self.range(4, 6)], start="guess")
            daemon.expect("boundary")
            self.assertEqual([3] * 4 + [0] * 6, list(daemon.update))
            self.assertEqual([100] * 6, list(self.arrays["b"]))
            daemon.theta[:] = 300
            daemon.train(version=3, steps=1, frozen=[self.range(4, 6)], start="own")
            daemon.expect("boundary")
            self.assertEqual([4] * 4 + [0] * 6, list(daemon.update))
            self.assertEqual([300] * 6, list(self.arrays["b"]))
            daemon.train(version=4, steps=3)
            daemon.expect("boundary")
            self.assertEqual([3] * 10, list(daemon.update))
            daemon.stop()
            self.assertIsNone(daemon.error)

    def test_what_cannot_be_frozen_is_said(self):
        """Broken: half a tensor would be trained, or a script that knows nothing of experts would
        train those of others."""
        for frozen, kind, wanted in [
                ([self.range(0, 3)], Freezing, "has 3 values, of which 0 are in whole tensors"),
                ([self.range(4, 6), self.range(0, 4)], Freezing, "must be ascending and disjoint"),
                ([self.range(4, 7)], Freezing, "has 7 values, of which 6 are in whole tensors"),
                ([self.range(0, 10)], Freezing, "has every tensor of the model"),
                ([self.range(0, 4)], atoll_worker.Arrays, "(Arrays) have no freeze()")]:
            with FakeDaemon(10) as daemon:
                self.begin(daemon, kind)
                daemon.train(version=1, steps=1, frozen=frozen)
                self.assertIn(wanted, daemon.expect("failed").what)
                daemon.join()
        with FakeDaemon(10) as daemon:
            daemon.configure.spec.experts.tensors.append("#")
            daemon.start(lambda run: next(run.rounds(atoll_worker.Arrays({"a": np.zeros(
                10, np.float32)}))))
            self.assertIn("have no freeze()", daemon.expect("failed").what)
            daemon.join()


if __name__ == "__main__":
    unittest.main(verbosity=2)
