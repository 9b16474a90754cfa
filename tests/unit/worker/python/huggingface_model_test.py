"""Would fail if atoll-hf-worker trained, evaluated or exported another model than it was given.

Needs PyTorch and transformers, and PEFT for adapters; without them it is skipped.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import packages  # noqa: F401

try:
    import tokenizers
    import torch
    import transformers
except ImportError as missing:
    print(f"skipped: {missing}; `pip install 'atoll-worker[hf]'` brings it")
    sys.exit(77)
try:
    import peft
except ImportError:
    peft = None
try:
    import bitsandbytes
except ImportError:
    bitsandbytes = None

import numpy as np

from atoll.v1 import run_pb2, worker_pb2
from atoll_worker import WorkerFailure
from atoll_worker.huggingface import export
from atoll_worker.huggingface.folder import ModelFolder
from atoll_worker.huggingface.model import build, trained
from atoll_worker.huggingface.worker import serve
from fake_daemon import FakeDaemon

CONTEXT = 8
TEMPLATE = ("{% for m in messages %}{{ '<' + m['role'] + '>' + m['content'] + '\\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}")
TALK = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]


def make_folder(path):
    """A Llama of two layers and a tokenizer of bytes."""
    torch.manual_seed(3)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=260, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=64))
    model.save_pretrained(path)
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate(letters)}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens(["<eos>"])
    transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<eos>",
                                         chat_template=TEMPLATE).save_pretrained(path)


class ModelTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        transformers.utils.logging.disable_progress_bar()
        cls.top = tempfile.mkdtemp(prefix="atoll-hub-model-")
        cls.addClassCleanup(shutil.rmtree, cls.top)
        cls.folder = os.path.join(cls.top, "model")
        make_folder(cls.folder)
        cls.text = os.path.join(cls.top, "text.txt")
        with open(cls.text, "w", encoding="utf-8") as out:
            out.write("the atoll is a ring of islands. " * 20)

    def spec(self, **model):
        spec = run_pb2.RunSpec(run_id="r1", seed=5)
        spec.model.MergeFrom(run_pb2.ModelSpec(kind="huggingface", context=CONTEXT, **model))
        spec.data.kind, spec.data.validation_fraction = "text", 0.2
        spec.inner.MergeFrom(run_pb2.InnerSpec(
            optimizer="adamw", batch=4, learning_rate=0.01, beta1=0.9, beta2=0.99,
            gradient_clip=1.0, accumulation=2))
        return spec

    def daemon(self, spec, folder=None, data=None):
        self.made = build(ModelFolder(folder or self.folder), spec)
        self.names = trained(self.made)
        daemon = FakeDaemon(sum(one.numel() for _, one in self.names))
        daemon.configure.spec.CopyFrom(spec)
        daemon.configure.spec.model.file = folder or self.folder
        daemon.configure.data_path = data or self.text
        return daemon

    def start(self, daemon, device="cpu"):
        """Up to the initial state, which becomes theta."""
        daemon.start(lambda run: serve(run, device))
        configured = daemon.expect("configured")
        daemon.map()
        daemon.send(write_initial_state=worker_pb2.WriteInitialState())
        daemon.expect("initial_state_written")
        daemon.theta[:] = daemon.update
        return configured

    def flat(self, model):
        return np.concatenate([one.detach().numpy().ravel() for _, one in trained(model)])

    def evaluate(self, daemon):
        daemon.send(evaluate=worker_pb2.EvaluateShare(version=1, share=0, shares=1))
        answer = daemon.expect("evaluated")
        return answer.loss_sum / answer.tokens, answer.tokens

    def theirs(self, model):
        """What transformers says of the held-out part of the text."""
        tokenizer = transformers.AutoTokenizer.from_pretrained(self.folder)
        with open(self.text, encoding="utf-8") as source:
            ids = tokenizer(source.read(), add_special_tokens=False)["input_ids"]
        ids, losses = ids[int(len(ids) * 0.8):], []
        with torch.no_grad():
            for first in range(0, len(ids) - CONTEXT, CONTEXT):
                row = torch.tensor([ids[first:first + CONTEXT + 1]])
                losses.append(float(model(input_ids=row, labels=row).loss))
        return sum(losses) / len(losses)

    def train(self, spec, device="cpu", **more):
        """Ten steps: the configuration, the losses before and after, and theta's way."""
        with self.daemon(spec, **more) as daemon:
            configured = self.start(daemon, device)
            before, _ = self.evaluate(daemon) if spec.data.validation_fraction else (0, 0)
            daemon.train(steps=10)
            boundary = daemon.expect("boundary")
            moved = daemon.update.copy()
            daemon.theta[:] -= moved
            after, _ = self.evaluate(daemon) if spec.data.validation_fraction else (0, 0)
            theta = daemon.theta.copy()
            daemon.stop()
            self.assertIsNone(daemon.error)
        self.assertTrue(np.abs(moved).max() > 0)
        return configured, boundary, before, after, theta

    def test_trains_what_transformers_evaluates(self):
        """Broken: the run's loss would be of other tokens or another model."""
        spec = self.spec()
        configured, boundary, before, after, theta = self.train(spec)
        model = transformers.AutoModelForCausalLM.from_pretrained(self.folder).eval()
        self.assertAlmostEqual(self.theirs(model), before, places=5)
        self.assertEqual(10 * 4 * CONTEXT, boundary.tokens)
        self.assertLess(after, before - 0.1)
        self.assertEqual(32, len(configured.tokenizer_digest))
        output = os.path.join(self.top, "trained")
        files = export.write_folder(spec, theta, self.folder, output)
        self.assertIn("tokenizer.json", files)
        read = transformers.AutoModelForCausalLM.from_pretrained(output).eval()
        self.assertAlmostEqual(self.theirs(read), after, places=5)
        with self.assertRaisesRegex(WorkerFailure, "is not empty"):
            export.write_folder(spec, theta, self.folder, output)
        with self.assertRaisesRegex(WorkerFailure, "the run has 3 parameters"):
            export.write_folder(spec, theta[:3], self.folder, output, force=True)

    def test_how_a_step_is_computed_changes_little(self):
        """Broken: bf16, checkpointing, accumulation or Muon would train something else."""
        _, plain, _, _, theta = self.train(self.spec())
        for change in ({"checkpointing": True}, {"accumulation": 1}):
            spec = self.spec()
            spec.inner.MergeFrom(run_pb2.InnerSpec(**change))
            _, boundary, _, _, other = self.train(spec)
            self.assertAlmostEqual(plain.loss, boundary.loss, places=5)
            np.testing.assert_allclose(theta, other, atol=2e-4)
        spec = self.spec()
        spec.inner.precision = "bf16"
        self.assertAlmostEqual(plain.loss, self.train(spec)[1].loss, places=1)
        spec = self.spec()
        spec.inner.proximal = 100.0  # holds the parameters where they are
        _, _, _, _, held = self.train(spec)
        start = self.flat(build(ModelFolder(self.folder), spec))
        self.assertLess(np.abs(held - start).mean(), 0.7 * np.abs(theta - start).mean())
        if hasattr(torch.optim, "Muon"):
            spec = self.spec()
            spec.inner.optimizer, spec.inner.muon_momentum = "muon", 0.95
            _, _, before, after, _ = self.train(spec)
            self.assertLess(after, before - 0.1)

    def test_two_devices_train_what_one_does(self):
        """Broken: a machine with several GPUs would train another model, or its helpers would
        train on parameters that the run has left behind."""
        for proximal in (0.0, 1.0):
            spec = self.spec()
            spec.inner.proximal = proximal
            _, plain, _, _, theta = self.train(spec)
            _, boundary, _, _, other = self.train(spec, device="cpu,cpu")
            self.assertEqual(plain.tokens, boundary.tokens)
            self.assertAlmostEqual(plain.loss, boundary.loss, places=5)
            np.testing.assert_allclose(theta, other, atol=2e-4)

    def test_a_helper_ends_with_its_worker(self):
        """Broken: a worker that was killed would leave processes behind that hold its GPUs."""
        helper = subprocess.Popen(
            [sys.executable, "-m", "atoll_worker.huggingface", "--helper",
             f"1,2,{self.top}/meeting", "--device", "cpu"], stdin=subprocess.PIPE)
        self.assertIsNone(helper.poll())
        helper.stdin.close()
        self.assertEqual(1, helper.wait(60))

    @unittest.skipIf(peft is None, "PEFT is not installed")
    def test_of_adapters_only_the_adapters_travel(self):
        """Broken: the base would be exchanged, or an adapter folder could not be gone on with."""
        spec = self.spec(lora_rank=2, lora_alpha=4, lora_targets=["q_proj", "up_proj"])
        configured, _, before, after, theta = self.train(spec)
        names = [one.name for one in configured.manifest.tensors]
        self.assertEqual(8, len(names))
        self.assertTrue(all("lora_" in name for name in names))
        self.assertLess(after, before)
        output = os.path.join(self.top, "adapters")
        export.write_folder(spec, theta, self.folder, output)
        read = peft.AutoPeftModelForCausalLM.from_pretrained(output).eval()
        self.assertAlmostEqual(self.theirs(read), after, places=5)
        _, _, again, _, _ = self.train(self.spec(), folder=output)
        self.assertAlmostEqual(after, again, places=5)
        with self.assertRaisesRegex(WorkerFailure, "have rank 2; .* lora_rank is 3"):
            build(ModelFolder(output), self.spec(lora_rank=3))
        with self.assertRaisesRegex(WorkerFailure, "lora_targets"):
            build(ModelFolder(self.folder), self.spec(lora_rank=3, lora_targets=["none"]))

    @unittest.skipIf(peft is None or bitsandbytes is None, "PEFT or bitsandbytes is not installed")
    def test_a_base_of_4_bits_is_trained_beside(self):
        """Broken: QLoRA would train beside another base than it says, or export other adapters."""
        spec = self.spec(lora_rank=2, lora_alpha=4, base_bits=4)
        configured, _, before, after, theta = self.train(spec)
        self.assertTrue(all("lora_" in one.name for one in configured.manifest.tensors))
        kinds = {type(one).__name__ for one in self.made.parameters()}
        self.assertIn("Params4bit", kinds)
        self.assertLess(after, before)
        output = os.path.join(self.top, "adapters-4")
        export.write_folder(spec, theta, self.folder, output)
        read = peft.AutoPeftModelForCausalLM.from_pretrained(
            output, device_map={"": "cpu"}, quantization_config=transformers.BitsAndBytesConfig(
                load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
                bnb_4bit_compute_dtype=torch.float32))
        read.train()  # eval() would compute in bf16 on some CPUs; there is no dropout
        self.assertAlmostEqual(self.theirs(read), after, places=5)

    def test_a_talk_is_trained_on_for_its_answers(self):
        """Broken: the loss of instructions would count other words than the assistant's."""
        path = os.path.join(self.top, "talk.jsonl")
        with open(path, "w", encoding="utf-8") as out:
            for _ in range(8):
                out.write(json.dumps({"messages": TALK}) + "\n")
        spec = self.spec()
        spec.model.context = 32
        spec.data.validation_fraction = 0
        _, boundary, _, _, _ = self.train(spec, data=path)
        self.assertEqual(10 * 4 * 2, boundary.tokens)  # "b" and the newline behind it
        self.assertLess(boundary.loss, boundary.first_loss)

    def test_private_data_has_a_loss_of_its_own(self):
        """Broken: a federation of models of Hugging Face's could not be evaluated."""
        spec = self.spec()
        spec.data.private = True
        spec.inner.steps = 10
        with self.daemon(spec) as daemon:
            configured = self.start(daemon)
            self.assertEqual(b"", configured.data_digest)
            daemon.send(evaluate=worker_pb2.EvaluateShare(version=1, shares=1, own=True))
            answer = daemon.expect("evaluated")
            model = transformers.AutoModelForCausalLM.from_pretrained(self.folder).eval()
            self.assertAlmostEqual(self.theirs(model), answer.own_losses[0], places=5)
            daemon.train(steps=2)
            self.assertEqual(8, daemon.expect("boundary").samples)
            daemon.stop()
            self.assertIsNone(daemon.error)

    def test_what_does_not_fit_is_said_to_the_daemon(self):
        """Broken: peers with another model or tokenizer would train on, or say nothing of use."""
        for field, wanted in (("model.file_digest", "config.json of"),
                              ("data.tokenizer_digest", "the tokenizer of")):
            section, _, key = field.partition(".")
            with self.daemon(self.spec()) as daemon:
                setattr(getattr(daemon.configure.spec, section), key, b"x" * 32)
                daemon.start(lambda run: serve(run, "cpu"))
                self.assertIn(wanted, daemon.expect("failed").what)
                daemon.join()
        for device, wanted in ((",".join(["cpu"] * 5), "names 5 devices"), ("cuda", "sees no GPU")):
            if device == "cuda" and torch.cuda.is_available():
                continue
            with self.daemon(self.spec()) as daemon:
                daemon.start(lambda run, there=device: serve(run, there))
                self.assertIn(wanted, daemon.expect("failed").what)
                daemon.join()


if __name__ == "__main__":
    unittest.main(verbosity=2)
