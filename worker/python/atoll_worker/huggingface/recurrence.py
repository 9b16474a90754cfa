"""Text that is evaluated on and trained on too, counted as atoll-worker counts it
(worker/data/recurrence.h): then the loss says how well the model remembers."""

from typing import Any, Optional, Sequence

import numpy as np

LENGTH = 64               # tokens of a piece, some two sentences; a power of 2
MOST_PIECES = 65536
MOST_TRAIN = 1 << 26      # tokens that are looked at
TOGETHER = 1 << 20
BASE = 0x9e3779b97f4a7c15  # odd; 2^64 by the golden ratio
MASK = (1 << 64) - 1
PARTS = ("the validation part", "the training part")
COMMON = ("the common validation set", "this peer's own training text")


def _hashes(ids: np.ndarray) -> np.ndarray:
    """Of each run of LENGTH ids: a polynomial in BASE modulo 2^64, made by doubling."""
    hashes, length = ids.astype(np.uint64) + np.uint64(1), 1
    while length < LENGTH:
        factor = np.uint64(pow(BASE, length, 1 << 64) & MASK)
        hashes = hashes[:-length] * factor + hashes[length:]
        length *= 2
    return hashes


def _pieces(validation: Any) -> np.ndarray:
    """The hashes of its pieces, but for those of one token again and again."""
    count = min(validation.tokens // LENGTH, MOST_PIECES)
    if count == 0:
        return np.empty(0, np.uint64)
    ids = validation.read(0, count * LENGTH)
    hashes = _hashes(ids)[::LENGTH]
    rows = ids.reshape(count, LENGTH)
    return hashes[(rows != rows[:, :1]).any(1)]


def note_of_packed(train: Any, validation: Any, names: Sequence[str] = PARTS) -> Optional[str]:
    """Of two rows of tokens. None: nothing was found. `names`: of what is evaluated and what is
    trained on."""
    pieces = _pieces(validation)
    known = np.unique(pieces)
    found = np.zeros(len(known), bool)
    for first in range(0, min(train.tokens, MOST_TRAIN) - LENGTH + 1, TOGETHER):
        if len(known) == 0:
            break
        ids = train.read(first, min(TOGETHER + LENGTH - 1, train.tokens - first))
        hashes = _hashes(ids)
        at = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
        found[at[known[at] == hashes]] = True
    count = int(np.isin(pieces, known[found]).sum())
    return _note(count, len(pieces), [f"piece of {LENGTH} tokens", f"pieces of {LENGTH} tokens"],
                 names)


def note_of_examples(train: Sequence[Any], validation: Sequence[Any],
                     names: Sequence[str] = PARTS) -> Optional[str]:
    """Of two lists of records, each its rows."""
    def name(record: Any) -> bytes:
        return b"|".join(ids.tobytes() for ids, _ in record)
    known = {name(one) for one in train}
    count = sum(name(one) in known for one in validation)
    return _note(count, len(validation), ["record", "records"], names)


def _note(found: int, looked_at: int, pieces: Sequence[str],
          names: Sequence[str]) -> Optional[str]:
    if not found:
        return None
    return (f"{found} of {looked_at} {pieces[looked_at != 1]} of {names[0]} "
            f"{'stands' if found == 1 else 'stand'} in {names[1]} too; the validation loss is "
            "better for it")
