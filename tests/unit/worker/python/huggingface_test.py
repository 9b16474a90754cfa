"""Would fail if atoll-hf-worker took other data, other rates or other words to heart than it says.

Needs neither transformers nor PyTorch: a tokenizer of characters stands for one.
"""

import io
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import packages  # noqa: F401

import numpy as np

from atoll.v1 import run_pb2
from atoll_worker import WorkerFailure
from atoll_worker.huggingface import export
from atoll_worker.huggingface.batches import IGNORED, collate, parts
from atoll_worker.huggingface.data import Packed, open_corpus
from atoll_worker.huggingface.documents import TextRules, documents
from atoll_worker.huggingface.examples import example_of
from atoll_worker.huggingface.folder import ModelFolder
from atoll_worker.huggingface.model import quantiser
from atoll_worker.huggingface.schedule import learning_rate
from fake_daemon import FakeDaemon

try:
    import torch
except ImportError:
    torch = None


class Characters:
    """A token a character; 0 ends a text, 1 is unknown."""

    eos_token_id, unk_token_id = 0, 1

    def __len__(self):
        return 256

    def convert_tokens_to_ids(self, token):
        return {"<sep>": 5}.get(token, 1)

    def __call__(self, text, add_special_tokens=True, return_offsets_mapping=False):
        if isinstance(text, list):
            return {"input_ids": [self(one)["input_ids"] for one in text]}
        out = {"input_ids": [ord(one) for one in text]}
        if return_offsets_mapping:
            out["offset_mapping"] = [(place, place + 1) for place in range(len(text))]
        return out

    def apply_chat_template(self, messages, tokenize, add_generation_prompt):
        text = "".join(f"{one['role'][0]}:{one['content']};" for one in messages)
        return text + ("a:" if add_generation_prompt else "")


class Case(unittest.TestCase):

    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="atoll-hub-")
        self.addCleanup(shutil.rmtree, self.top)

    def write(self, name, content):
        path = os.path.join(self.top, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as out:
            out.write(content if isinstance(content, bytes) else content.encode())
        return path

    def refused(self, wanted, call, *arguments):
        with self.assertRaisesRegex(WorkerFailure, wanted):
            call(*arguments)


class DocumentsTest(Case):

    def read(self, **rules):
        return list(documents(self.top, TextRules(**rules)))

    def test_a_folder_is_its_files_in_the_order_of_their_paths(self):
        """Broken: peers with the same files would have other data."""
        self.write("b.txt", "second")
        self.write("a.jsonl", '{"text": "first"}\n\n{"text": "and"}\n')
        self.write("c/d.json", '[{"text": "third"}]')
        self.write(".git/e.txt", "hidden")
        self.assertEqual(["first", "and", "second", "third"], self.read())

    def test_records_are_text_or_talk(self):
        """Broken: instructions would be trained on as something else, or left out in silence."""
        talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]
        self.write("a.jsonl", "\n".join(json.dumps(one) for one in [
            {"messages": talk}, {"prompt": "p", "completion": "c"},
            {"prompt": talk[:1], "completion": talk[1:]}]))
        self.assertEqual([{"messages": talk}, {"prompt": "p", "completion": "c"},
                          {"messages": talk, "asked": 1}], self.read())
        self.assertEqual(["hi"], self.read(field="messages.0.content", skip_bad_lines=True))

    def test_a_bad_line_is_named_or_counted(self):
        """Broken: a corpus with one broken line could not be used, or would lose lines unseen."""
        path = self.write("a.jsonl", '{"text": "good"}\nno json\n{"body": 1}\n')
        self.refused("a.jsonl': line 2: no JSON", self.read)
        rules = TextRules(skip_bad_lines=True)
        self.assertEqual(["good"], list(documents(path, rules)))
        self.assertEqual(2, rules.skipped)

    def test_what_is_no_text_is_refused_by_name(self):
        """Broken: a table or a compressed file would be trained on with all its bytes."""
        self.write("a.csv", "1,2")
        self.refused("a.csv': files of form .csv are not read", self.read)
        self.assertEqual(["1,2"], self.read(kind="plain"))
        self.write("a.csv", b"\xff\xfe")
        self.refused("a.csv': byte 0 is no UTF-8", lambda: self.read(kind="plain"))
        os.remove(os.path.join(self.top, "a.csv"))
        self.refused("the folder holds no files", self.read)


class DataTest(Case):

    def open(self, context=4, **spec):
        return open_corpus(run_pb2.DataSpec(**{"kind": "text", **spec}), self.top, Characters(),
                           context)

    def test_text_is_cut_into_rows_that_predict_every_token_once(self):
        """Broken: some tokens would be trained on twice and others never."""
        self.write("a.txt", "abcdefghi")
        self.write("b.txt", "jk")
        corpus = self.open(validation_fraction=0.25)
        self.assertEqual((2, 0), (len(corpus.train), len(corpus.held_out)))
        rows = ["".join(map(chr, corpus.train.row(i)[0])) for i in range(2)]
        self.assertEqual(["abcde", "efghi"], rows)
        self.assertTrue(corpus.train.row(0)[1].all())
        whole = self.open()
        self.assertEqual([ord("i"), 0, ord("j"), ord("k")],
                         list(Packed([whole.train._read(8, 4)], 3).row(0)[0]))

    def test_the_digest_tells_corpora_apart(self):
        """Broken: peers would train on other data than the run's."""
        self.write("a.txt", "abcdefghi")
        first = self.open().digest()
        self.assertEqual(first, self.open().digest())
        self.assertNotEqual(first, self.open(validation_fraction=0.5).digest())
        self.write("a.txt", "abcdefghj")
        self.assertNotEqual(first, self.open().digest())

    def test_token_files_of_other_programs(self):
        """Broken: prepared corpora could not be used, or would be read as other tokens."""
        ids = np.arange(20)
        self.write("train.bin", ids.astype("<u2").tobytes())
        self.write("val.bin", struct.pack("<256i", *([20240801] + [1] * 255)) +
                   ids.astype("<u4").tobytes())
        corpus = self.open()
        self.assertEqual([4, 5, 6, 7, 8], list(corpus.train.row(1)[0]))
        self.assertEqual([4, 5, 6, 7, 8], list(corpus.held_out.row(1)[0]))
        self.assertEqual(19, corpus.train.largest())
        self.write("train.bin", b"123")
        self.refused("3 bytes are no whole number of token ids of 2 bytes", self.open)

    def test_a_prepared_folder(self):
        """Broken: what `atoll data prepare` makes would not be read."""
        self.write("train.bin", bytes(range(20)))
        self.write("validation.bin", bytes(range(9)))
        self.write("data.json", json.dumps({"width": 1, "vocabulary": 300}))
        corpus = self.open()
        self.assertEqual((4, 2), (len(corpus.train), len(corpus.held_out)))
        self.assertIn("was prepared for 300 tokens", corpus.notes[0])

    def test_instructions_are_a_row_each(self):
        """Broken: the model would learn to say the user's words, or learn across two records."""
        records = [{"prompt": "ab", "completion": "c"}, {"prompt": "abcdef", "completion": "g"}]
        self.write("a.jsonl", "\n".join(map(json.dumps, records)))
        corpus = self.open()
        self.assertEqual(1, len(corpus.train))
        ids, counted = corpus.train.row(0)
        self.assertEqual([97, 98, 99, 0], list(ids))
        self.assertEqual([False, True, True], list(counted))
        self.assertIn("1 records were left out: within 4 tokens", corpus.notes[0])
        self.write("b.txt", "prose")
        self.refused("has both text and records", self.open)

    def test_only_the_assistants_words_count(self):
        """Broken: the loss would be of the questions too."""
        talk = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "yes"},
                {"role": "user", "content": "z"}, {"role": "assistant", "content": "no"}]
        ids, counted = example_of({"messages": talk}, Characters())
        self.assertEqual("u:x;a:yes;u:z;a:no;", "".join(map(chr, ids)))
        self.assertEqual("yes;no;", "".join(chr(one) for one in ids[counted]))
        _, counted = example_of({"messages": talk, "asked": 3}, Characters())
        self.assertEqual("no;", "".join(chr(one) for one in ids[counted]))

    def test_a_template_that_says_it_in_another_way_is_refused(self):
        """Broken: some tokens of the question would count, or the answer would not."""
        class Moody(Characters):
            def apply_chat_template(self, messages, tokenize, add_generation_prompt):
                return f"{len(messages)} " + super().apply_chat_template(messages, tokenize,
                                                                         add_generation_prompt)
        talk = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "yes"}]
        self.refused("give prompt and completion", example_of, {"messages": talk}, Moody())

    def test_unknown_and_missing_data_is_named(self):
        """Broken: a peer would say nothing of use where its data is wrong."""
        spec, one = run_pb2.DataSpec(kind="text", end_of_text="<none>"), Characters()
        self.write("a.txt", "abc")
        self.refused("end_of_text: the tokenizer has no '<none>'", open_corpus, spec, self.top, one,
                     4)
        self.refused("no such file or folder", open_corpus, spec, self.top + "/none", one, 4)
        self.refused("sources is not for", open_corpus, spec, "a\nb", one, 4)
        self.refused("path is missing", open_corpus, spec, "", one, 4)


class StepTest(unittest.TestCase):

    def test_short_rows_are_padded_where_nothing_counts(self):
        """Broken: padding would be learned."""
        rows = [(np.array([1, 2, 3]), np.array([False, True])),
                (np.array([4, 5]), np.array([True]))]
        inputs, targets, real = collate(rows, 9)
        self.assertEqual([[1, 2], [4, 9]], inputs.tolist())
        self.assertEqual([[IGNORED, 3], [5, IGNORED]], targets.tolist())
        self.assertEqual([[1, 1], [1, 0]], real.tolist())
        self.assertEqual([[1, 2], [3, 4, 5]], [list(one) for one in parts([1, 2, 3, 4, 5], 2)])
        self.assertEqual([[1]], list(parts([1], 4)))

    def test_the_rate_is_atoll_workers(self):
        """Broken: peers with this worker would train at another rate than the others. The values
        are those of worker/base/schedule.cc."""
        inner = run_pb2.InnerSpec(learning_rate=1.0, min_learning_rate=0.1, warmup_steps=9,
                                  decay_steps=109)
        for step, wanted in [(0, 0.1), (9, 1.0), (59, 0.55), (109, 0.1), (500, 0.1)]:
            self.assertAlmostEqual(wanted, learning_rate(inner, step))
        inner.schedule, inner.cooldown_steps = "wsd", 100
        self.assertAlmostEqual(0.1 + 0.5 * 0.9, learning_rate(inner, 34))
        inner.schedule = "constant"
        self.assertEqual(1.0, learning_rate(inner, 500))

    @unittest.skipIf(torch is None, "python3-torch is not installed")
    def test_the_optimisers_state_goes_on(self):
        """Broken: a worker that is started again would begin with empty moments, or take those of
        another run."""
        from atoll_worker.huggingface.optimizer import InnerOptimizer
        inner = run_pb2.InnerSpec(optimizer="adamw", learning_rate=0.1, beta1=0.9, beta2=0.99)
        with tempfile.TemporaryDirectory() as top:
            values = []
            for _ in range(2):
                weight = torch.nn.Parameter(torch.ones(2, 2))
                made = InnerOptimizer(inner, [("w", weight)])
                self.assertEqual(bool(values), made.load(f"{top}/state", "r1"))
                self.assertFalse(made.load(f"{top}/state", "r2"))
                weight.grad = torch.ones(2, 2)
                made.step(5)
                made.save(f"{top}/state", "r1")
                values.append(len(made._parts[0].state))
            self.assertEqual([1, 1], values)


class FolderTest(Case):

    def test_says_what_a_folder_lacks(self):
        """Broken: a wrong path would be told as an error from within transformers."""
        self.refused("path is missing", ModelFolder, "")
        self.refused("no such folder", ModelFolder, self.top + "/none")
        self.refused("no config.json", ModelFolder, self.top)
        self.write("config.json", "{}")
        folder = ModelFolder(self.top)
        self.assertFalse(folder.has_weights)
        self.refused("has no tokenizer", folder.tokenizer_digest)

    def test_adapters_name_their_base(self):
        """Broken: adapters would be trained on top of a model that is not theirs."""
        self.write("base/config.json", "{}")
        self.write("base/model.safetensors", "weights")
        self.write("base/tokenizer.json", "{}")
        self.write("adapter/adapter_config.json", json.dumps(
            {"base_model_name_or_path": self.top + "/base"}))
        folder = ModelFolder(self.top + "/adapter")
        self.assertTrue(folder.is_adapter)
        before = folder.base_digest()
        self.assertEqual(before, ModelFolder(self.top + "/base").base_digest())
        self.write("base/model.safetensors", "others")
        self.assertNotEqual(before, folder.base_digest())
        self.assertEqual(self.top + "/base", folder.tokenizer_folder())
        self.write("adapter/adapter_config.json", json.dumps(
            {"base_model_name_or_path": "someone/model"}))
        self.refused("'someone/model', which is no folder here", ModelFolder, self.top + "/adapter")

    def test_a_base_of_4_bits_needs_adapters_weights_and_bitsandbytes(self):
        """Broken: a run of QLoRA would train with the whole base, or end in a traceback."""
        self.write("config.json", "{}")
        spec = run_pb2.RunSpec(model=run_pb2.ModelSpec(kind="huggingface", lora_rank=4))
        self.assertIsNone(quantiser(ModelFolder(self.top), spec, None))
        spec.model.base_bits = 4
        self.refused("has no weights to quantise", quantiser, ModelFolder(self.top), spec, None)
        self.write("model.safetensors", "weights")
        missing = {"bitsandbytes": None, "accelerate": None}
        with unittest.mock.patch.dict(sys.modules, missing):
            self.refused(r"^bitsandbytes is not installed for [^ ]+; \[model\] base_bits = 4 needs "
                         "it: pip install bitsandbytes$",
                         quantiser, ModelFolder(self.top), spec, None)
        spec.model.lora_rank = 0
        self.refused("set lora_rank", quantiser, ModelFolder(self.top), spec, None)
        spec.model.base_bits = 8
        self.refused("base_bits is 8", quantiser, ModelFolder(self.top), spec, None)

    def test_reads_the_state_that_atoll_sends(self):
        """Broken: an export would hold other values than the run's, or half of them."""
        spec = run_pb2.RunSpec(run_id="r1").SerializeToString()
        values = np.arange(5, dtype="<f4")
        stream = struct.pack("<Q", len(spec)) + spec + struct.pack("<Q", 5) + values.tobytes()
        read, found = export.read_state(io.BytesIO(stream))
        self.assertEqual("r1", read.run_id)
        np.testing.assert_array_equal(values, found)
        self.refused("ends after 19 of 20 bytes", export.read_state, io.BytesIO(stream[:-1]))
        self.refused("no state of a run", export.read_state, io.BytesIO(b"\xff" * 8))


class CommandTest(Case):

    def call(self, *arguments):
        return subprocess.run([sys.executable, "-m", "atoll_worker.huggingface", *arguments],
                              capture_output=True, text=True, timeout=60, check=False,
                              stdin=subprocess.DEVNULL)

    def test_a_library_that_is_missing_is_named_to_the_daemon(self):
        """Broken: the log of a machine without transformers would not say what to install."""
        hidden = os.path.join(self.top, "hidden")
        for name in ("torch", "transformers"):
            os.makedirs(f"{hidden}/{name}")
            with open(f"{hidden}/{name}/__init__.py", "w", encoding="utf-8") as out:
                out.write(f"raise ImportError('there is none', name='{name}')\n")
        path = hidden + os.pathsep + os.environ.get("PYTHONPATH", "")
        with FakeDaemon(10) as daemon:
            worker = subprocess.Popen(
                [sys.executable, "-m", "atoll_worker.huggingface", "--socket", daemon.socket,
                 "--device", "cpu"], env={**os.environ, "PYTHONPATH": path},
                stderr=subprocess.PIPE, text=True)
            daemon.expect("hello")
            daemon.send(configure=daemon.configure)
            self.assertIn("torch is not installed for", said := daemon.expect("failed").what)
            self.assertIn("pip install 'atoll-worker[hf]'", said)
            self.assertIn(said, worker.communicate(timeout=60)[1])
            self.assertEqual(1, worker.returncode)

    def test_an_export_of_a_folder_goes_through_atoll(self):
        """Broken: the state would have to be replayed here, or nobody would say what is missing."""
        before = os.environ["PATH"]
        self.addCleanup(os.environ.__setitem__, "PATH", before)
        os.environ["PATH"] = self.top
        self.refused("atoll is not in PATH", export.through_atoll, "/w", "run", "out", [])
        told = os.path.join(self.top, "told")
        os.chmod(self.write("atoll", f"#!/bin/sh\necho \"$@\" >{told}\nexit 3\n"), 0o755)
        self.assertEqual(3, export.through_atoll("/w", "run", "out", ["--dtype", "bf16"]))
        with open(told, encoding="utf-8") as source:
            self.assertEqual("export --dir run --output out --worker /w --dtype bf16\n",
                             source.read())

    def test_says_what_an_export_needs(self):
        """Broken: a person would get a Python traceback."""
        for arguments, wanted in [((), "name the run's folder with --dir"),
                                  (("--state", "-"), "[model] path with --base"),
                                  (("--state", "-", "--base", "x"), "the state ends after 0 of 8")]:
            done = self.call("export", "--output", self.top + "/out", *arguments)
            self.assertEqual(1, done.returncode)
            self.assertIn(wanted, done.stderr)
            self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(2, self.call().returncode)


if __name__ == "__main__":
    unittest.main(verbosity=2)
