"""Would fail if ranks that hold a model together trained, judged or kept another one than a process
that holds it alone.

Two or three processes on CPUs. Needs PyTorch 2.6 and transformers, and PEFT for adapters; without
them it is skipped.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

import packages  # noqa: F401

try:
    import torch
    import transformers
except ImportError as missing:
    print(f"skipped: {missing}; `pip install 'atoll[hf]'` brings it")
    sys.exit(77)
if tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2]) < (2, 6):
    print(f"skipped: PyTorch 2.6 brings fully_shard, and this is {torch.__version__}")
    sys.exit(77)
try:
    import peft
except ImportError:
    peft = None

import numpy as np

from atoll.v1 import run_pb2, worker_pb2
from atoll_worker.huggingface import export
from atoll_worker.huggingface.folder import ModelFolder
from atoll_worker.huggingface.model import base_digest, build, trained
from atoll_worker.huggingface.worker import serve
from fake_daemon import FakeDaemon
from huggingface_model_test import CONTEXT, make_folder

CLOSE = 1e-5


def children(of=None):
    """The numbers of the processes that one, or this one, has started as ranks."""
    of = of or os.getpid()
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8") as source:
                parent = int(source.read().rpartition(")")[2].split()[1])
            with open(f"/proc/{entry}/cmdline", encoding="utf-8") as source:
                command = source.read()
        except (OSError, ValueError, IndexError):
            continue
        if parent == of and "--helper" in command:
            found.append(int(entry))
    return found


class ShardingTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        transformers.utils.logging.disable_progress_bar()
        cls.top = tempfile.mkdtemp(prefix="atoll-sharding-")
        cls.addClassCleanup(shutil.rmtree, cls.top)
        cls.folder = os.path.join(cls.top, "model")
        make_folder(cls.folder)
        cls.text = os.path.join(cls.top, "text.txt")
        with open(cls.text, "w", encoding="utf-8") as out:
            out.write("the atoll is a ring of islands. " * 20)

    def spec(self, inner=None, **model):
        spec = run_pb2.RunSpec(run_id="r1", seed=5)
        spec.model.MergeFrom(run_pb2.ModelSpec(kind="huggingface", context=CONTEXT, **model))
        spec.data.kind, spec.data.validation_fraction = "text", 0.2
        spec.inner.MergeFrom(run_pb2.InnerSpec(
            optimizer="adamw", batch=5, learning_rate=0.01, beta1=0.9, beta2=0.99,
            gradient_clip=1.0, accumulation=2))
        spec.inner.MergeFrom(run_pb2.InnerSpec(**(inner or {})))
        return spec

    def daemon(self, spec, folder=None, data=None, state=""):
        made = build(ModelFolder(folder or self.folder), spec)
        daemon = FakeDaemon(sum(one.numel() for _, one in trained(made)))
        daemon.configure.spec.CopyFrom(spec)
        daemon.configure.spec.model.file = folder or self.folder
        daemon.configure.data_path = data or self.text
        daemon.configure.state_path = state
        return daemon

    def start(self, daemon, device):
        """Up to the initial state, which becomes theta unless there is one."""
        daemon.start(lambda run: serve(run, device, "full"))
        configured = daemon.expect("configured")
        daemon.map()
        daemon.send(write_initial_state=worker_pb2.WriteInitialState())
        daemon.expect("initial_state_written")
        return configured

    def evaluate(self, daemon):
        daemon.send(evaluate=worker_pb2.EvaluateShare(version=1, share=0, shares=1))
        answer = daemon.expect("evaluated")
        return answer.loss_sum / answer.tokens, answer.tokens

    def rounds(self, spec, device, count=2, steps=5, theta=None, **more):
        """So many rounds, each judged before and after: all that was told, and theta."""
        told = []
        with self.daemon(spec, **more) as daemon:
            configured = self.start(daemon, device)
            daemon.theta[:] = daemon.update if theta is None else theta
            told.append((self.evaluate(daemon)))
            for number in range(count):
                daemon.train(version=number + 1, first_step=number * steps, steps=steps)
                boundary = daemon.expect("boundary")
                daemon.theta[:] -= daemon.update
                told.append((boundary.loss, boundary.tokens))
                told.append((self.evaluate(daemon)))
            theta = daemon.theta.copy()
            daemon.stop()
            self.assertIsNone(daemon.error)
        self.assertEqual([], children())
        return configured, told, theta

    def compare(self, spec, device="cpu,cpu", atol=2e-4, close=CLOSE, **more):
        """One process and several: the same manifest, losses and tokens, and nearly theta (with
        `atol` 0 on average alone: Adam's steps are as long where a gradient is only noise)."""
        one, several = (self.rounds(spec, where, **more) for where in ("cpu", device))
        self.assertEqual(one[0].manifest, several[0].manifest)
        self.assertEqual(one[0].data_digest, several[0].data_digest)
        self.assertIn("parts", several[0].device)
        for (loss, tokens), (other, others) in zip(one[1], several[1]):
            self.assertEqual(tokens, others)
            self.assertLess(abs(loss - other), close)
        if atol:
            np.testing.assert_allclose(one[2], several[2], atol=atol)
        self.assertLess(np.abs(one[2] - several[2]).mean(), 1e-3)
        return several

    def test_two_and_three_ranks_train_what_one_does(self):
        """Broken: the peers of a run would train other models, by how many devices they have."""
        self.compare(self.spec())
        self.compare(self.spec(), "cpu,cpu,cpu")
        self.compare(self.spec({"proximal": 1.0, "accumulation": 1}))
        self.compare(self.spec({"checkpointing": True, "optimizer": "sgd"}))

    def test_in_bf16_the_loss_is_nearly_the_same(self):
        """Broken: precision would hang on the number of devices."""
        self.compare(self.spec({"precision": "bf16"}), atol=0, close=2e-2)

    @unittest.skipUnless(hasattr(torch.optim, "Muon"), "this PyTorch has no Muon")
    def test_muon_steps_whole_matrices(self):
        """Broken: each rank would make its rows of a matrix orthogonal, and not the matrix."""
        self.compare(self.spec({"optimizer": "muon", "muon_momentum": 0.95}), close=1e-3, atol=0)

    def test_the_mean_is_of_all_tokens_that_count(self):
        """Broken: a rank with short answers would count as much as one with long ones."""
        path = os.path.join(self.top, "talk.jsonl")
        with open(path, "w", encoding="utf-8") as out:
            for number in range(20):
                answer = "b" * (1 + number * number % 17)
                out.write(json.dumps({"prompt": "a" * (1 + number % 5), "completion": answer}) +
                          "\n")
        spec = self.spec()
        spec.model.context = 24
        self.compare(spec, data=path)

    def test_tied_and_random_weights_are_divided(self):
        """Broken: a model whose head is its embedding would have two, or a run that begins with
        random weights others on several devices."""
        folder = os.path.join(self.top, "tied")
        shutil.copytree(self.folder, folder)
        os.remove(os.path.join(folder, "model.safetensors"))
        config = os.path.join(folder, "config.json")
        with open(config, encoding="utf-8") as source:
            told = json.load(source)
        with open(config, "w", encoding="utf-8") as out:
            json.dump({**told, "tie_word_embeddings": True}, out)
        configured, _, theta = self.compare(self.spec(), folder=folder)
        self.assertNotIn("lm_head.weight", [one.name for one in configured.manifest.tensors])
        output = os.path.join(self.top, "tied-trained")
        export.write_folder(self.spec(), theta, folder, output)
        read = transformers.AutoModelForCausalLM.from_pretrained(output)
        np.testing.assert_array_equal(
            theta, np.concatenate([one.detach().numpy().ravel() for _, one in trained(read)]))

    @unittest.skipIf(peft is None, "PEFT is not installed")
    def test_adapters_are_divided_beside_their_base(self):
        """Broken: adapters would be trained beside another base, or could not be gone on with."""
        spec = self.spec({"checkpointing": True}, lora_rank=2, lora_alpha=4,
                         lora_targets=["q_proj", "up_proj"])
        _, _, theta = self.compare(spec)
        output = os.path.join(self.top, "adapters")
        export.write_folder(spec, theta, self.folder, output)
        self.compare(self.spec(), folder=output)
        spec = self.spec({"precision": "bf16"}, lora_rank=2, lora_alpha=4)
        self.compare(spec, atol=0, close=2e-2)
        spec.model.base_digest = base_digest(ModelFolder(self.folder), "bf16", 0)
        self.rounds(spec, "cpu,cpu", count=0)

    def test_the_optimisers_state_goes_from_any_number_of_ranks_to_any(self):
        """Broken: a peer that was stopped would begin anew, or only with as many devices."""
        path = os.path.join(self.top, "state")
        spec = self.spec()

        def second(device, state, theta):
            return self.rounds(spec, device, count=1, state=state, theta=theta)[2]
        _, _, theta = self.rounds(spec, "cpu", count=1, state=path)
        shutil.copy(path, path + ".one")
        wanted = second("cpu", path, theta)
        anew = second("cpu", "", theta)
        self.assertGreater(np.abs(anew - wanted).max(), 1e-3)
        shutil.copy(path + ".one", path)
        np.testing.assert_allclose(wanted, second("cpu,cpu", path, theta), atol=2e-4)
        os.remove(path)
        _, _, theta = self.rounds(spec, "cpu,cpu,cpu", count=1, state=path)
        shutil.copy(path, path + ".three")
        self.assertEqual([], [one for one in os.listdir(self.top) if one.endswith(".parts")])
        self.rounds(self.spec(lora_rank=2, lora_alpha=4) if peft else self.spec(), "cpu,cpu",
                    count=1, steps=1, state=path)  # whose state is not taken
        for device in ("cpu,cpu", "cpu"):
            shutil.copy(path + ".three", path)
            np.testing.assert_allclose(wanted, second(device, path, theta), atol=2e-4)

    def test_a_rank_that_dies_ends_all_with_the_reason(self):
        """Broken: the others would wait for ever, and nobody would know why."""
        for when in ("idle", "training"):
            with self.daemon(self.spec()) as daemon:
                worker = subprocess.Popen(
                    [sys.executable, "-m", "atoll_worker.huggingface", "--socket", daemon.socket,
                     "--device", "cpu,cpu,cpu", "--sharding", "full"], stderr=subprocess.DEVNULL)
                daemon.expect("hello")
                daemon.send(configure=daemon.configure)
                daemon.expect("configured")
                daemon.map()
                daemon.send(write_initial_state=worker_pb2.WriteInitialState())
                daemon.expect("initial_state_written")
                if when == "training":
                    daemon.train(steps=100000)
                    daemon.expect("progress")
                ranks = children(worker.pid)
                self.assertEqual(2, len(ranks))
                os.kill(ranks[1], signal.SIGKILL)
                self.assertRegex(
                    daemon.expect("failed").what,
                    r"rank [12] of 3 \(cpu, process \d+\) was killed by signal 9 \(SIGKILL\).*"
                    "the daemon starts the worker again")
                self.assertEqual(1, worker.wait(30))
                end = time.monotonic() + 30
                while any(os.path.exists(f"/proc/{one}") for one in ranks):
                    self.assertLess(time.monotonic(), end, "a rank is left behind")
                    time.sleep(0.05)

    def test_what_is_not_divided_is_refused_by_name(self):
        """Broken: such a run would train something else than it says."""
        for model, environment, wanted in (
                ({"base_bits": 4, "lora_rank": 2}, {}, "base_bits = 4"),
                ({}, {"ATOLL_HF_COMPILE": "1"}, "COMPILE=1")):
            with unittest.mock.patch.dict(os.environ, environment), FakeDaemon(8) as daemon:
                daemon.configure.spec.CopyFrom(self.spec(**model))
                daemon.configure.spec.model.file = self.folder
                daemon.configure.data_path = self.text
                daemon.start(lambda run: serve(run, "cpu,cpu", "full"))
                self.assertIn(wanted, daemon.expect("failed").what)
                daemon.join()


if __name__ == "__main__":
    unittest.main(verbosity=2)
