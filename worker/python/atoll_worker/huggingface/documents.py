"""Files as documents: text, records of JSON, records of Parquet. Needs no tokenizer.

The rules are those of docs/data.md: a folder is all files under it in the order of their paths,
hidden ones left out, and what is neither text nor records is refused by name.
"""

import json
import os
from dataclasses import dataclass
from typing import Dict, Iterator, List, Tuple, Union

from atoll_worker.failure import WorkerFailure
from atoll_worker.huggingface.needs import need

LINES = (".jsonl", ".ndjson")
TOKENS = (".bin", ".npy")
REFUSED = (".csv", ".tsv", ".gz", ".zst", ".xz", ".bz2", ".zip", ".arrow", ".pdf", ".safetensors")

Record = Dict[str, object]
Document = Union[str, Record]  # a record has "messages", or "prompt" and "completion"


@dataclass
class TextRules:
    """[data] kind, field and on_bad_line; `skipped` counts the lines that were left out."""

    kind: str = "text"
    field: str = ""
    skip_bad_lines: bool = False
    skipped: int = 0


def files_under(path: str) -> List[str]:
    """The files of a place, in the order of their paths."""
    if os.path.isfile(path):
        return [path]
    if not os.path.isdir(path):
        raise WorkerFailure(f"data '{path}': no such file or folder")
    found = []
    for folder, folders, names in os.walk(path, followlinks=True):
        folders[:] = sorted(one for one in folders if not one.startswith("."))
        found += [os.path.join(folder, name) for name in names if not name.startswith(".")]
    if not found:
        raise WorkerFailure(f"data '{path}': the folder holds no files")
    return sorted(found)


def suffix_of(path: str) -> str:
    return os.path.splitext(path)[1].lower()


def documents(path: str, rules: TextRules) -> Iterator[Document]:
    """All documents of a place, one after the other."""
    for file in files_under(path):
        suffix = suffix_of(file)
        as_records = rules.kind == "jsonl" or (
            rules.kind == "text" and (bool(rules.field) or suffix in LINES + (".json",)))
        if rules.kind != "plain" and suffix == ".parquet":
            yield from _parquet(file, rules)
        elif rules.kind == "text" and suffix in REFUSED:
            raise WorkerFailure(f"data '{file}': files of form {suffix} are not read; take text, "
                                "lines of JSON or Parquet")
        elif as_records:
            yield from _json(file, rules)
        else:
            text = _text(file)
            if text:
                yield text


def _text(file: str) -> str:
    try:
        with open(file, encoding="utf-8", newline="") as source:
            return source.read()
    except UnicodeDecodeError as error:
        raise WorkerFailure(f"data '{file}': byte {error.start} is no UTF-8") from None
    except OSError as error:
        raise WorkerFailure(f"data '{file}': {error.strerror}") from None


def _json(file: str, rules: TextRules) -> Iterator[Document]:
    text = _text(file)
    if suffix_of(file) == ".json" and text.lstrip().startswith("["):
        try:
            records = json.loads(text)
        except ValueError as error:
            raise WorkerFailure(f"data '{file}': no JSON: {error}") from None
        for number, record in enumerate(records, 1):
            yield from _checked(file, f"element {number}", record, rules)
        return
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            yield from _bad(file, f"line {number}", f"no JSON: {error}", rules)
            continue
        yield from _checked(file, f"line {number}", record, rules)


def _parquet(file: str, rules: TextRules) -> Iterator[Document]:
    parquet = need("pyarrow.parquet", "pip install pyarrow")
    number = 0
    for batch in parquet.ParquetFile(file).iter_batches():
        for record in batch.to_pylist():
            number += 1
            yield from _checked(file, f"row {number}", record, rules)


def _bad(file: str, place: str, why: str, rules: TextRules) -> Tuple[()]:
    if not rules.skip_bad_lines:
        raise WorkerFailure(f"data '{file}': {place}: {why} (on_bad_line = \"skip\" leaves such "
                            "lines out)")
    rules.skipped += 1
    return ()


def _is_talk(value: object) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(
        isinstance(one, dict) and isinstance(one.get("role"), str) for one in value)


def _at(record: object, path: str) -> object:
    for part in path.split("."):
        if isinstance(record, list) and part.isdigit() and int(part) < len(record):
            record = record[int(part)]
        elif isinstance(record, dict):
            record = record.get(part)
        else:
            return None
    return record


def _checked(file: str, place: str, record: object, rules: TextRules) -> Iterator[Document]:
    """The record as a document. With a field it is the text there; all else is not looked at."""
    if not isinstance(record, dict):
        yield from _bad(file, place, "no JSON object", rules)
        return
    if not rules.field:
        if _is_talk(record.get("messages")):
            yield {"messages": record["messages"]}
            return
        prompt, completion = record.get("prompt"), record.get("completion")
        if isinstance(prompt, str) and isinstance(completion, str):
            yield {"prompt": prompt, "completion": completion}
            return
        if _is_talk(prompt) and _is_talk(completion):
            yield {"messages": prompt + completion, "asked": len(prompt)}
            return
    text = _at(record, rules.field or "text")
    if isinstance(text, str):
        yield text
        return
    yield from _bad(file, place, f"no text under '{rules.field}'" if rules.field else
                    "neither text, messages, nor prompt and completion", rules)
