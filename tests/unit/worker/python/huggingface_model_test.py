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
import unittest.mock

import packages  # noqa: F401

try:
    import tokenizers
    import torch
    from safetensors.torch import load_file, save_file
    import transformers
except ImportError as missing:
    print(f"skipped: {missing}; `pip install 'atoll[hf]'` brings it")
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
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from atoll.v1 import run_pb2, worker_pb2
from atoll_worker import WorkerFailure
from atoll_worker.huggingface import export
from atoll_worker.huggingface.folder import ModelFolder
from atoll_worker.huggingface.model import base_digest, build, load_tokenizer, trained
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


class Metal(TorchFunctionMode):
    """The CPU plays Apple's GPU: what is sent to "mps" stays here, and is counted."""

    sent = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        def here(one):
            if not isinstance(one, (str, torch.device)) or str(one) != "mps":
                return one
            self.sent += 1
            return torch.device("cpu")
        return func(*map(here, args), **{name: here(one) for name, one in (kwargs or {}).items()})


class Doubles(TorchDispatchMode):
    """Names the operations that see a tensor of fp64."""

    def __init__(self):
        super().__init__()
        self.found = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if any(isinstance(one, torch.Tensor) and one.dtype == torch.float64
               for one in tree_leaves((args, kwargs or {}, result))):
            self.found.add(str(func))
        return result


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
        for name in ("more.jinja", "additional_chat_templates/tools.jinja", "vocab.tiktoken"):
            os.makedirs(os.path.dirname(os.path.join(self.folder, name)), exist_ok=True)
            with open(os.path.join(self.folder, name), "w", encoding="utf-8") as out:
                out.write("{{ messages }}")
        files = export.write_folder(spec, theta, self.folder, output)
        for name in ("tokenizer.json", "chat_template.jinja", "more.jinja", "vocab.tiktoken"):
            self.assertIn(name, files)
        self.assertTrue(os.path.isfile(f"{output}/additional_chat_templates/tools.jinja"))
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

    def test_apples_gpu_is_sent_what_it_can_compute(self):
        """Broken: a Mac would train on its CPU, or end at the first tensor of fp64, which Metal
        does not have."""
        spec = self.spec(**({"lora_rank": 2, "lora_alpha": 4} if peft else {}))
        spec.inner.precision = "bf16"
        spec.inner.proximal = 0.1
        metal, doubles = Metal(), Doubles()
        figures = {"synchronize": lambda: None, "current_allocated_memory": lambda: 10 ** 6,
                   "recommended_max_memory": lambda: 10 ** 10}

        def serve_there(run):
            with metal, doubles:
                serve(run, "auto")
        with unittest.mock.patch.multiple(torch.backends.mps, is_built=lambda: True,
                                          is_available=lambda: True), \
                unittest.mock.patch.multiple(torch.mps, create=True, **figures), \
                unittest.mock.patch.object(torch.cuda, "is_available", lambda: False), \
                self.daemon(spec) as daemon:
            daemon.start(serve_there)
            self.assertEqual("mps", daemon.expect("configured").device)
            daemon.map()
            daemon.send(write_initial_state=worker_pb2.WriteInitialState())
            daemon.expect("initial_state_written")
            daemon.theta[:] = daemon.update
            self.evaluate(daemon)
            daemon.train(steps=3)
            daemon.expect("boundary")
            self.assertGreater(np.abs(daemon.update).max(), 0)
            daemon.stop()
            self.assertIsNone(daemon.error)
        self.assertEqual(set(), doubles.found)
        # Inputs, targets and mask of each batch, and each tensor of the model.
        self.assertGreater(metal.sent, 3 * 3 + len(self.names))

    def test_what_is_frozen_is_not_trained(self):
        """Broken: a peer would move experts of other peers, on one device or on several."""
        for device in ("cpu", "cpu,cpu"):
            spec = self.spec()
            spec.inner.weight_decay = 0.5
            with self.daemon(spec) as daemon:
                self.start(daemon, device)
                first = self.names[0][1].numel()
                count = self.names[1][1].numel()
                for frozen in ([], [worker_pb2.ValueRange(first=first, count=count)], []):
                    daemon.train(steps=3, frozen=frozen)
                    daemon.expect("boundary")
                    part = np.abs(daemon.update[first:first + count]).max()
                    self.assertEqual(bool(frozen), part == 0)
                    self.assertGreater(np.abs(daemon.update[:first]).max(), 0)
                daemon.stop()
                self.assertIsNone(daemon.error)

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

    def sliced(self, **more):
        """A run of adapters of rank 4 in slices of 2."""
        return self.spec(lora_rank=4, lora_slice=2, lora_alpha=8,
                         lora_targets=["q_proj", "up_proj"], **more)

    @unittest.skipIf(peft is None, "PEFT is not installed")
    def test_slices_of_adapters_add_up(self):
        """Broken: a peer would train slices that it leaves to others, or an export of some ranks
        would not be what those ranks do in the run."""
        spec = self.sliced()
        with self.daemon(spec) as daemon:
            daemon.configure.spec.experts.tensors.append("*.slice#*")
            configured = self.start(daemon)
            tensors = configured.manifest.tensors
            self.assertEqual(16, len(tensors))  # A and B of two modules in two layers, by slices
            others = [one for one in tensors if ".slice1." in one.name]
            self.assertEqual(8, len(others))
            self.assertEqual({2}, {min(one.shape) for one in tensors})
            before, _ = self.evaluate(daemon)
            daemon.train(steps=10, frozen=[worker_pb2.ValueRange(
                first=one.offset, count=int(np.prod(one.shape))) for one in others])
            daemon.expect("boundary")
            for one in tensors:
                part = daemon.update[one.offset:one.offset + int(np.prod(one.shape))]
                self.assertEqual(".slice1." in one.name, not np.any(part), one.name)
            daemon.theta[:] -= daemon.update
            first, _ = self.evaluate(daemon)
            self.assertLess(first, before)
            low = daemon.theta.copy()
            daemon.train(steps=10)
            daemon.expect("boundary")
            daemon.theta[:] -= daemon.update
            both, _ = self.evaluate(daemon)
            self.assertLess(both, first)
            theta = daemon.theta.copy()
            daemon.stop()
            self.assertIsNone(daemon.error)
        self.exports_ranks(spec, low, theta, first, both)

    def exports_ranks(self, spec, low, theta, first, both):
        """The export of all ranks is what the run evaluates; so is that of rank 2 where the others
        have learnt nothing."""
        for values, rank, loss, name in ((theta, 0, both, "all"), (low, 2, first, "low")):
            output = os.path.join(self.top, f"ranks-{name}")
            files = export.write_folder(spec, values, self.folder, output, lora_rank=rank)
            self.assertIn("adapter_model.safetensors", files)
            self.assertNotIn("slice0", files)
            read = peft.AutoPeftModelForCausalLM.from_pretrained(output).eval()
            self.assertEqual(rank or 4, read.peft_config["default"].r)
            self.assertAlmostEqual(self.theirs(read), loss, places=5)
        for rank, what in ((3, "multiple of .* lora_slice \\(2\\)"), (6, "at most .* \\(4\\)")):
            with self.assertRaisesRegex(WorkerFailure, what):
                export.write_folder(spec, theta, self.folder, output, force=True, lora_rank=rank)
        with self.assertRaisesRegex(WorkerFailure, "no adapters in slices"):
            export.write_folder(self.spec(), theta, self.folder, output, force=True, lora_rank=2)
        with self.assertRaisesRegex(WorkerFailure, "has adapters already"):
            build(ModelFolder(output), spec)

    def changed(self, name, change, folder=None, file="model.safetensors"):
        """A copy of the folder whose tensors `change` has had."""
        path = os.path.join(self.top, name)
        shutil.copytree(folder or self.folder, path)
        tensors = load_file(os.path.join(path, file))
        change(tensors)
        save_file(tensors, os.path.join(path, file), {"format": "pt"})
        return ModelFolder(path)

    def test_a_checkpoint_is_whole_or_refused_by_name(self):
        """Broken: what a checkpoint lacks would be random, and other at each peer."""
        lost = "model.layers.1.mlp.down_proj.weight"

        def rename(tensors):
            tensors["layers.1.down.weight"] = tensors.pop(lost)
        for name, change, wanted in [
                ("lacks", lambda all: all.pop(lost),
                 f"lacks' is not that of its config: it lacks {lost}"),
                ("renames", rename, f"it lacks {lost}; the model has no layers.1.down.weight"),
                ("adds", lambda all: all.update({"more.bias": torch.ones(2)}),
                 "the model has no more.bias"),
                ("cuts", lambda all: all.update({"model.norm.weight": torch.ones(3)}),
                 r"of another shape: model.norm.weight is \[3\], the model's \[16\]")]:
            folder = self.changed(name, change)
            for lora_rank in (0, 2) if peft else (0,):
                with self.assertRaisesRegex(WorkerFailure, wanted):
                    build(folder, self.spec(lora_rank=lora_rank))
        broken = os.path.join(self.top, "broken")
        shutil.copytree(self.folder, broken)
        os.truncate(os.path.join(broken, "model.safetensors"), 5000)
        with self.assertRaisesRegex(WorkerFailure, "path '.*broken': "):
            build(ModelFolder(broken), self.spec())

    def tied(self, name, change, pickled=None):
        """A copy of the folder whose config ties the head, and whose tensors `change` has had;
        `pickled` writes them into the folder as a pytorch_model.bin."""
        folder = self.changed(name, change)
        config = os.path.join(folder.path, "config.json")
        with open(config, encoding="utf-8") as source:
            told = json.load(source)
        with open(config, "w", encoding="utf-8") as out:
            json.dump({**told, "tie_word_embeddings": True}, out)
        if pickled is not None:
            weights = os.path.join(folder.path, "model.safetensors")
            pickled(load_file(weights), folder.path)
            os.remove(weights)
        return folder

    def test_a_tied_head_is_the_embedding_or_refused(self):
        """Broken: which of two heads is trained would depend on the version of transformers and on
        the form of the file; an embedding that is stored as the head alone would not be read."""
        head, embedding = "lm_head.weight", "model.embed_tokens.weight"

        def whole(tensors, path):
            torch.save(tensors, os.path.join(path, "pytorch_model.bin"))

        def old(tensors, path):
            torch.save(tensors, os.path.join(path, "pytorch_model.bin"),
                       _use_new_zipfile_serialization=False)

        def shards(tensors, path):
            places = {}
            for number in (1, 2):
                file = f"pytorch_model-0000{number}-of-00002.bin"
                some = {one: tensors[one] for one in list(tensors)[number - 1::2]}
                torch.save(some, os.path.join(path, file))
                places.update({one: file for one in some})
            index = os.path.join(path, "pytorch_model.bin.index.json")
            with open(index, "w", encoding="utf-8") as out:
                json.dump({"metadata": {}, "weight_map": places}, out)

        def equal(tensors):
            tensors[head] = tensors[embedding].clone()

        for form, pickled in (("safetensors", None), ("bin", whole), ("old", old),
                              ("shards", shards)):
            with self.subTest(form=form):
                folder = self.tied(f"two-heads-{form}", lambda all: None, pickled)
                with self.assertRaisesRegex(WorkerFailure, f"{head} differs from {embedding}"):
                    build(folder, self.spec())
                build(self.tied(f"one-head-{form}", equal, pickled), self.spec())
                build(self.tied(f"no-head-{form}", lambda all: all.pop(head), pickled), self.spec())
                folder = self.tied(f"head-only-{form}", lambda all: all.pop(embedding), pickled)
                model = build(folder, self.spec())
                wanted = load_file(os.path.join(self.folder, "model.safetensors"))[head]
                self.assertTrue(torch.equal(wanted, model.get_input_embeddings().weight))
                self.assertIs(model.get_input_embeddings().weight,
                              model.get_output_embeddings().weight)

    def test_a_pickled_file_that_cannot_be_read_is_refused(self):
        """Broken: the worker would end with a traceback, or run what the file says."""
        path = os.path.join(self.top, "pickled")
        shutil.copytree(self.folder, path)
        os.remove(os.path.join(path, "model.safetensors"))
        for content in (b"", b"weights"):
            with open(os.path.join(path, "pytorch_model.bin"), "wb") as out:
                out.write(content)
            with self.assertRaisesRegex(WorkerFailure, r"^\[model\] path '.*pickled': "):
                build(ModelFolder(path), self.spec())

    @unittest.skipIf(peft is None, "PEFT is not installed")
    def test_the_digest_of_a_base_is_of_what_lies_in_memory(self):
        """Broken: adapters would be trained beside different bases under one digest."""
        spec = self.spec(lora_rank=2, lora_alpha=4)

        def digest(folder, precision="fp32", seed=5):
            spec.inner.precision, spec.seed = precision, seed
            return base_digest(folder, precision, seed, build(folder, spec))
        folder = ModelFolder(self.folder)
        first = digest(folder)
        self.assertEqual(first, base_digest(folder, "fp32", 0))
        halves = self.changed("halves", lambda all: all.update(
            {name: one.bfloat16() for name, one in all.items()}))
        self.assertNotEqual(first, digest(halves))
        self.assertEqual(digest(halves), digest(halves, "bf16"))
        self.assertEqual(digest(halves), digest(folder, "bf16"))
        sharded = os.path.join(self.top, "sharded")
        shutil.copytree(self.folder, sharded)
        os.remove(os.path.join(sharded, "model.safetensors"))
        build(folder, self.spec()).save_pretrained(sharded, max_shard_size="4KB")
        self.assertEqual(first, digest(ModelFolder(sharded)))
        empty = os.path.join(self.top, "empty")
        shutil.copytree(self.folder, empty)
        os.remove(os.path.join(empty, "model.safetensors"))
        random = digest(ModelFolder(empty))
        self.assertEqual(random, digest(ModelFolder(empty)))
        self.assertNotEqual(random, digest(ModelFolder(empty), seed=6))

    @unittest.skipIf(peft is None, "PEFT is not installed")
    def test_adapters_that_lack_a_tensor_are_refused(self):
        """Broken: training that goes on would begin with fresh adapters in some layers."""
        spec = self.spec(lora_rank=2, lora_alpha=4)
        model = build(ModelFolder(self.folder), spec)
        path = os.path.join(self.top, "adapters-whole")
        model.save_pretrained(path)
        build(ModelFolder(path), self.spec())
        lost = []

        def lose(tensors):
            lost.append(sorted(tensors)[0])
            del tensors[lost[0]]
        folder = self.changed("adapters-cut", lose, path, "adapter_model.safetensors")
        with self.assertRaisesRegex(WorkerFailure, f"it lacks {lost[0]}"):
            build(folder, self.spec())

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

    def test_a_tokenizer_that_its_library_reads_otherwise_is_refused(self):
        """Broken: peers with two versions of transformers would train on other tokens, some of them
        without spaces."""
        load_tokenizer(self.folder)
        folder = os.path.join(self.top, "other-words")
        shutil.copytree(self.folder, folder)
        path = os.path.join(folder, "tokenizer.json")
        read = transformers.AutoTokenizer.from_pretrained(folder)
        with open(path, encoding="utf-8") as source:
            told = json.load(source)
        told["pre_tokenizer"]["add_prefix_space"] = True
        with open(path, "w", encoding="utf-8") as out:
            json.dump(told, out)
        with unittest.mock.patch.object(transformers.AutoTokenizer, "from_pretrained",
                                        return_value=read):
            with self.assertRaisesRegex(WorkerFailure, "of 'Hello world', and tokenizers .* take "
                                                       "another version of transformers"):
                load_tokenizer(folder)

    def test_a_class_that_this_transformers_lacks_is_named_with_what_to_do(self):
        """Broken: who has a folder of transformers 5 would not know what this version lacks."""
        lacks = ValueError("Tokenizer class TokenizersBackend does not exist")
        with unittest.mock.patch.object(transformers.AutoTokenizer, "from_pretrained",
                                        side_effect=lacks):
            with self.assertRaisesRegex(WorkerFailure, "TokenizersBackend does not exist; "
                                                       "transformers .* take a newer version"):
                load_tokenizer(self.folder)

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

    def test_a_common_set_that_is_trained_on_is_said(self):
        """Broken: the loss of all parties would show what one of them remembers."""
        spec = self.spec()
        spec.data.private = True
        with self.daemon(spec) as daemon, \
                unittest.mock.patch("atoll_worker.huggingface.worker.say") as say:
            daemon.configure.validation_path = self.text
            self.start(daemon)
            daemon.stop()
        said = [call.args[0] for call in say.call_args_list]
        self.assertEqual(1, len([one for one in said if "of the common validation set" in one]),
                         said)

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
