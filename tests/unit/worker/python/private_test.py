"""Would fail if a script with private data or virtual parties did not keep the rules of
worker.proto."""

import shutil
import tempfile
import unittest

import packages  # noqa: F401

import numpy as np

import atoll_worker
from atoll.v1 import worker_pb2
from atoll_worker import samples
from fake_daemon import FakeDaemon


class PrivateTest(unittest.TestCase):

    def setUp(self):
        self.w = np.zeros(10, np.float32)
        self.seen = []

    def daemon(self, **fields):
        daemon = FakeDaemon(10)
        daemon.configure.spec.data.private = True
        daemon.configure.spec.inner.steps = 10
        for name, value in fields.items():
            setattr(daemon.configure, name, value)
        return daemon

    def work(self, **more):
        def body(run):
            for one in run.rounds(atoll_worker.Arrays({"w": self.w}), **more):
                for step in one:
                    self.seen.append((one.party, list(step.samples), step.number))
                    self.w -= 1
                    one.report(len(self.seen))
        return body

    def test_a_restart_goes_on_behind_the_last_finished_round(self):
        """Broken: a party would train on the beginning of its data again after each start."""
        folder = tempfile.mkdtemp(prefix="atoll-private-")
        self.addCleanup(shutil.rmtree, folder)
        for wanted in ([0, 1, 2, 3], [4, 5, 6, 7]):
            with self.daemon(state_path=f"{folder}/state") as daemon:
                daemon.start(self.work(samples=5))
                configured = daemon.expect("configured")
                self.assertEqual((b"", 5, 0), (configured.data_digest, configured.samples,
                                               configured.parties))
                daemon.map()
                daemon.train(steps=1)
                boundary = daemon.expect("boundary")
                self.assertEqual(4, boundary.samples)
                self.assertEqual(wanted, self.seen[-1][1])
                daemon.stop()
                self.assertIsNone(daemon.error)

    def test_what_is_trained_instead_of_what_was_shown_is_on_other_data(self):
        """Broken: an update that was in a sum would be trained again, and be in another one."""
        with self.daemon() as daemon:
            daemon.start(self.work(samples=50))
            daemon.expect("configured")
            daemon.map()
            daemon.train(steps=2, again=1)
            daemon.expect("boundary")
            self.assertEqual([[8, 9, 10, 11], [12, 13, 14, 15]],
                             [numbers for _, numbers, _ in self.seen])
            daemon.stop()
            self.assertIsNone(daemon.error)

    def test_a_round_of_passes_ends_with_what_is_left(self):
        """Broken: rounds of whole passes would skip or repeat samples, or leave the schedule."""
        with self.daemon() as daemon:
            daemon.configure.spec.inner.epochs = 2
            daemon.start(self.work(samples=5))
            daemon.expect("configured")
            daemon.map()
            daemon.train(steps=10, first_step=20)
            boundary = daemon.expect("boundary")
            self.assertEqual((3, 10, 1.0, 2.0), (boundary.steps, boundary.samples,
                                                 boundary.first_loss, boundary.loss))
            self.assertEqual([[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]],
                             [numbers for _, numbers, _ in self.seen])
            self.assertEqual([20, 23, 26], [number for _, _, number in self.seen])
            daemon.stop()
            self.assertIsNone(daemon.error)

    def test_parties_have_places_of_their_own(self):
        """Broken: virtual parties would go through each other's data."""
        with self.daemon(parties=2, first_party=3) as daemon:
            daemon.start(self.work(samples=[5, 7]))
            configured = daemon.expect("configured")
            self.assertEqual((12, 4), (configured.samples, configured.parties))
            daemon.map()
            for party in (1, 2, 1):
                daemon.train(steps=1, party=party)
                self.assertEqual(party, daemon.expect("boundary").party)
            daemon.train(version=9, steps=1, party=2, fresh=True)
            daemon.expect("boundary")
            first = 7 * samples.pass_of(5, 4, 9)
            self.assertEqual([(1, [0, 1, 2, 3]), (2, [0, 1, 2, 3]), (1, [4, 5, 6, 7]),
                              (2, list(range(first, first + 4)))],
                             [(party, numbers) for party, numbers, _ in self.seen])
            daemon.stop()
            self.assertIsNone(daemon.error)

    def test_evaluates_what_a_party_holds_out(self):
        """Broken: nobody would see how well the shared model does on a party's own data."""
        def evaluate(party, count):
            self.assertEqual(50.0, float(self.w[0]))
            return 2.0 * party * count
        with self.daemon(parties=2, first_party=1) as daemon:
            daemon.start(self.work(samples=5, evaluate_own=evaluate, own_held_out=[3, 4]))
            self.assertEqual(7, daemon.expect("configured").own_validation_tokens)
            daemon.map()
            daemon.theta[:] = 50
            daemon.send(evaluate=worker_pb2.EvaluateShare(version=1, shares=1, own=True, party=2))
            answer = daemon.expect("evaluated")
            self.assertEqual((True, 2, 4, 16.0, [4.0]),
                             (answer.own, answer.party, answer.tokens, answer.loss_sum,
                              list(answer.own_losses)))
            daemon.stop()
            self.assertIsNone(daemon.error)

    def test_what_a_script_cannot_do_is_said(self):
        """Broken: a rule of the run would be ignored without a word."""
        for setting, wanted in [("control_variates", "kept by atoll-worker alone"),
                                ("epochs", "give run.rounds how many samples=")]:
            with self.daemon() as daemon:
                setattr(daemon.configure.spec.inner, setting, True)
                daemon.start(self.work())
                if setting == "epochs":
                    daemon.expect("configured")
                    daemon.map()
                    daemon.train(steps=1)
                self.assertIn(wanted, daemon.expect("failed").what)
                daemon.join()


if __name__ == "__main__":
    unittest.main(verbosity=2)
