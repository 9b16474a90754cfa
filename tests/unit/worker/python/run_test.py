"""Would fail if a script that uses the Python package did not keep the rules of worker.proto."""

import os
import unittest

import packages  # noqa: F401

import numpy as np

import atoll_worker
from atoll.v1 import run_pb2, worker_pb2
from atoll_worker import memory
from fake_daemon import FakeDaemon

REBASE = worker_pb2.Rebase(version=2)


def evaluation(share, shares, version=1):
    return worker_pb2.EvaluateShare(version=version, share=share, shares=shares)


class RunTest(unittest.TestCase):

    def setUp(self):
        self.w = np.arange(6, dtype=np.float32).reshape(2, 3)
        self.b = np.full(4, 9, np.float32)
        self.parameters = atoll_worker.Arrays({"w": self.w, "b": self.b})

    def test_goes_through_two_rounds(self):
        """Broken: no run would begin, or what a peer learned would not be what it hands over."""
        def work(run):
            self.assertEqual("/some/data", run.data_path)
            for one in run.rounds(self.parameters, data_digest=b"d" * 32, samples_a_pass=100):
                for _ in one:
                    self.w -= 1
                    self.b += 0.5
                    one.report(2.5)
        with FakeDaemon(10) as daemon:
            daemon.start(work)
            configured = daemon.expect("configured")
            self.assertEqual(
                [("w", [2, 3], 0), ("b", [4], 6)],
                [(one.name, list(one.shape), one.offset) for one in configured.manifest.tensors])
            self.assertEqual(10, configured.manifest.elements)
            self.assertEqual(b"d" * 32, configured.data_digest)
            self.assertEqual(100, configured.train_tokens)
            daemon.map()
            daemon.send(write_initial_state=worker_pb2.WriteInitialState())
            daemon.expect("initial_state_written")
            np.testing.assert_array_equal([0, 1, 2, 3, 4, 5, 9, 9, 9, 9], daemon.update)
            for version in (1, 2):
                daemon.theta[:] = 100 * version
                daemon.train(version=version, steps=3)
                boundary = daemon.expect("boundary")
                self.assertEqual((version, 3, 12, 2.5), (boundary.version, boundary.steps,
                                                         boundary.tokens, boundary.loss))
                np.testing.assert_array_equal([3] * 6 + [-1.5] * 4, daemon.update)
            daemon.stop()
            self.assertIsNone(daemon.error)

    def test_maps_the_memory_that_it_was_started_with(self):
        """Broken: a daemon with capabilities, or of another user, hands over no memory."""
        with FakeDaemon(10) as daemon:
            file = os.open(daemon.path, os.O_RDWR)
            about = os.fstat(file)
            request = worker_pb2.MapMemory(path="/proc/1/fd/no-such", elements=10,
                                           update_offset=4096)
            self.addCleanup(os.environ.pop, "ATOLL_MEMORY", None)
            os.environ["ATOLL_MEMORY"] = f"{file}:{about.st_dev}:{about.st_ino}"
            daemon.theta[:] = 5
            np.testing.assert_array_equal([5] * 10, memory.Memory(request, 10).theta())
            for other in (f"{file}:{about.st_dev}:{about.st_ino + 1}", "900:1:2", "3", "x:y:z"):
                os.environ["ATOLL_MEMORY"] = other
                with self.assertRaisesRegex(Exception, "/proc/1/fd/no-such"):
                    memory.Memory(request, 10)
            os.close(file)

    def test_a_rebase_moves_base_and_parameters_alike(self):
        """Broken: a straggler's update would hold what the others have committed meanwhile, or its
        next steps would start from parameters that nobody has."""
        seen = []

        def work(run):
            for one in run.rounds(self.parameters):
                for _ in one:
                    seen.append(float(self.w[0, 0]))
                    self.w -= 1
                    one.report(1)
                    if len(seen) == 1:
                        daemon.theta[:] = 110
                        daemon.send_seen(run, rebase=REBASE)
        with FakeDaemon(10) as daemon:
            daemon.start(work)
            daemon.expect("configured")
            daemon.map()
            daemon.send(rebase=REBASE)  # before any work: there is nothing to move
            daemon.theta[:] = 100
            daemon.train(steps=3)
            daemon.expect("boundary")
            self.assertEqual([100, 109, 108], seen)
            np.testing.assert_array_equal([3] * 6 + [0] * 4, daemon.update)
            daemon.send(rebase=REBASE)  # after the boundary: nothing moves, nothing is answered
            daemon.stop()
            self.assertIsNone(daemon.error)

    def test_a_rebase_that_keeps_the_parameters_moves_the_base_alone(self):
        """Broken: a late update would count again what others have brought in meanwhile."""
        seen = []

        def work(run):
            for one in run.rounds(self.parameters):
                for _ in one:
                    seen.append(float(self.w[0, 0]))
                    self.w -= 1
                    one.report(1)
                    if len(seen) == 1:
                        daemon.theta[:] = 110
                        daemon.send_seen(run, rebase=worker_pb2.Rebase(version=2,
                                                                       keep_parameters=True))
        with FakeDaemon(10) as daemon:
            daemon.start(work)
            daemon.expect("configured")
            daemon.map()
            daemon.theta[:] = 100
            daemon.train(steps=3)
            daemon.expect("boundary")
            self.assertEqual([100, 99, 98], seen)
            np.testing.assert_array_equal([13] * 6 + [10] * 4, daemon.update)
            daemon.stop()
            self.assertIsNone(daemon.error)

    def test_newer_work_replaces_older(self):
        """Broken: a peer that fell behind would go on with steps that nobody waits for."""
        versions = []

        def work(run):
            for one in run.rounds(self.parameters):
                for _ in one:
                    versions.append(one.version)
                    one.report(1)
                    if len(versions) == 1:
                        newer = worker_pb2.TrainSteps(version=7, steps=2)
                        daemon.send_seen(run, train=newer)
        with FakeDaemon(10) as daemon:
            daemon.start(work)
            daemon.expect("configured")
            daemon.map()
            daemon.train(version=1, steps=1000)
            boundary = daemon.expect("boundary")
            self.assertEqual((7, 2), (boundary.version, boundary.steps))
            self.assertEqual([1, 7, 7], versions)
            daemon.stop()
            self.assertIsNone(daemon.error)

    def test_evaluates_theta_and_not_its_own_parameters(self):
        """Broken: the loss shown would be of one peer's parameters, or training would be disturbed
        by being looked at."""
        asked = []

        def evaluate(first, end):
            asked.append((first, end, float(self.b[0])))
            return 2.0 * (end - first)

        def work(run):
            for one in run.rounds(self.parameters, evaluate=evaluate, held_out=10):
                for step in one:
                    self.b += 1
                    one.report(1)
                    if step.number == 0:
                        daemon.theta[:] = 50
                        daemon.send_seen(run, evaluate=evaluation(1, 3))
        with FakeDaemon(10) as daemon:
            daemon.start(work)
            self.assertEqual(10, daemon.expect("configured").validation_tokens)
            daemon.map()
            daemon.train(steps=2)
            answer = daemon.expect("evaluated")
            self.assertEqual((1, 3, 3, 6.0),
                             (answer.share, answer.shares, answer.tokens, answer.loss_sum))
            self.assertEqual([(3, 6, 50)], asked)
            daemon.expect("boundary")
            np.testing.assert_array_equal([0] * 6 + [-2] * 4, daemon.update)
            daemon.stop()
            self.assertIsNone(daemon.error)

    def test_a_round_may_end_early(self):
        """Broken: a script that breaks off a round would count steps that it did not do."""
        def work(run):
            for one in run.rounds(self.parameters):
                for step in one:
                    one.report(step.number)
                    if step.number == 1:
                        break
        with FakeDaemon(10) as daemon:
            daemon.start(work)
            daemon.expect("configured")
            daemon.map()
            daemon.train(steps=9)
            boundary = daemon.expect("boundary")
            self.assertEqual((2, 8, 0.5), (boundary.steps, boundary.tokens, boundary.loss))
            daemon.stop()

    def failure(self, work, then):
        """What the daemon is told of a worker that ends with an error."""
        with FakeDaemon(10) as daemon:
            daemon.start(work)
            then(daemon)
            what = daemon.expect("failed").what
            daemon.join()
            self.assertIsNotNone(daemon.error)
            self.assertNotIn("\n", what)
            return what

    def train_with(self, report):
        def work(run):
            for one in run.rounds(self.parameters):
                for _ in one:
                    report(one)

        def then(daemon):
            daemon.expect("configured")
            daemon.map()
            daemon.train()
        return self.failure(work, then)

    def test_what_cannot_be_done_is_said(self):
        """Broken: a worker that fails would leave its daemon without a reason."""
        def raises(_):
            raise ValueError("two\nlines")
        self.assertEqual("ValueError: two lines", self.train_with(raises))
        self.assertEqual("version 1: step 0: the loss is nan",
                         self.train_with(lambda one: one.report(float("nan"))))
        self.assertIn("reported 0 times", self.train_with(lambda one: None))

        def idle(run):
            for _ in run.rounds(self.parameters):
                pass

        def early(daemon):
            daemon.expect("configured")
            daemon.train()
        self.assertEqual("TrainSteps came before MapMemory", self.failure(idle, early))
        for changes, wanted in [
                ({"elements": 11}, "slots of 11 values; the model has 10"),
                ({"update_offset": 100}, "offset 100 is inside a page"),
                ({"update_offset": 8192}, "a slot of 40 bytes at 8192 ends after the file's 8192"),
                ({"update_offset": 0}, "slots overlap"),
                ({"path": "/no/such"}, "/no/such: No such file or directory")]:
            def wrong(daemon, changes=changes):
                daemon.expect("configured")
                daemon.map(**changes)
            self.assertEqual("shared memory: " + wanted, self.failure(idle, wrong))

    def test_samples_are_those_of_the_lease(self):
        """Broken: two peers would train on the same samples, or one on samples that it lost."""
        seen = []

        def work(run):
            for one in run.rounds(self.parameters):
                for step in one:
                    seen.append(step.samples)
                    self.assertTrue(all(0 <= row < 50 for row in step.rows(50)))
                    one.report(1)
        with FakeDaemon(10) as daemon:
            daemon.start(work)
            daemon.expect("configured")
            daemon.map()
            leased = [run_pb2.SampleRange(first=1000, count=6),
                      run_pb2.SampleRange(first=2000, count=6)]
            daemon.train(steps=3, samples=leased)
            daemon.expect("boundary")
            daemon.train(steps=1, first_step=5)
            daemon.expect("boundary")
            self.assertEqual([[1000, 1001, 1002, 1003], [1004, 1005, 2000, 2001],
                              [2002, 2003, 2004, 2005], [20, 21, 22, 23]], seen)
            daemon.train(steps=4, samples=leased)
            self.assertEqual("the lease has 12 samples; 4 steps of 4 need 16",
                             daemon.expect("failed").what)
            daemon.join()


if __name__ == "__main__":
    unittest.main(verbosity=2)
