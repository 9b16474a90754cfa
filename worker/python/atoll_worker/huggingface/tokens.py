"""Token files of other programs, and folders of them: which ids they hold, or why they are refused.

The rules and the words are those of atoll-worker (worker/data/token_file.h, folder_files.h); the
cases in tests/unit/worker/data/reading_cases.json are run against both.
"""

import os
import re
from typing import List, Optional, Sequence, Tuple

import numpy as np

from atoll_worker.failure import WorkerFailure

TOKENS = (".bin", ".npy")
TEXTS = (".txt", ".jsonl", ".ndjson")
NUMPY = b"\x93NUMPY"
LLMC = {20240520: 2, 20240801: 4}  # llm.c's magic numbers, and the bytes of an id behind them
LLMC_HEADER = 1024
TYPES = ("|u1", "<u2", "<u4", "<i4", "<u8", "<i8")
MOST_OF_16_BITS = 65536
LOOK = 65536           # ids that are looked at where their width is not known
FEWEST = 16            # of them, for a look to say anything
HIGHEST, LOW = 32, 256  # a high half is below the one, beside a low half of at least the other
PIECE = 1 << 22        # ids that are looked at at once
SPLITS = {"train": "train", "training": "train", "val": "held out", "valid": "held out",
          "validation": "held out", "dev": "held out", "eval": "held out", "test": "test"}


def counted(count: int, one: str) -> str:
    return f"{count} {one}{'' if count == 1 else 's'}"


def _wrong(path: str, what: str) -> WorkerFailure:
    return WorkerFailure(f"data: {path} {what}")


def bare(path: str, width: int, first: int = 0) -> np.ndarray:
    """A file of bare ids from byte `first` on, mapped."""
    size = os.path.getsize(path) - first
    if size % width:
        raise _wrong(path, f"ends in the middle of a token: {counted(size, 'byte')} from byte "
                           f"{first} on, {width} a token")
    form = f"<u{width}"
    return np.memmap(path, form, "r", first) if size else np.empty(0, form)


def _llmc(path: str, magic: int) -> np.ndarray:
    with open(path, "rb") as source:
        header = source.read(LLMC_HEADER)
    if len(header) < LLMC_HEADER:
        raise _wrong(path, f"ends at byte {len(header)}, inside the header of {LLMC_HEADER}")
    _, version, said = np.frombuffer(header[:12], "<i4")
    new = magic == 20240801  # came with version 7 of the format, and others write 1
    if version != 1 and not (new and version == 7):
        raise _wrong(path, f"has version {version} at byte 4; it must be {'7 or 1' if new else 1}")
    ids = bare(path, LLMC[magic], LLMC_HEADER)
    if len(ids) != said:
        raise _wrong(path, f"has {counted(len(ids), 'token')}; the header says {said} at byte 8")
    return ids


def _npy(path: str) -> np.ndarray:
    with open(path, "rb") as source:
        all_ = source.read(1 << 16)
    start = 10 if all_[6:7] == b"\x01" else 12
    length = int.from_bytes(all_[8:start], "little")
    if all_[6:7] not in (b"\x01", b"\x02", b"\x03") or len(all_) < start + length:
        raise _wrong(path, "has a broken NumPy header at byte 6")
    header = all_[start:start + length].decode("latin-1")
    named = re.search(r"'descr': *('[^']*'|[^,]*)", header)
    form = named.group(1) if named else ""
    if form.startswith("'>"):
        raise _wrong(path, f"is big-endian, type {form} at byte {start}; save it with the type "
                           f"'<{form[2:4]}'")
    if form.strip("'") not in TYPES:
        raise _wrong(path, f"has elements of type {form} at byte {start}; known: u1, u2, u4, i4, "
                           "u8, i8")
    shape = re.search(r"'shape': *(\([^)]*\))", header)
    one = re.fullmatch(r"\((\d+),\)", shape.group(1) if shape else "")
    if one is None:
        raise _wrong(path, f"has shape {shape.group(1) if shape else ''} at byte {start}; it must "
                           "have one dimension: save array.reshape(-1)")
    ids = bare(path, int(form[3]), start + length).view(form.strip("'"))
    if len(ids) != int(one.group(1)):
        raise _wrong(path, f"has {counted(len(ids), 'token')}; the header at byte {start} says "
                           f"{one.group(1)}")
    return ids


def _width_by_look(ids: np.ndarray) -> int:
    """What ids of 4 or 8 bytes look like when they are read as of 2: behind each stand its high
    parts, which are 0 or, of vocabularies up to 2^21, nearly so. 0: they do not look so."""
    some = ids[:min(len(ids), LOOK) // 4 * 4]
    if len(some) < FEWEST:
        return 0
    most = [int(some[place::4].max()) for place in range(4)]
    high, low = max(most[1], most[3]), max(most[0], most[2])
    if low == 0 or (high > 0 and (high >= HIGHEST or low < LOW)):
        return 0
    return 8 if most[2] == 0 and most[3] == 0 else 4


def _bare_of(path: str, width: int, vocabulary: int) -> np.ndarray:
    if width:
        return bare(path, width)
    if vocabulary > MOST_OF_16_BITS:
        raise _wrong(path, "is of bare ids, which do not say how wide they are, and a vocabulary "
                           f"of {vocabulary} needs more than 16 bits; set [data] width (--width) "
                           "to 4 if they are of 32 bits, or to 2 if all of this file are below "
                           "65,536")
    ids = bare(path, 2)
    found = _width_by_look(ids)
    if found:
        raise _wrong(path, "read as ids of 16 bits has 0, or nearly so, as every second id: "
                           f"uint{8 * found}? Set [data] width (--width) to {found}, or to 2 if "
                           "16 bits are right")
    return ids


def check_ids(path: str, ids: np.ndarray, vocabulary: int, header: bool) -> None:
    """WorkerFailure, with the byte: an id is not below `vocabulary`."""
    for first in range(0, len(ids), PIECE):
        piece = ids[first:first + PIECE]
        bad = np.flatnonzero((piece >= vocabulary) | (piece < 0))
        if len(bad) == 0:
            continue
        at = first + int(bad[0])
        start = os.path.getsize(path) - len(ids) * ids.itemsize
        wider = not header and ids.itemsize == 2
        raise _wrong(path, f"has token {ids[at]} at byte {start + at * ids.itemsize}; the "
                           f"vocabulary has {vocabulary}" +
                     ("; read as bare ids of 16 bits: uint32? Then set [data] width (--width) to 4"
                      if wider else ""))


def token_file(path: str, width: int = 0, vocabulary: int = 0) -> np.ndarray:
    """The ids of a file, mapped. `width` is that of bare ids in bytes; 0: 2, if the file and the
    vocabulary allow it. `vocabulary` is the model's; 0: not known."""
    with open(path, "rb") as source:
        head = source.read(12)
    if not head:
        raise _wrong(path, "is empty")
    magic = int.from_bytes(head[:4], "little")
    header = True
    if head.startswith(NUMPY):
        ids = _npy(path)
    elif magic in LLMC and len(head) >= 4:
        ids = _llmc(path, magic)
    elif path.endswith(".npy") and width == 0:
        raise _wrong(path, "does not begin with NumPy's magic number at byte 0; if it is of bare "
                           "ids, as np.memmap writes them, set [data] width (--width) to 2 for "
                           "uint16 or to 4 for uint32")
    else:
        header, ids = False, _bare_of(path, width, vocabulary)
    if len(ids) == 0:
        raise _wrong(path, "holds no tokens")
    if width and ids.itemsize != width:
        raise _wrong(path, f"has ids of {counted(ids.itemsize, 'byte')}, as its header says, and "
                           f"width is {width}; leave width out")
    if vocabulary:
        check_ids(path, ids, vocabulary, header)
    return ids


def _split_of(path: str) -> Optional[str]:
    """By the words of the name, which are runs of letters."""
    stem = os.path.splitext(os.path.basename(path))[0].lower()
    return next((SPLITS[one] for one in re.findall("[a-z]+", stem) if one in SPLITS), None)


def _content(folder: str) -> Tuple[List[str], List[str], int]:
    """Token files, texts, and how many others lie in the folder itself."""
    tokens, texts, others = [], [], 0
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        content = re.sub(r"\.(gz|zst|zstd)$", "", name)
        if name.startswith(".") or not os.path.isfile(path):
            continue
        if name.endswith(TOKENS):
            tokens.append(path)
        elif content.endswith(TEXTS):
            texts.append(path)
        else:
            others += 1
    return tokens, texts, others


def _names_split(files: Sequence[str]) -> bool:
    found = [_split_of(one) for one in files]
    return "train" in found and "held out" in found


def holds_tokens(path: str) -> bool:
    """Whether a place is a token file, or a folder that holds some itself. WorkerFailure: it holds
    text beside them, and no name says which of the two is meant."""
    if not os.path.isdir(path):
        return path.endswith(TOKENS)
    tokens, texts, _ = _content(path)
    if not tokens or not texts or _names_split(tokens):
        return bool(tokens)
    raise _wrong(path, f"holds token files ({tokens[0]}) and text ({texts[0]}); keep them in "
                       "folders of their own, or set [data] kind (--kind)")


def token_shards(path: str) -> Tuple[List[str], List[str], List[str]]:
    """The files that train, those that validate (none: the tail does), and what was left out."""
    if not os.path.isdir(path):
        return [path], [], []
    tokens, texts, others = _content(path)
    if not tokens:
        raise _wrong(path, "holds no token file (.bin or .npy)")
    split, left_out = _names_split(tokens), 0
    train: List[str] = []
    held_out: List[str] = []
    for one in tokens:
        role = _split_of(one)
        if role == "test" or (split and role is None):
            left_out += 1
        else:
            (held_out if split and role == "held out" else train).append(one)
    notes = []
    if not train:
        train, left_out = tokens, 0
    if left_out:
        notes.append(f"{counted(left_out, 'token file')} in {path} was left out: its name says "
                     "neither train nor val")
    if others + len(texts):
        notes.append(f"{counted(others + len(texts), 'file')} in {path} "
                     f"{'is' if others + len(texts) == 1 else 'are'} not of tokens and left out")
    return train, held_out, notes


def read_tokens(path: str, width: int, vocabulary: int
                ) -> Tuple[List[np.ndarray], List[np.ndarray], List[str]]:
    """The ids that train, those that validate, and notes."""
    train, held_out, notes = token_shards(path)
    parts: List[np.ndarray] = []
    for one in train + held_out:
        parts.append(token_file(one, width, vocabulary))
        if parts[0].itemsize != parts[-1].itemsize:
            raise _wrong(one, f"has ids of {counted(parts[-1].itemsize, 'byte')}, and the files "
                              f"before it have ids of {parts[0].itemsize}; all files of a folder "
                              "must have the same")
    return parts[:len(train)], parts[len(train):], notes
