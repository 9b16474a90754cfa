"""Would fail if atoll-hf-worker read a file in another way than atoll-worker does.

tests/unit/worker/data/reading_cases.json holds the files and what is right; reading_cases_test.cc
runs the same cases against the other reader.
"""

import json
import os
import struct
import tempfile
import unittest

import packages  # noqa: F401

from atoll.v1 import run_pb2
from atoll_worker import WorkerFailure
from atoll_worker.huggingface.data import Reading, open_corpus
from atoll_worker.huggingface.documents import TextRules, documents
from characters import Characters

CASES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data",
                     "reading_cases.json")
CODES = {"u1": "B", "u2": "H", "u4": "I", "i4": "i", "u8": "Q", "i8": "q"}


def content(parts):
    made = b""
    for part in parts:
        (kind, value), = part.items()
        if kind == "text":
            made += value.encode()
        elif kind == "hex":
            made += bytes.fromhex(value)
        elif kind == "zeros":
            made += bytes(value)
        else:
            made += struct.pack(f"<{len(value)}{CODES[kind]}", *value)
    return made


class ReadingTest(unittest.TestCase):

    def check(self, case, top):
        for file in case["files"]:
            path = os.path.join(top, file["path"])
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as out:
                out.write(content(file["parts"]))
        spec = run_pb2.DataSpec(kind=case.get("kind", "text"), width=case.get("width", 0),
                                field=case.get("field", ""),
                                on_bad_line="skip" if case.get("skip") else "stop")
        how = Reading(spec, Characters(), 1000, case.get("vocabulary", 0))
        if "says" in case:
            with self.assertRaises(WorkerFailure) as caught:
                open_corpus(how, top)
            self.assertIn(case["says"], str(caught.exception))
            return
        corpus = open_corpus(how, top)
        for note in case.get("notes", ()):
            self.assertIn(note, "\n".join(corpus.notes))
        for name, rows in (("train", corpus.train), ("validation", corpus.held_out)):
            if name in case:
                self.assertEqual(case[name], list(rows.read(0, rows.tokens)))
        found = [] if "train" in case else list(documents(top, TextRules(
            spec.kind, spec.field, spec.on_bad_line == "skip")))
        if "texts" in case:
            self.assertEqual(case["texts"], found)
        if "chats" in case:
            self.assertEqual(case["chats"], [[[one["role"], one["content"]]
                                              for one in record.messages] for record in found])

    def test_the_cases_that_both_readers_have(self):
        """Broken: the same files would be other data to the one worker than to the other."""
        with open(CASES, encoding="utf-8") as source:
            cases = json.load(source)
        self.assertGreater(len(cases), 50)
        for case in cases:
            with self.subTest(case["name"]), tempfile.TemporaryDirectory() as top:
                self.check(case, top)


if __name__ == "__main__":
    unittest.main(verbosity=2)
