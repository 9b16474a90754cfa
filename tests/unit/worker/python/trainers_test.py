"""Would fail if a trainer of another library could not take part in a run by its callback.

The libraries are imitated: what is tested is what the callbacks do when those call them.
"""

import sys
import types
import unittest

import packages  # noqa: F401

import numpy as np

import atoll_worker
from fake_daemon import FakeDaemon


class Made:
    """A module of the library that a callback is derived of."""

    def __init__(self, path, **names):
        self._path = path
        parts = path.split(".")
        for end in range(1, len(parts) + 1):
            sys.modules[".".join(parts[:end])] = types.ModuleType(".".join(parts[:end]))
        vars(sys.modules[path]).update(names)
        sys.modules.pop("atoll_worker.callbacks", None)

    def remove(self):
        for name in list(sys.modules):
            if name.split(".")[0] == self._path.split(".")[0] or name == "atoll_worker.callbacks":
                del sys.modules[name]


class Base:
    """Of the library: knows all that may be called."""


class FakeModel:
    """As much of torch.nn.Module as the callback touches."""

    training = True

    def register_forward_hook(self, hook, with_kwargs):
        assert with_kwargs
        self.hook = hook
        return types.SimpleNamespace(remove=lambda: setattr(self, "hook", None))


class TrainersTest(unittest.TestCase):

    def setUp(self):
        self.w = np.zeros(10, np.float32)
        self.parameters = atoll_worker.Arrays({"w": self.w})

    def rounds(self, work, losses, wanted):
        """Two rounds of three steps; `losses` per step, and what the boundary must say."""
        with FakeDaemon(10) as daemon:
            daemon.start(work)
            daemon.expect("configured")
            daemon.map()
            for version in (1, 2):
                daemon.theta[:] = 10 * version
                daemon.train(version=version, steps=3)
                boundary = daemon.expect("boundary")
                self.assertEqual((version, 3, 12), (boundary.version, boundary.steps,
                                                    boundary.tokens))
                self.assertAlmostEqual(wanted, boundary.loss)
                np.testing.assert_array_equal([3] * 10, daemon.update)
            daemon.stop()
            self.assertIsNone(daemon.error)
        self.assertEqual([], losses)

    def test_a_loop_of_ones_own_says_when_a_step_is_done(self):
        """Broken: a loop that cannot be turned inside out could not take part."""
        losses = [1.0, 2.0, 3.0] * 2

        def work(run):
            steps = atoll_worker.Steps(run.rounds(self.parameters))
            while not steps.ended:
                self.w -= 1
                steps.done(losses.pop(0))
            self.assertFalse(steps.done(1.0))
        self.rounds(work, losses, 2.0)

    def train(self, callback, model, losses, given):
        """As transformers.Trainer: two batches a step."""
        control = types.SimpleNamespace(should_training_stop=False)
        arguments = types.SimpleNamespace(world_size=1)
        callback.on_train_begin(arguments, None, control, model=model)
        while not control.should_training_stop:
            for _ in range(2):
                model.hook(model, (), given, {"loss": losses.pop(0)})
            model.training = False
            model.hook(model, (), given, {"loss": 1e9})  # of an evaluation
            model.training = True
            self.w -= 1
            callback.on_step_end(arguments, None, control)
        callback.on_train_end(arguments, None, control)
        self.assertIsNone(model.hook)

    def test_the_trainer_of_transformers_stops_with_the_run(self):
        """Broken: Trainer would train on other parameters than the run's, or go on without it; or
        the run would be told the wrong loss where gradients are accumulated."""
        library = Made("transformers", TrainerCallback=Base)
        self.addCleanup(library.remove)
        from atoll_worker.callbacks import AtollCallback
        self.assertTrue(issubclass(AtollCallback, Base))
        for given, wanted in ({}, 2.0), ({"num_items_in_batch": 8}, 4.0):
            losses = [1.0, 3.0] * 6
            self.rounds(lambda run: self.train(AtollCallback(run, self.parameters), FakeModel(),
                                               losses, given), losses, wanted)

    def test_a_model_that_tells_no_loss_is_named(self):
        """Broken: the run would be told a loss that nobody has computed."""
        from atoll_worker.callbacks import AtollCallback

        def work(run):
            callback = AtollCallback(run, self.parameters)
            control = types.SimpleNamespace(should_training_stop=False)
            arguments = types.SimpleNamespace(world_size=1)
            callback.on_train_begin(arguments, None, control, model=FakeModel())
            callback.on_step_end(arguments, None, control)
        with FakeDaemon(10) as daemon:
            daemon.start(work)
            daemon.expect("configured")
            daemon.map()
            daemon.train(steps=3)
            self.assertIn("the model told no loss", daemon.expect("failed").what)
            daemon.join()

    def test_several_devices_are_refused(self):
        """Broken: each process of a trainer would be a peer, with one name and one memory."""
        from atoll_worker.callbacks import AtollCallback, LightningCallback
        with self.assertRaisesRegex(atoll_worker.WorkerFailure, "2 devices; a peer is one"):
            AtollCallback(None, self.parameters).on_train_begin(
                types.SimpleNamespace(world_size=2), None, None)
        with self.assertRaisesRegex(atoll_worker.WorkerFailure, "2 devices; a peer is one"):
            LightningCallback(None, self.parameters).on_train_start(
                types.SimpleNamespace(world_size=2), None)

    def test_the_trainer_of_lightning_stops_with_the_run(self):
        """Broken: a batch whose gradient is only added up would count as a step."""
        library = Made("lightning.pytorch.callbacks", Callback=Base)
        self.addCleanup(library.remove)
        from atoll_worker.callbacks import LightningCallback
        self.assertTrue(issubclass(LightningCallback, Base))
        losses = [1.0, 3.0] * 6

        def work(run):
            callback = LightningCallback(run, self.parameters)
            trainer = types.SimpleNamespace(world_size=1, global_step=0, should_stop=False)
            callback.on_train_start(trainer, None)
            while not trainer.should_stop:
                callback.on_train_batch_end(trainer, None, {"loss": losses.pop(0)}, None, 0)
                self.w -= 1
                trainer.global_step += 1
                callback.on_train_batch_end(trainer, None, losses.pop(0), None, 1)
        self.rounds(work, losses, 2.0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
