"""Rows as the tensors of a step."""

from typing import Iterator, List, Sequence, Tuple

import numpy as np

from atoll_worker.huggingface.data import Row, Rows

IGNORED = -100  # torch.nn.functional.cross_entropy's ignore_index


def collate(rows: Sequence[Row], padding: int) -> "Tuple[np.ndarray, np.ndarray, np.ndarray]":
    """Ids that go in, those that are to come out (IGNORED where none counts), and which of those
    that go in are real; all of [rows, length of the longest]."""
    longest = max(len(ids) - 1 for ids, _ in rows)
    inputs = np.full((len(rows), longest), padding, np.int64)
    targets = np.full((len(rows), longest), IGNORED, np.int64)
    real = np.zeros((len(rows), longest), np.int64)
    for place, (ids, counted) in enumerate(rows):
        size = len(ids) - 1
        inputs[place, :size] = ids[:-1]
        targets[place, :size] = np.where(counted, ids[1:], IGNORED)
        real[place, :size] = 1
    return inputs, targets, real


def parts(rows: Sequence[Row], count: int) -> Iterator[Sequence[Row]]:
    """In `count` parts of nearly equal size, none of them empty."""
    for part in range(count):
        some = rows[len(rows) * part // count:len(rows) * (part + 1) // count]
        if some:
            yield some


def chosen(rows: Rows, numbers: Sequence[int]) -> List[Row]:
    return [rows.row(int(number)) for number in numbers]
