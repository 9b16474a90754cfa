"""A test with a folder of its own, text in it, and runs on that text."""

import json
import os
import shutil
import tempfile
import unittest

from cluster import atoll, write_corpus


class TextCase(unittest.TestCase):

    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="atoll-e2e-")
        self.addCleanup(shutil.rmtree, self.top)
        self.text = self.at("text.txt")
        write_corpus(self.text)

    def at(self, name):
        return os.path.join(self.top, name)

    def write(self, name, text):
        with open(self.at(name), "w", encoding="utf-8") as file:
            file.write(text)

    def train(self, config, name="run", *more):
        """Runs this config to its end in the folder `name` and returns the report."""
        self.write("run.toml", config)
        done = atoll("local", "--config", self.at("run.toml"), "--dir", self.at(name), "--json",
                     self.at("out.json"), *more, timeout=200)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        with open(self.at("out.json"), encoding="utf-8") as file:
            return json.load(file)
