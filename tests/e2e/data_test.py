"""Would fail if text could not be prepared, looked at, trained on and generated from by the command
line, or if a worker with other data were let into a run."""

import json
import math
import os
import shutil
import subprocess
import unittest

from cluster import BIN, Cluster, atoll, equal_digests, token_file, wait_for
from text_case import TextCase

HERE = os.path.dirname(os.path.abspath(__file__))
TOKENIZER = os.path.join(HERE, "..", "unit", "worker", "data", "vectors", "gpt2.json")

CONFIG = """
[run]
rounds = 4
peers = 2
[model]
layers = 1
heads = 2
width = 32
context = 32
[data]
sources = "tokens:0.75,more:0.25"
[inner]
steps = 3
batch = 4
[evaluation]
tokens = 2048
"""


# It goes on until it is stopped.
JOINED = """
[run]
rounds = 5000
quorum = 2
[model]
layers = 1
heads = 2
width = 32
context = 32
[data]
path = "{books}"
tokenizer = "{tokenizer}"
[inner]
steps = 3
batch = 4
[evaluation]
tokens = 2048
every_rounds = 0
[membership]
failure_timeout = "3s"
"""


class DataTest(TextCase):

    def prepare(self, name, tokenizer, *more):
        done = atoll("data", "prepare", "--input", self.text, "--output", self.at(name),
                     "--tokenizer", tokenizer, "--json", *more)
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout)

    def inspect(self, path, *more):
        done = atoll("data", "inspect", path, "--json", *more)
        return done.returncode, json.loads(done.stdout)

    def test_prepared_data_says_what_it_is(self):
        made = self.prepare("chars", "chars", "--validation-fraction", "0.25")
        size = os.path.getsize(self.text)
        self.assertEqual(size, made["train_tokens"] + made["validation_tokens"])
        self.assertEqual(size * 3 // 4, made["train_tokens"])
        code, seen = self.inspect(self.at("chars"), "--tokens", "12")
        self.assertEqual(0, code)
        self.assertEqual("prepared", seen["kind"])
        self.assertEqual(made["vocabulary"], seen["vocabulary"])
        with open(self.text, encoding="utf-8") as text:
            self.assertEqual(text.read(12), seen["first_text"])
        self.assertEqual([], seen["errors"])
        with open(self.at("chars/train.bin"), "r+b") as file:
            file.write(b"\xff")
        code, seen = self.inspect(self.at("chars"))
        self.assertEqual(2, code)
        self.assertIn("chars/train.bin has token 255 at byte 0", seen["errors"][0])

    def test_wrong_calls_end_in_one_line(self):
        done = atoll("data", "prepare", "--input", self.at("none"), "--output", self.at("out"))
        self.assertEqual(2, done.returncode)
        self.assertEqual(1, len(done.stderr.splitlines()), done.stderr)
        self.assertIn("none: No such file", done.stderr)
        done = atoll("data", "prepare", "--input", self.text)
        self.assertEqual(2, done.returncode)
        self.assertIn("--output", done.stderr)

    def test_a_run_mixes_sources_and_its_text_is_decoded(self):
        made = self.prepare("tokens", TOKENIZER)
        self.assertEqual(made, {**self.prepare("more", TOKENIZER), "seconds": made["seconds"]})
        report = self.train(CONFIG)
        # A model of that vocabulary that knows nothing: its logarithm.
        self.assertLess(abs(report["initial_val_loss"] - 6.09), 0.3)
        said = self.generate()
        self.assertEqual(0, said.returncode, said.stderr)
        text = json.loads(said.stdout)["text"]
        self.assertTrue(text.startswith("the island"), text)
        self.assertGreater(len(text), len("the island") + 10)
        # The run's tokenizer and no other.
        for peer in ("peer-1", "peer-2"):
            os.remove(self.at(f"run/{peer}/worker-state.tokenizer"))
        said = self.generate()
        self.assertEqual(2, said.returncode)
        self.assertIn("--tokenizer bytes is not the run's, which has SHA-256", said.stderr)

    def test_the_vocabulary_of_characters_is_counted(self):
        """Of plain text, which a run of its own peers need not be told."""
        with open(self.text, "a", encoding="utf-8") as text:
            text.write("naïve façade 中文\n")
        with open(self.text, encoding="utf-8") as text:
            characters = len(set(text.read()))
        config = CONFIG.replace('sources = "tokens:0.75,more:0.25"',
                                'path = "text.txt"\ntokenizer = "chars"')
        report = self.train(config)
        self.assertEqual(1, len({peer["state_digest"] for peer in report["peers"]}))
        self.assertLess(abs(report["initial_val_loss"] - math.log(characters)), 0.3)
        for peer in ("peer-1", "peer-2"):
            with open(self.at(f"run/{peer}/config.toml"), encoding="utf-8") as file:
                self.assertIn(f"vocabulary = {characters} ", file.read())
        said = self.generate()
        self.assertEqual(0, said.returncode, said.stderr)
        planned = atoll("plan", "--config", self.at("run.toml"), "--json", "-")
        self.assertEqual(0, planned.returncode, planned.stderr)
        self.assertEqual(report["parameters"], json.loads(planned.stdout)["parameters"])
        # A coordinator has no text to count in.
        self.write("lead.toml", config + '[coordinator]\ndir = "lead"\n')
        done = atoll("config", "validate", self.at("lead.toml"), "--for", "coordinator")
        self.assertEqual(2, done.returncode, done.stdout)
        self.assertIn("[model] vocabulary is missing: with [data] tokenizer 'chars'", done.stderr)
        self.assertIn("`atoll data prepare`", done.stderr)
        # Text that cannot be counted ends it before anything is started.
        with open(self.text, "wb") as text:
            text.write(b"not UTF-8: \xff\n")
        done = atoll("local", "--config", self.at("run.toml"), "--dir", self.at("none"))
        self.assertEqual(2, done.returncode, done.stdout)
        self.assertEqual(1, len(done.stderr.splitlines()), done.stderr)
        self.assertIn("text.txt", done.stderr)
        self.assertFalse(os.path.exists(self.at("none")))
        planned = atoll("plan", "--config", self.at("run.toml"))
        self.assertEqual(2, planned.returncode, planned.stdout)
        self.assertEqual(1, len(planned.stderr.splitlines()), planned.stderr)
        self.assertIn("text.txt", planned.stderr)
        self.assertIn("--parameters", planned.stderr)

    def test_a_joiner_brings_its_data_and_nothing_else(self):
        """The tokenizer, and what says where a text ends, comes from the run's peers; what does not
        come is asked for before the token is spent."""
        for name in ("tokenizer.json", "books/one.txt", "books/two.txt"):
            os.makedirs(os.path.dirname(self.at(name)), exist_ok=True)
            shutil.copy(TOKENIZER if name.endswith("json") else self.text, self.at(name))
        self.write("tokenizer_config.json", '{"eos_token": "<|end|>"}')
        shutil.copytree(self.at("books"), self.at("copy"))
        text = JOINED.format(books=self.at("books"), tokenizer=self.at("tokenizer.json"))
        with Cluster(text=text, peers=2) as cluster:
            cluster.wait_version(1)
            made = atoll("token", "create", "--dir", cluster.dir, "--peer", "late", "--json")
            token = json.loads(made.stdout)["token"]
            handed = ["--token-file", token_file(self.at("late.token"), token)]
            call = [os.path.join(BIN, "atolld"), "join", *handed, "--dir", self.at("late")]
            for more, lacks in (([], "name it with --data"),
                                (["--data", self.at("copy"), "--tokenizer", self.text],
                                 "differs from the run's tokenizer.json")):
                done = subprocess.run([*call, *more], capture_output=True, text=True, timeout=60,
                                      check=False)
                self.assertEqual(2, done.returncode, done.stderr)
                self.assertIn(lacks, done.stderr.splitlines()[-1])
            self.assertIn("The token is not spent", done.stderr)
            tokens = json.loads(atoll("token", "list", "--dir", cluster.dir, "--json").stdout)
            self.assertIn("open", json.dumps(tokens))
            checked = atoll("check", *handed, "--dir", self.at("late"))
            self.assertEqual(0, checked.returncode, checked.stdout)
            self.assertIn("comes from the run's peers", checked.stdout)
            self.assertRegex(checked.stdout, "good +speed: .* tokens/s on cpu")
            with open(self.at("late.log"), "w", encoding="utf-8") as log:
                cluster.restarted.append(subprocess.Popen(
                    [*call, "--data", self.at("copy")], stdout=log, stderr=subprocess.STDOUT))
            wait_for("the joiner trains",
                     lambda: (cluster.peer("late") or {}).get("rounds_contributed", 0) > 0)
            with open(self.at("late/files/tokenizer/tokenizer_config.json"),
                      encoding="utf-8") as file:
                self.assertIn("<|end|>", file.read())
            with open(self.at("late.log"), encoding="utf-8") as log:
                self.assertNotIn(cluster.dir, log.read())
            self.assertEqual(0, atoll("run", "stop", "--dir", cluster.dir).returncode)
            self.assertTrue(equal_digests(cluster.finish()))

    def generate(self):
        return atoll("generate", "--dir", self.at("run"), "--prompt", "the island", "--tokens",
                     "30", "--json", timeout=100)


if __name__ == "__main__":
    unittest.main()
