"""Which samples a step trains on, and which rows of a data set they are."""

import json
import os
from typing import Dict, List

import numpy as np

from atoll.v1 import worker_pb2
from atoll_worker.failure import WorkerFailure


def of_step(train: worker_pb2.TrainSteps, step: int, batch: int) -> List[int]:
    """The run's sample numbers of one step: the leased ranges, read one after the other; without a
    lease the run's own numbering of steps."""
    skip = step * batch
    if not train.samples:
        first = (train.first_step + train.again * train.steps) * batch + skip
        return list(range(first, first + batch))
    numbers: List[int] = []
    for leased in train.samples:
        if skip >= leased.count:
            skip -= leased.count
            continue
        count = min(leased.count - skip, batch - len(numbers))
        numbers.extend(range(leased.first + skip, leased.first + skip + count))
        skip = 0
        if len(numbers) == batch:
            return numbers
    leased = sum(one.count for one in train.samples)
    raise WorkerFailure(f"the lease has {leased} samples; {train.steps} steps of {batch} need "
                        f"{train.steps * batch}")


class Order:
    """Sample numbers to rows: pass after pass over all rows, each in an order of its own that
    follows from the run's seed, so that every peer computes the same."""

    def __init__(self, seed: int, rows: int):
        if rows < 1:
            raise WorkerFailure(f"a data set of {rows} rows; a step needs at least one")
        self._seed, self._rows = seed, rows
        self._epoch = -1
        self._permutation = np.empty(0, np.int64)

    def row(self, sample: int) -> int:
        epoch, place = divmod(sample, self._rows)
        if epoch != self._epoch:
            generator = np.random.Generator(np.random.PCG64([self._seed, epoch]))
            self._permutation = generator.permutation(self._rows)
            self._epoch = epoch
        return int(self._permutation[place])


def share_of(count: int, share: int, shares: int) -> "tuple[int, int]":
    """[first, end) of one of `shares` equal parts of `count` held-out samples."""
    if not 0 <= share < shares:
        raise WorkerFailure(f"share {share} of {shares}")
    return count * share // shares, count * (share + 1) // shares


MASK = (1 << 64) - 1


def _mix(value: int) -> int:
    """The finaliser of SplitMix64 (Steele, Lea, Flood 2014)."""
    value = (value + 0x9e3779b97f4a7c15) & MASK
    value = ((value ^ (value >> 30)) * 0xbf58476d1ce4e5b9) & MASK
    value = ((value ^ (value >> 27)) * 0x94d049bb133111eb) & MASK
    return value ^ (value >> 31)


def pass_of(seed: int, party: int, version: int) -> int:
    """The pass with which a party begins a round of which nothing is kept: as atoll-worker's."""
    return _mix((seed & MASK) ^ _mix(party ^ _mix(version))) >> 32


class Places:
    """How many samples of its own data each party has gone through in the rounds that it finished.

    Kept in a small file beside the worker's state, so that the next start goes on there."""

    def __init__(self, state_path: str, run_id: str):
        self._path = f"{state_path}.places" if state_path else ""
        self._run_id = run_id
        self._places: Dict[str, int] = {}
        try:
            with open(self._path, encoding="utf-8") as file:
                kept = json.load(file)
            if kept["run"] == run_id:
                self._places = {str(key): int(place) for key, place in kept["places"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            pass  # there is none, or it is no such file: the data begins at its start

    def of(self, party: int) -> int:
        return self._places.get(str(party), 0)

    def advance(self, party: int, place: int) -> None:
        self._places[str(party)] = place
        if not self._path:
            return
        made = self._path + ".new"
        with open(made, "w", encoding="utf-8") as file:
            json.dump({"run": self._run_id, "places": self._places}, file)
        os.replace(made, self._path)
