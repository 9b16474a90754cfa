"""Would fail if the parts of the Python package that need no daemon were wrong."""

import sys
import unittest

import packages  # noqa: F401

import numpy as np

import atoll_worker
from atoll_worker import samples
from atoll_worker.run import arguments

try:
    import jax
except ImportError:
    jax = None
try:
    import torch
except ImportError:
    torch = None


class PartsTest(unittest.TestCase):

    def test_a_pass_uses_every_row_once(self):
        """Broken: some samples would never be trained on, or peers would not agree on the order."""
        order, same = samples.Order(3, 100), samples.Order(3, 100)
        first = [order.row(i) for i in range(100)]
        second = [order.row(i) for i in range(100, 200)]
        self.assertEqual(list(range(100)), sorted(first))
        self.assertEqual(list(range(100)), sorted(second))
        self.assertNotEqual(first, second)
        self.assertEqual(first, [same.row(i) for i in range(100)])
        self.assertNotEqual(first, [samples.Order(4, 100).row(i) for i in range(100)])

    def test_shares_tile_what_is_held_out(self):
        """Broken: a part of the evaluation would be counted twice or never."""
        for shares in (1, 3, 7, 20):
            parts = [samples.share_of(10, i, shares) for i in range(shares)]
            self.assertEqual(list(range(10)), [i for a, b in parts for i in range(a, b)])
        with self.assertRaises(atoll_worker.WorkerFailure):
            samples.share_of(10, 3, 3)

    def test_a_script_takes_what_the_daemon_starts_it_with(self):
        """Broken: a script would end at once where [worker] device names one."""
        before = sys.argv
        self.addCleanup(setattr, sys, "argv", before)
        for words, wanted in ((["--socket", "unix:/s"], "auto"),
                              (["--socket", "unix:/s", "--device", "cuda:1"], "cuda:1")):
            sys.argv = ["train.py", *words]
            options, device = arguments()
            self.assertEqual(("unix:/s", wanted), (options["--socket"], device))
        for words in ([], ["--device", "cpu"], ["--socket"], ["--socket", "s", "--more", "x"]):
            sys.argv = ["train.py", *words]
            with self.assertRaisesRegex(SystemExit, "usage: train.py --socket"):
                arguments()

    def test_only_fp32_is_taken(self):
        """Broken: parameters would be rounded on their way, and replicas would differ."""
        with self.assertRaisesRegex(atoll_worker.WorkerFailure, "w is of float64"):
            atoll_worker.Arrays({"w": np.zeros(3)})

    @unittest.skipIf(torch is None, "python3-torch is not installed")
    def test_a_torch_model_goes_out_and_in(self):
        """Broken: a PyTorch model would train on, or hand over, other parameters than the run's."""
        from atoll_worker.torch import attach
        model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
        model[1].weight.requires_grad_(False)
        parameters = attach(model)
        self.assertEqual([("0.weight", (2, 3)), ("0.bias", (2,)), ("1.bias", (2,))],
                         parameters.shapes())
        flat = np.arange(10, dtype=np.float32)
        optimizer = torch.optim.SGD([model[0].weight], lr=1)
        parameters.write(flat)
        flat[:] = 0
        self.assertEqual([[0, 1, 2], [3, 4, 5]], model[0].weight.tolist())
        model[0].weight.sum().backward()
        optimizer.step()  # the optimiser still holds the same tensors
        parameters.read(flat)
        self.assertEqual([-1, 0, 1, 2, 3, 4, 6, 7, 8, 9], flat.tolist())
        with self.assertRaisesRegex(atoll_worker.WorkerFailure, "weight is of torch.float16"):
            attach(torch.nn.Linear(3, 2).half())

    @unittest.skipIf(torch is None, "python3-torch is not installed")
    def test_what_is_frozen_does_not_move(self):
        """Broken: an optimiser would move experts of other peers, by weight decay or old moments;
        or they would never be trained again."""
        from atoll_worker.torch import attach
        model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 2))
        parameters, kept = attach(model), model[0].weight.detach().clone()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5)

        def step():
            model(torch.ones(4, 3)).sum().backward()
            optimizer.step()
        for names, moves in [([], True), (["0.weight"], False), ([], True)]:
            parameters.freeze(names)
            before, other = model[0].weight.detach().clone(), model[0].bias.detach().clone()
            step()
            self.assertEqual(moves, not torch.equal(before, model[0].weight))
            self.assertFalse(torch.equal(other, model[0].bias))
        self.assertFalse(torch.equal(kept, model[0].weight))

    @unittest.skipIf(jax is None, "jax is not installed; Debian has no package of it")
    def test_a_tree_of_jax_goes_out_and_in(self):
        """Broken: JAX parameters would train on, or hand over, other values than the run's."""
        from atoll_worker.jax import Tree
        tree = Tree({"w": jax.numpy.zeros((2, 3)), "b": [jax.numpy.ones(4)]})
        self.assertEqual([("['b'][0]", (4,)), ("['w']", (2, 3))], tree.shapes())
        flat = np.arange(10, dtype=np.float32)
        tree.write(flat)
        flat[:] = 0
        self.assertEqual([[4, 5, 6], [7, 8, 9]], tree.value["w"].tolist())
        tree.read(flat)
        self.assertEqual(list(range(10)), flat.tolist())
        with self.assertRaisesRegex(atoll_worker.WorkerFailure, "is of int32"):
            Tree([jax.numpy.zeros(3, "int32")])


if __name__ == "__main__":
    unittest.main(verbosity=2)
