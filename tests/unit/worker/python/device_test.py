"""Would fail if a worker with PyTorch trained elsewhere than [worker] device says, or on a device
that cannot do what the run asks.

No Mac is needed, and no PyTorch: torch is an object that answers as PyTorch does where it is said
to run. What PyTorch itself computes on Apple's GPUs is not tested anywhere.
"""

import contextlib
import unittest
import warnings
from types import SimpleNamespace

import packages  # noqa: F401

from atoll_worker import WorkerFailure
from atoll_worker.device import check_devices, check_precision, device_of, memory_note


def a_torch(cuda=False, built=False, mps=False, version="2.15.0"):
    """What a worker asks of PyTorch on a machine with these devices."""
    return SimpleNamespace(
        __version__=version, bfloat16="bfloat16",
        cuda=SimpleNamespace(is_available=lambda: cuda),
        backends=SimpleNamespace(mps=SimpleNamespace(is_built=lambda: built,
                                                     is_available=lambda: mps)))


MAC = {"built": True, "mps": True}


class DeviceTest(unittest.TestCase):

    def refused(self, *arguments, of=device_of):
        with self.assertRaises(WorkerFailure) as raised:
            of(*arguments)
        return str(raised.exception)

    def test_auto_takes_the_fastest_device(self):
        """Broken: a Mac would train on its CPU, or a machine with CUDA on anything else."""
        for there, wanted in (({}, "cpu"), ({"cuda": True}, "cuda"), (MAC, "mps"),
                              ({"cuda": True, **MAC}, "cuda"), ({"built": True}, "cpu")):
            self.assertEqual(wanted, device_of(a_torch(**there), "auto"), there)

    def test_what_is_named_is_taken(self):
        """Broken: [worker] device would be a hint."""
        for named in ("mps", "cpu"):
            self.assertEqual(named, device_of(a_torch(**MAC), named))
        for named in ("cuda", "cuda:1", "cpu"):
            self.assertEqual(named, device_of(a_torch(cuda=True), named))

    def test_a_device_that_is_not_there_is_refused(self):
        """Broken: the reason would be one of PyTorch's, from the middle of a model."""
        self.assertEqual("[worker] device 'mps': this PyTorch (2.15.0) is built without Metal, "
                         "which only PyTorch for macOS has; 'auto' and 'cpu' train without",
                         self.refused(a_torch(), "mps"))
        self.assertIn("finds no GPU of Apple's", self.refused(a_torch(built=True), "mps"))
        self.assertIn("'cuda:1': this PyTorch (2.15.0) sees no GPU",
                      self.refused(a_torch(**MAC), "cuda:1"))

    def test_a_pytorch_from_before_metal_is_one_without(self):
        """Broken: its workers would end with an AttributeError."""
        old = a_torch()
        del old.backends.mps
        self.assertEqual("cpu", device_of(old, "auto"))
        self.assertIn("is built without Metal", self.refused(old, "mps"))

    def test_it_is_one_device(self):
        """Broken: helpers would wait for gradients that gloo cannot send."""
        check_devices("mps", ["mps"], 1)
        check_devices("cpu,cpu", ["cpu", "cpu"], 2)
        self.assertIn("[worker] device 'auto' is 'mps' here, and 2 processes are to train together",
                      self.refused("auto", ["mps"], 2, of=check_devices))
        self.refused("mps,cpu", ["mps", "cpu"], 2, of=check_devices)


class PrecisionTest(unittest.TestCase):
    """PyTorch refuses an autocast that it does not have, or switches it off with a warning."""

    def with_autocast(self, enter):
        torch = a_torch(**MAC)
        self.entered = []

        @contextlib.contextmanager
        def autocast(device, dtype):
            self.entered.append((device, dtype))
            torch.is_autocast_enabled = lambda kind: enter(device, dtype)
            enter(device, dtype)
            yield
        torch.autocast = autocast
        return torch

    def test_bf16_is_taken_where_autocast_has_it(self):
        """Broken: a machine that can train would refuse."""
        check_precision(self.with_autocast(lambda device, dtype: True), "mps", "bf16")
        self.assertEqual([("mps", "bfloat16")], self.entered)

    def test_nothing_else_is_asked(self):
        """Broken: a Mac of before bf16 could train no run at all."""
        torch = self.with_autocast(lambda device, dtype: False)
        check_precision(torch, "mps", "")
        check_precision(torch, "mps", "fp32")
        check_precision(torch, "cpu", "bf16")
        check_precision(torch, "cuda:1", "bf16")
        self.assertEqual([], self.entered)

    def test_bf16_that_is_switched_off_is_refused(self):
        """Broken: the run's precision would be another here, and only a warning would say so."""
        def warned(device, dtype):
            warnings.warn("In MPS autocast, but the target dtype is not supported", stacklevel=2)
            return False

        def raised(device, dtype):
            raise RuntimeError("User specified an unsupported autocast device_type 'mps'")
        for enter in (warned, raised):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                with self.assertRaisesRegex(WorkerFailure, "precision is bf16, and PyTorch 2.15.0 "
                                            "has no bf16 on 'mps' here"):
                    check_precision(self.with_autocast(enter), "mps", "bf16")


class MemoryTest(unittest.TestCase):

    def test_the_log_says_what_metal_recommends(self):
        """Broken: an owner would not see how near a model is to the most that Metal gives."""
        asked = []
        torch = a_torch(**MAC)
        torch.mps = SimpleNamespace(
            synchronize=lambda: asked.append("synchronize"),
            current_allocated_memory=lambda: asked.append("allocated") or 1_234_000_000,
            recommended_max_memory=lambda: 12_700_000_000)
        note = memory_note(torch, "mps")
        self.assertIn("tensors take 1.23 GB", note)
        self.assertIn("Metal recommends 12.70 GB at most", note)
        self.assertEqual(["synchronize", "allocated"], asked)

    def test_other_devices_have_no_note(self):
        """Broken: a worker on another device, or with PyTorch 2.4, would end before it began."""
        self.assertEqual("", memory_note(a_torch(), "cpu"))
        self.assertEqual("", memory_note(a_torch(cuda=True), "cuda:0"))
        old = a_torch(**MAC)
        old.mps = SimpleNamespace()
        self.assertEqual("", memory_note(old, "mps"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
