"""What a step trains on: rows of token ids, and which of their tokens count in the loss.

Text is packed: documents one after the other with the end-of-text token between them, cut into rows
of `context` tokens and the one after. Records of instructions are rows of their own, cut at
`context`.
"""

import hashlib
import json
import os
from typing import Any, List, Optional, Protocol, Sequence, Tuple

import numpy as np

from atoll.v1 import run_pb2
from atoll_worker.failure import WorkerFailure
from atoll_worker.huggingface.documents import TextRules, documents
from atoll_worker.huggingface.examples import Told, examples_of
from atoll_worker.huggingface.records import BadRecord, Record
from atoll_worker.huggingface.recurrence import COMMON, note_of_examples, note_of_packed
from atoll_worker.huggingface.tokens import (bare, check_ids, counted, holds_tokens,
                                             read_tokens)

Row = Tuple[np.ndarray, np.ndarray]  # n + 1 ids; for the last n of them, whether they count
BATCH = 1000                         # documents that the tokenizer gets at once
PIECE = 1 << 22                      # tokens that are looked at at once

PREPARED = ("width", "vocabulary", "tokenizer", "tokenizer_digest", "train_tokens",
            "validation_tokens", "content_digest")  # what data.json says of a prepared folder


class Rows(Protocol):
    """Rows of one split."""

    def __len__(self) -> int: ...

    def row(self, index: int) -> Row: ...

    def digest(self, hashed: Any) -> None:
        """Takes all that it holds into a hash."""

    def largest(self) -> int:
        """The largest token id; -1 of none."""


class Packed:
    """A row of tokens, cut into rows that do not overlap but for the one that is predicted."""

    def __init__(self, parts: Sequence[np.ndarray], context: int):
        self._parts = [part for part in parts if len(part)]
        self._ends = np.cumsum([len(part) for part in self._parts], dtype=np.int64)
        self._context = context
        self.tokens = int(self._ends[-1]) if self._parts else 0

    def __len__(self) -> int:
        return max(0, (self.tokens - 1) // self._context)

    def read(self, first: int, count: int) -> np.ndarray:
        """`count` tokens from `first` on; they must be there."""
        out, at = np.empty(count, np.int64), 0
        part = int(np.searchsorted(self._ends, first, side="right"))
        place = first - (int(self._ends[part - 1]) if part else 0)
        while at < count:
            some = self._parts[part][place:place + count - at]
            out[at:at + len(some)] = some
            at, part, place = at + len(some), part + 1, 0
        return out

    def row(self, index: int) -> Row:
        ids = self.read(index * self._context, self._context + 1)
        return ids, np.ones(self._context, bool)

    def cut(self, first: int, end: int) -> "Packed":
        parts, at = [], 0
        for part in self._parts:
            parts.append(part[max(first - at, 0):max(end - at, 0)])
            at += len(part)
        return Packed(parts, self._context)

    def as_row(self) -> "Packed":
        """Itself; if it is too short for a row, it is one row as long as it is, from two tokens
        on."""
        return Packed(self._parts, min(self._context, max(1, self.tokens - 1)))

    def _pieces(self) -> Any:
        for part in self._parts:
            for first in range(0, len(part), PIECE):
                yield part[first:first + PIECE]

    def digest(self, hashed: Any) -> None:
        hashed.update(b"packed" + self.tokens.to_bytes(8, "little"))
        for piece in self._pieces():
            hashed.update(piece.astype("<u4").tobytes())

    def largest(self) -> int:
        return max((int(piece.max()) for piece in self._pieces()), default=-1)


class Examples:
    """A row for each record; those of which nothing counts are left out."""

    def __init__(self, rows: List[Row]):
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def records(self) -> List[List[Row]]:
        """Each row as a record of its own."""
        return [[row] for row in self._rows]

    def row(self, index: int) -> Row:
        return self._rows[index]

    def digest(self, hashed: Any) -> None:
        hashed.update(b"examples" + len(self._rows).to_bytes(8, "little"))
        for ids, counted in self._rows:
            hashed.update(len(ids).to_bytes(8, "little") + ids.astype("<u4").tobytes() +
                          counted.tobytes())

    def largest(self) -> int:
        return max((int(ids.max()) for ids, _ in self._rows), default=-1)


class Corpus:
    """Both splits of a place, and what its owner should know of them."""

    def __init__(self, train: Rows, held_out: Rows, notes: Sequence[str] = ()):
        self.train, self.held_out, self.notes = train, held_out, list(notes)

    def digest(self) -> bytes:
        hashed = hashlib.sha256(b"atoll.huggingface.data")
        self.train.digest(hashed)
        self.held_out.digest(hashed)
        return hashed.digest()


def note_of_common(train: Rows, common: Rows) -> Optional[str]:
    """For a party that trains on `train` and is evaluated on a set that all parties have. None: no
    text is in both."""
    if isinstance(train, Packed) and isinstance(common, Packed):
        return note_of_packed(train, common, COMMON)
    if isinstance(train, Examples) and isinstance(common, Examples):
        return note_of_examples(train.records(), common.records(), COMMON)
    return None


class Reading:
    """How a run's data is read: the rules of [data], and what the model's folder says."""

    def __init__(self, spec: run_pb2.DataSpec, tokenizer: Any, context: int, vocabulary: int = 0,
                 digests: Sequence[bytes] = ()):
        self.spec, self.tokenizer, self.context = spec, tokenizer, context
        self.vocabulary = vocabulary  # of the model; 0: not known
        self.digests = digests        # SHA-256 of each of the tokenizer's files


def open_corpus(how: Reading, path: str, fraction: Optional[float] = None) -> Corpus:
    """What lies at `path`; `fraction` (default: the run's) is held out. Of private data both splits
    may be shorter than a row (docs/data.md), unless all is held out as the common set."""
    corpus = _open(how, path, fraction)
    if how.spec.private and fraction is None:
        if isinstance(corpus.train, Packed) and isinstance(corpus.held_out, Packed):
            corpus.train, corpus.held_out = corpus.train.as_row(), corpus.held_out.as_row()
    return corpus


def _open(how: Reading, path: str, fraction: Optional[float]) -> Corpus:
    spec = how.spec
    if "\n" in path:
        raise WorkerFailure("[data] sources is not for models of kind 'huggingface': name one file "
                            "or folder as [data] path, and no tokenizer but the model's")
    for key, value, usual in (("template", spec.chat_template, ""),
                              ("loss_on", spec.loss_on, "completions"),
                              ("packing", spec.packing, "none")):
        if value not in ("", usual):
            raise WorkerFailure(f"[data] {key} = \"{value}\" is not for models of kind "
                                "'huggingface', which write conversations with the template of "
                                "their tokenizer and learn the answers; leave it out")
    if not path:
        raise WorkerFailure("[data] path is missing: the text to train on, a file or a folder")
    if not os.path.exists(path):
        raise WorkerFailure(f"data: {path}: No such file or directory")
    fraction = spec.validation_fraction if fraction is None else fraction
    prepared = os.path.isfile(os.path.join(path, "data.json"))
    if spec.kind == "prepared" and not prepared:
        raise WorkerFailure(f"data: {path} is not a folder of `atoll data prepare` (no data.json)")
    if spec.kind == "prepared" or (spec.kind == "text" and prepared):
        return _prepared(how, path)
    if spec.kind in ("bin", "npy") or (spec.kind == "text" and holds_tokens(path)):
        train, held_out, notes = read_tokens(path, spec.width, how.vocabulary)
        packed = Packed(train, how.context)
        if not held_out:
            return _packed(*_split(packed, fraction), notes)
        return _packed(packed, Packed(held_out, how.context), notes)
    return _text(how, path, fraction)


def _packed(train: Packed, held_out: Packed, notes: List[str]) -> Corpus:
    recurs = note_of_packed(train, held_out)
    return Corpus(train, held_out, notes + ([recurs] if recurs else []))


def _split(whole: Packed, fraction: float) -> Tuple[Packed, Packed]:
    train = int(whole.tokens * (1.0 - fraction))
    if fraction < 1:  # as atoll-worker's: from fewer than two nothing is learnt
        train = max(train, min(2, whole.tokens))
    return whole.cut(0, train), whole.cut(train, whole.tokens)


def _prepared(how: Reading, path: str) -> Corpus:
    with open(os.path.join(path, "data.json"), encoding="utf-8") as source:
        told = json.load(source)
    lacks = [key for key in PREPARED if key not in told]
    if lacks:
        raise WorkerFailure(f"data: {path}/data.json lacks {', '.join(lacks)}; prepare the folder "
                            "anew")
    if bytes.fromhex(told["tokenizer_digest"]) not in how.digests:
        was = f"by {told['tokenizer_digest']}" if told["tokenizer_digest"] else "as bytes"
        raise WorkerFailure(f"data: {path} was prepared {was} ({told['tokenizer']}), and the "
                            "model's tokenizer has SHA-256 "
                            f"{' or '.join(one.hex() for one in how.digests)}; prepare the text "
                            "anew with the tokenizer.json of the model")
    hashed, splits = hashlib.sha256(), []
    for name in ("train", "validation"):
        file = os.path.join(path, f"{name}.bin")
        ids = bare(file, told["width"])
        if len(ids) != told[f"{name}_tokens"]:
            raise WorkerFailure(f"data: {file} is not what data.json names: it has "
                                f"{counted(len(ids), 'token')}, not {told[f'{name}_tokens']}; "
                                "prepare the folder anew")
        check_ids(file, ids, told["vocabulary"], True)
        for first in range(0, len(ids), PIECE):
            hashed.update(ids[first:first + PIECE].tobytes())
        splits.append(Packed([ids], how.context))
    if hashed.hexdigest() != told["content_digest"]:
        raise WorkerFailure(f"data: {path}/train.bin is not what data.json names: with "
                            f"validation.bin its SHA-256 is {hashed.hexdigest()}; prepare the "
                            "folder anew")
    return _packed(splits[0], splits[1], [])


def _end_of_text(spec: run_pb2.DataSpec, tokenizer: Any) -> Optional[int]:
    if not spec.end_of_text:
        return tokenizer.eos_token_id
    found = tokenizer.convert_tokens_to_ids(spec.end_of_text)
    if found is None or found == tokenizer.unk_token_id:
        raise WorkerFailure(f"[data] end_of_text: the tokenizer has no '{spec.end_of_text}'")
    return int(found)


class _Texts:
    """Documents as one row of tokens, with the end of text between them."""

    def __init__(self, how: Reading):
        self._tokenizer, self._end = how.tokenizer, _end_of_text(how.spec, how.tokenizer)
        self._waiting: List[str] = []
        self._parts: List[np.ndarray] = []
        self.any = False

    def add(self, text: str) -> None:
        self.any = True
        self._waiting.append(text)
        if len(self._waiting) == BATCH:
            self._encode()

    def _encode(self) -> None:
        for ids in self._tokenizer(self._waiting, add_special_tokens=False)["input_ids"]:
            if self._parts and self._end is not None:
                self._parts.append(np.array([self._end], np.uint32))
            self._parts.append(np.array(ids, np.uint32))
        self._waiting.clear()

    def row(self) -> np.ndarray:
        if self._waiting:
            self._encode()
        return np.concatenate(self._parts) if self._parts else np.empty(0, np.uint32)


class _Talks:
    """Records of instructions as rows, those of one record together."""

    def __init__(self, how: Reading):
        self._tokenizer, self._context = how.tokenizer, how.context
        self._told = Told()
        self._left_out = self._cut = 0
        self.records: List[List[Row]] = []

    def add(self, record: Record) -> None:
        """BadRecord: as examples_of."""
        rows = []
        for ids, counted in examples_of(record, self._tokenizer, self._told):
            cut = counted[1:self._context + 1]
            if not cut.any():
                self._left_out += 1
                continue
            self._cut += int(counted.sum() > cut.sum())
            rows.append((ids[:self._context + 1], cut))
        if rows:
            self.records.append(rows)

    def notes(self) -> List[str]:
        notes = self._told.notes()
        if self._cut:
            notes.append(f"{self._cut} rows were cut at {self._context} tokens ([model] context) "
                         "inside what is learnt")
        if self._left_out:
            notes.append(f"{self._left_out} rows were left out: within {self._context} tokens "
                         "([model] context) they have nothing to learn")
        return notes

    def corpus(self, fraction: float, notes: List[str]) -> Corpus:
        """No record is in both parts."""
        split = int(len(self.records) * (1.0 - fraction))
        train, held_out = self.records[:split], self.records[split:]
        recurs = note_of_examples(train, held_out)
        return Corpus(Examples([row for rows in train for row in rows]),
                      Examples([row for rows in held_out for row in rows]),
                      notes + ([recurs] if recurs else []))


def _text(how: Reading, path: str, fraction: float) -> Corpus:
    rules = TextRules(how.spec.kind, how.spec.field, how.spec.on_bad_line == "skip")
    texts, talks = _Texts(how), _Talks(how)
    for document in documents(path, rules):
        if isinstance(document, str):
            texts.add(document)
            continue
        try:
            talks.add(document)
        except BadRecord as bad:
            rules.bad(document.file, document.place, str(bad))
    notes = rules.all_notes() + talks.notes()
    if talks.records and texts.any:
        raise WorkerFailure(f"data: {path} has both text and records of instructions; a run "
                            "trains on one of them")
    if talks.records:
        return talks.corpus(fraction, notes)
    row = texts.row()
    if len(row) == 0:
        raise WorkerFailure("; ".join([f"data: {path} holds no text"] + notes))
    return _packed(*_split(Packed([row], how.context), fraction), notes)
