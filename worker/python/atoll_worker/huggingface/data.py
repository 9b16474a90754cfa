"""What a step trains on: rows of token ids, and which of their tokens count in the loss.

Text is packed: documents one after the other with the end-of-text token between them, cut into rows
of `context` tokens and the one after. Records of instructions are a row each, cut at `context`.
"""

import hashlib
import json
import os
from typing import Any, List, Optional, Protocol, Sequence, Tuple

import numpy as np

from atoll.v1 import run_pb2
from atoll_worker.failure import WorkerFailure
from atoll_worker.huggingface.documents import (TOKENS, Document, TextRules, documents, files_under,
                                                suffix_of)
from atoll_worker.huggingface.examples import example_of

Row = Tuple[np.ndarray, np.ndarray]  # n + 1 ids; for the last n of them, whether they count
BATCH = 1000                         # documents that the tokenizer gets at once
PIECE = 1 << 22                      # tokens that are looked at at once
VALIDATION_WORDS = ("val", "valid", "validation", "dev", "eval")


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

    def _read(self, first: int, count: int) -> np.ndarray:
        out, at = np.empty(count, np.int64), 0
        part = int(np.searchsorted(self._ends, first, side="right"))
        place = first - (int(self._ends[part - 1]) if part else 0)
        while at < count:
            some = self._parts[part][place:place + count - at]
            out[at:at + len(some)] = some
            at, part, place = at + len(some), part + 1, 0
        return out

    def row(self, index: int) -> Row:
        ids = self._read(index * self._context, self._context + 1)
        return ids, np.ones(self._context, bool)

    def cut(self, first: int, end: int) -> "Packed":
        parts, at = [], 0
        for part in self._parts:
            parts.append(part[max(first - at, 0):max(end - at, 0)])
            at += len(part)
        return Packed(parts, self._context)

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


def open_corpus(spec: run_pb2.DataSpec, path: str, tokenizer: Any, context: int,
                fraction: Optional[float] = None) -> Corpus:
    """What lies at `path`, by the rules of [data]; `fraction` (default: the run's) is held out."""
    if "\n" in path:
        raise WorkerFailure("[data] sources is not for models of kind 'huggingface': name one file "
                            "or folder as [data] path, and no tokenizer but the model's")
    if not path:
        raise WorkerFailure("[data] path is missing: the text to train on, a file or a folder")
    fraction = spec.validation_fraction if fraction is None else fraction
    if os.path.isfile(os.path.join(path, "data.json")):
        return _prepared(path, tokenizer, context)
    if spec.kind in ("bin", "npy") or (
            spec.kind == "text" and all(suffix_of(one) in TOKENS for one in files_under(path))):
        return _token_files(spec, path, context, fraction)
    if spec.kind == "prepared":
        raise WorkerFailure(f"data '{path}': no folder of `atoll data prepare` (no data.json)")
    return _text(spec, path, tokenizer, context, fraction)


def _split(whole: Packed, fraction: float) -> Tuple[Packed, Packed]:
    train = int(whole.tokens * (1.0 - fraction))
    return whole.cut(0, train), whole.cut(train, whole.tokens)


def _prepared(path: str, tokenizer: Any, context: int) -> Corpus:
    with open(os.path.join(path, "data.json"), encoding="utf-8") as source:
        told = json.load(source)
    form = {1: "<u1", 2: "<u2", 4: "<u4"}[told["width"]]
    splits = [Packed([_mapped(os.path.join(path, name), form)], context)
              for name in ("train.bin", "validation.bin")]
    notes = []
    if told["vocabulary"] > len(tokenizer):
        notes.append(f"{path} was prepared for {told['vocabulary']} tokens; the model's tokenizer "
                     f"has {len(tokenizer)}")
    return Corpus(splits[0], splits[1], notes)


def _mapped(path: str, form: str, offset: int = 0) -> np.ndarray:
    size = os.path.getsize(path) - offset
    if size % np.dtype(form).itemsize:
        raise WorkerFailure(f"data '{path}': {size} bytes are no whole number of token ids of "
                            f"{np.dtype(form).itemsize} bytes")
    if size == 0:
        return np.empty(0, form)
    return np.memmap(path, form, "r", offset)


def _token_file(path: str, width: int) -> np.ndarray:
    with open(path, "rb") as source:
        head = source.read(12)
    if head[:6] == b"\x93NUMPY":
        tokens = np.load(path, mmap_mode="r", allow_pickle=False)
        if tokens.ndim != 1 or tokens.dtype.kind not in "iu":
            raise WorkerFailure(f"data '{path}': an array of {tokens.ndim} dimensions of "
                                f"{tokens.dtype}; token ids are one dimension of integers")
        return tokens
    magic = int.from_bytes(head[:4], "little")
    if magic in (20240520, 20240801):  # llm.c's: 256 int32 of header
        return _mapped(path, "<u2" if magic == 20240520 else "<u4", 1024)
    return _mapped(path, f"<u{width or 2}")


def _token_files(spec: run_pb2.DataSpec, path: str, context: int, fraction: float) -> Corpus:
    train, held_out = [], []
    for file in files_under(path):
        words = os.path.basename(file).lower().replace(".", "_").replace("-", "_").split("_")
        if "test" in words:
            continue
        valid = any(word in VALIDATION_WORDS for word in words)
        (held_out if valid else train).append(_token_file(file, spec.width))
    if held_out:
        return Corpus(Packed(train, context), Packed(held_out, context))
    return Corpus(*_split(Packed(train, context), fraction))


def _end_of_text(spec: run_pb2.DataSpec, tokenizer: Any) -> Optional[int]:
    if not spec.end_of_text:
        return tokenizer.eos_token_id
    found = tokenizer.convert_tokens_to_ids(spec.end_of_text)
    if found is None or found == tokenizer.unk_token_id:
        raise WorkerFailure(f"[data] end_of_text: the tokenizer has no '{spec.end_of_text}'")
    return int(found)


def _text(spec: run_pb2.DataSpec, path: str, tokenizer: Any, context: int,
          fraction: float) -> Corpus:
    rules = TextRules(spec.kind, spec.field, spec.on_bad_line == "skip")
    end = _end_of_text(spec, tokenizer)
    parts: List[np.ndarray] = []
    rows: List[Row] = []
    texts: List[str] = []
    left_out = 0

    def flush() -> None:
        if not texts:
            return
        for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]:
            if parts and end is not None:
                parts.append(np.array([end], np.uint32))
            parts.append(np.array(ids, np.uint32))
        texts.clear()

    for document in documents(path, rules):
        if isinstance(document, str):
            texts.append(document)
            if len(texts) == BATCH:
                flush()
            continue
        row = _cut(document, tokenizer, context)
        if row is None:
            left_out += 1
        else:
            rows.append(row)
    flush()
    notes = [f"{rules.skipped} bad lines were skipped"] if rules.skipped else []
    if left_out:
        notes.append(f"{left_out} records were left out: within {context} tokens ([model] context) "
                     "they have nothing to learn")
    if rows and parts:
        raise WorkerFailure(f"data '{path}' has both text and records of instructions; a run "
                            "trains on one of them")
    if rows:
        train = int(len(rows) * (1.0 - fraction))
        return Corpus(Examples(rows[:train]), Examples(rows[train:]), notes)
    whole = Packed([np.concatenate(parts)] if parts else [], context)
    return Corpus(*_split(whole, fraction), notes)


def _cut(record: Document, tokenizer: Any, context: int) -> Optional[Row]:
    ids, counted = example_of(record, tokenizer)
    ids, counted = ids[:context + 1], counted[1:context + 1]
    return (ids, counted) if counted.any() else None
