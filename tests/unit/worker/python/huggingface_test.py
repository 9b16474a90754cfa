"""Would fail if atoll-hf-worker took other data, other rates or other words to heart than it says.

Needs neither transformers nor PyTorch: a tokenizer of characters stands for one.
"""

import hashlib
import io
import json
import os
import random
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
from atoll_worker.huggingface.data import Packed, Reading, note_of_common, open_corpus
from atoll_worker.huggingface.documents import TextRules, documents
from atoll_worker.huggingface.examples import Told, examples_of
from atoll_worker.huggingface.folder import ModelFolder
from atoll_worker.huggingface.model import quantiser
from atoll_worker.huggingface.records import BadRecord, Record
from atoll_worker.huggingface.schedule import learning_rate
from characters import Characters
from fake_daemon import FakeDaemon

try:
    import torch
except ImportError:
    torch = None


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

    def test_records_are_text_or_talk(self):
        """Broken: instructions would be trained on as something else, or left out in silence."""
        talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]
        self.write("a.jsonl", "\n".join(json.dumps(one) for one in [
            {"messages": talk}, {"prompt": "p", "completion": "c"},
            {"prompt": talk[:1], "completion": talk[1:]}]))
        whole, pair, lists = self.read()
        self.assertEqual((talk, 0), (whole.messages, whole.asked))
        self.assertEqual(("p", "c", []), (pair.prompt, pair.completion, pair.messages))
        self.assertEqual((talk, 1), (lists.messages, lists.asked))
        self.assertEqual("line 3", lists.place)
        self.assertEqual(["hi"], self.read(field="messages.0.content", skip_bad_lines=True))


class DataTest(Case):

    def open(self, context=4, **spec):
        return open_corpus(Reading(run_pb2.DataSpec(**{"kind": "text", **spec}), Characters(),
                                   context), self.top)

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
                         list(Packed([whole.train.read(8, 4)], 3).row(0)[0]))

    def test_small_private_parties_have_a_row(self):
        """Broken: a party with little data could not take part."""
        for text, train, held_out in (("abcd", "abc", "d"), ("abcdef", "abcd", "ef"),
                                      ("ab", "ab", ""), ("a", "a", "")):
            self.write("a.txt", text)
            corpus = self.open(private=True, validation_fraction=0.25)
            for split, wanted in ((corpus.train, train), (corpus.held_out, held_out)):
                rows = ["".join(map(chr, split.row(i)[0])) for i in range(len(split))]
                self.assertEqual([wanted] if len(wanted) > 1 else [], rows)
        # What is not private, and what is common to all, needs a whole row.
        self.write("a.txt", "abcd")
        self.assertEqual(0, len(self.open().train))
        how = Reading(run_pb2.DataSpec(kind="text", private=True), Characters(), 4)
        self.assertEqual(0, len(open_corpus(how, self.top, 1.0).held_out))

    def test_the_digest_tells_corpora_apart(self):
        """Broken: peers would train on other data than the run's."""
        self.write("a.txt", "abcdefghi")
        first = self.open().digest()
        self.assertEqual(first, self.open().digest())
        self.assertNotEqual(first, self.open(validation_fraction=0.5).digest())
        self.write("a.txt", "abcdefghj")
        self.assertNotEqual(first, self.open().digest())

    def test_a_prepared_folder_is_of_the_models_tokenizer_and_whole(self):
        """Broken: ids of another tokenizer would be trained on, or a folder that was changed."""
        parts = {"train": bytes(range(20)), "validation": bytes(range(9))}
        told = {"width": 1, "vocabulary": 200, "tokenizer": "bpe", "tokenizer_digest": "ab" * 32,
                "train_tokens": 20, "validation_tokens": 9,
                "content_digest": hashlib.sha256(b"".join(parts.values())).hexdigest()}
        for name, content in parts.items():
            self.write(f"{name}.bin", content)

        def opened(digests=(b"\xab" * 32,), **change):
            self.write("data.json", json.dumps({**told, **change}))
            return open_corpus(Reading(run_pb2.DataSpec(kind="text"), Characters(), 4, 0, digests),
                               self.top)
        corpus = opened()
        self.assertEqual((4, 2), (len(corpus.train), len(corpus.held_out)))
        self.refused("was prepared by abab.* and the model's tokenizer has SHA-256 cdcd", opened,
                     (b"\xcd" * 32,))
        with self.assertRaisesRegex(WorkerFailure, r"was prepared as bytes \(bytes\)"):
            opened(tokenizer_digest="", tokenizer="bytes")
        for change, wanted in (({"train_tokens": 21}, "it has 20 tokens, not 21"),
                               ({"vocabulary": 19}, "has token 19 at byte 19; the vocabulary has"),
                               ({"content_digest": "00" * 32}, "its SHA-256 is")):
            with self.assertRaisesRegex(WorkerFailure, wanted):
                opened(**change)

    def test_validation_text_that_is_trained_on_is_counted(self):
        """Broken: a loss on text that was trained on would be taken for one on new text."""
        draw = random.Random(1)
        text = "".join(draw.choice("abcdefgh ") for _ in range(6400))
        self.write("a.txt", text)
        self.assertEqual([], self.open(validation_fraction=0.2).notes)
        # The half that validates is the other half, moved: all but its first piece are found.
        self.write("a.txt", text + "a b" + text)
        self.assertIn("99 of 100 pieces of 64 tokens of the validation part stand in the training "
                      "part too", self.open(validation_fraction=0.5).notes[0])
        self.write("a.txt", text + "x" * 12700)
        self.assertEqual([], self.open(validation_fraction=0.5).notes)
        os.remove(os.path.join(self.top, "a.txt"))
        self.write("a.jsonl", '{"prompt": "a", "completion": "b"}\n' * 3)
        self.assertIn("1 of 1 record of the validation part stands in the training part too",
                      self.open(validation_fraction=0.3).notes[0])

    def test_common_text_that_a_party_trains_on_is_counted(self):
        """Broken: the loss on the common set would be taken for one on new text."""
        draw = random.Random(2)
        text = "".join(draw.choice("abcdefgh ") for _ in range(640))
        self.write("a.txt", text)
        own = self.open(validation_fraction=0.5).train
        self.write("a.txt", text[64:256] + text[512:])
        self.assertEqual("3 of 5 pieces of 64 tokens of the common validation set stand in this "
                         "peer's own training text too; the validation loss is better for it",
                         note_of_common(own, self.open(validation_fraction=1.0).held_out))
        self.write("a.txt", text[320:])
        self.assertIsNone(note_of_common(own, self.open(validation_fraction=1.0).held_out))
        os.remove(os.path.join(self.top, "a.txt"))
        self.write("a.jsonl", '{"prompt": "a", "completion": "b"}\n')
        talks = self.open(validation_fraction=1.0).held_out
        self.assertIn("1 of 1 record of the common validation set stands in",
                      note_of_common(talks, talks))
        self.assertIsNone(note_of_common(own, talks))

    def test_instructions_are_a_row_each(self):
        """Broken: the model would learn to say the user's words, or learn across two records."""
        records = [{"prompt": "ab", "completion": "c"}, {"prompt": "abcdef", "completion": "g"}]
        self.write("a.jsonl", "\n".join(map(json.dumps, records)))
        corpus = self.open()
        self.assertEqual(1, len(corpus.train))
        ids, counted = corpus.train.row(0)
        self.assertEqual([97, 98, 99, 0], list(ids))
        self.assertEqual([False, True, True], list(counted))
        self.assertIn("1 rows were left out: within 4 tokens", corpus.notes[0])
        self.write("b.txt", "prose")
        self.refused("has both text and records", self.open)

    def test_unknown_and_missing_data_is_named(self):
        """Broken: a peer would say nothing of use where its data is wrong."""
        def opened(path, **spec):
            return open_corpus(Reading(run_pb2.DataSpec(kind="text", **spec), Characters(), 4),
                               path)
        self.write("a.txt", "abc")
        self.refused("end_of_text: the tokenizer has no '<none>'",
                     lambda: opened(self.top, end_of_text="<none>"))
        self.refused("No such file or directory", opened, self.top + "/none")
        self.refused("sources is not for", opened, "a\nb")
        self.refused("path is missing", opened, "")
        for key, value in (("chat_template", "chatml"), ("loss_on", "all"), ("packing", "join")):
            self.refused("is not for models of kind", lambda: opened(self.top, **{key: value}))


class Growing(Characters):
    """A template as of models that think: only the last answer has its thoughts."""

    def apply_chat_template(self, messages, tokenize, add_generation_prompt, tools=None):
        text = f"[{len(tools)} tools]" if tools else ""
        for place, one in enumerate(messages):
            calls = "".join(f"<{call}>" for call in one.get("tool_calls") or [])
            last = one["role"] == "assistant" and place + 1 == len(messages)
            if one["role"] == "system":
                raise ValueError("System role not supported")
            text += f"{one['role'][0]}:{'(thinks)' if last else ''}{one['content']}{calls};"
        return text + ("a:" if add_generation_prompt else "")


class TalkTest(Case):

    TALK = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "yes"},
            {"role": "user", "content": "z"}, {"role": "assistant", "content": "no"}]

    def learnt(self, record, tokenizer=None):
        """The text of each example, with what is learnt of it in brackets; and the notes."""
        record.file, record.place = "a.jsonl", "line 1"
        told, shown = Told(), []
        for ids, counted in examples_of(record, tokenizer or Characters(), told):
            text, before = "", False
            for one, now in zip(ids, counted):
                text += ("]" if before else "[") * bool(before != now) + chr(one)
                before = now
            shown.append(text + "]" * bool(before))
        return shown, told.notes()

    def wrong(self, wanted, record, tokenizer=None):
        with self.assertRaisesRegex(BadRecord, wanted):
            self.learnt(record, tokenizer)

    def test_only_the_assistants_words_count(self):
        """Broken: the loss would be of the questions too."""
        self.assertEqual((["u:x;a:[yes;]u:z;a:[no;]"], []), self.learnt(Record(self.TALK)))
        self.assertEqual(["u:x;a:yes;u:z;a:[no;]"], self.learnt(Record(self.TALK, 3))[0])
        talk = [*self.TALK[:3], {**self.TALK[3], "weight": 0}]
        self.assertEqual(["u:x;a:[yes;]u:z;a:no;"], self.learnt(Record(talk))[0])

    def test_an_answer_that_is_written_in_another_way_later_is_a_row_of_its_own(self):
        """Broken: under a template that rewrites history all answers but the last would not be
        learnt."""
        shown, notes = self.learnt(Record(self.TALK), Growing())
        self.assertEqual(["u:x;a:yes;u:z;a:[(thinks)no;]", "u:x;a:[(thinks)yes;]"], shown)
        self.assertIn("in 1 record (first a.jsonl: line 1) the template writes an answer in another"
                      " way", notes[0])
        asked = [*self.TALK[:2], {"role": "user", "content": "?"}]
        self.assertEqual(["u:x;a:[(thinks)yes;]"], self.learnt(Record(asked), Growing())[0])

    def test_no_record_is_in_both_parts(self):
        """Broken: one answer of a conversation would be trained on and another one validate."""
        self.write("a.jsonl", (json.dumps({"messages": self.TALK}) + "\n") * 4)
        spec = run_pb2.DataSpec(kind="text", validation_fraction=0.5)
        corpus = open_corpus(Reading(spec, Growing(), 100), self.top)
        self.assertEqual((4, 4), (len(corpus.train), len(corpus.held_out)))

    def test_calls_of_tools_are_written_or_refused(self):
        """Broken: a call would be learnt as an empty answer, or beside tools that nobody named."""
        talk = [self.TALK[0], {"role": "assistant", "content": "", "tool_calls": ["f"], "id": "c1"}]
        tools = [{"name": "f"}]
        shown, notes = self.learnt(Record(talk, tools=tools), Growing())
        self.assertEqual(["[1 tools]u:x;a:[(thinks)<f>;]"], shown)
        self.assertIn('the template does not write "id" of a message', notes[0])
        self.wrong('has "tools", which the tokenizer\'s chat template does not write',
                   Record(self.TALK, tools=tools))
        self.wrong('has "tool_calls" in a message, which the tokenizer\'s chat', Record(talk))
        self.wrong("has an empty answer in message 2", Record([self.TALK[0], {
            "role": "assistant", "content": ""}]))

    def test_a_record_that_the_template_refuses_is_named_or_left_out(self):
        """Broken: one record that a template does not take would end a run that skips bad lines."""
        good = json.dumps({"messages": self.TALK})
        bad = json.dumps({"messages": [{"role": "system", "content": "s"}, *self.TALK]})
        path = self.write("a.jsonl", f"{good}\n{bad}\n{good}\n")

        def opened(on_bad_line):
            spec = run_pb2.DataSpec(kind="text", on_bad_line=on_bad_line)
            return open_corpus(Reading(spec, Growing(), 100), path)
        self.refused(r"a.jsonl: line 2 is not taken by the tokenizer's chat template: System role "
                     r"not supported \(\[data\] on_bad_line", opened, "stop")
        corpus = opened("skip")
        self.assertEqual(4, len(corpus.train))
        self.assertIn("1 bad line was skipped: ", corpus.notes[0])

    def test_a_template_that_says_it_in_another_way_is_refused(self):
        """Broken: some tokens of the question would count, or the answer would not."""
        class Moody(Characters):
            def apply_chat_template(self, messages, tokenize, add_generation_prompt, tools=None):
                return f"{len(messages)} " + super().apply_chat_template(messages, tokenize,
                                                                         add_generation_prompt)
        self.wrong("give prompt and completion", Record(self.TALK), Moody())

    def test_what_a_template_leaves_out_is_told(self):
        """Broken: a turn would be lost and nobody would know."""
        class Deaf(Characters):
            def apply_chat_template(self, messages, tokenize, add_generation_prompt, tools=None):
                kept = [one for one in messages if one["role"] != "system"]
                return super().apply_chat_template(kept, tokenize, add_generation_prompt)
        talk = [{"role": "system", "content": "brief!"}, *self.TALK]
        self.assertIn("the template does not write a turn as it stands",
                      self.learnt(Record(talk, unused=["id"]), Deaf())[1][1])
        self.assertIn('"id" is not trained on', self.learnt(Record(talk, unused=["id"]))[1][0])


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
                values.append(len(made.parts[0].state))
            self.assertEqual([1, 1], values)

    @unittest.skipIf(torch is None, "python3-torch is not installed")
    def test_a_tensor_that_was_frozen_begins_anew(self):
        """Broken: an expert of other peers would cost memory for moments, or be trained on with
        moments of long ago."""
        from atoll_worker.huggingface.optimizer import InnerOptimizer
        inner = run_pb2.InnerSpec(optimizer="adamw", learning_rate=0.1, beta1=0.9, beta2=0.99,
                                  weight_decay=0.5)
        one, other = (torch.nn.Parameter(torch.ones(2, 2)) for _ in range(2))
        made = InnerOptimizer(inner, [("one", one), ("other", other)])

        def step(*trained):
            for weight in trained:
                weight.grad = torch.ones(2, 2)
            made.step(5)
        step(one, other)
        before = other.detach().clone()
        made.forget(other)
        step(one)
        self.assertTrue(torch.equal(before, other))
        self.assertEqual([one], list(made.parts[0].state))
        step(one, other)
        self.assertEqual(1, int(made.parts[0].state[other]["step"]))
        self.assertEqual(3, int(made.parts[0].state[one]["step"]))


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

    def test_weights_of_another_form_are_no_random_start(self):
        """Broken: a folder with weights that nobody reads would begin with random ones."""
        self.write("config.json", "{}")
        for name in ("model.gguf", "consolidated.00.pth", "model.safetensors.index.json"):
            path = self.write(name, "weights")
            self.refused(f"has no model.safetensors but {name}", ModelFolder(self.top).weights)
            os.remove(path)
        self.write("pytorch_model.bin", "weights")
        self.assertTrue(ModelFolder(self.top).has_weights)

    def test_adapters_name_their_base(self):
        """Broken: adapters would be trained on top of a model that is not theirs."""
        self.write("base/config.json", "{}")
        self.write("base/model.safetensors", "weights")
        self.write("base/tokenizer.json", "{}")
        self.write("adapter/adapter_config.json", json.dumps(
            {"base_model_name_or_path": self.top + "/base"}))
        folder = ModelFolder(self.top + "/adapter")
        self.assertTrue(folder.is_adapter)
        self.assertEqual([self.top + "/base/model.safetensors"], folder.weights())
        self.assertEqual(self.top + "/base", folder.tokenizer_folder())
        self.write("adapter/adapter_config.json", json.dumps(
            {"base_model_name_or_path": "someone/model"}))
        self.refused("'someone/model', which is not a folder here", ModelFolder,
                     self.top + "/adapter")

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
        self.refused("not the state of a run", export.read_state, io.BytesIO(b"\xff" * 8))


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
            self.assertIn("pip install 'atoll[hf]'", said)
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
