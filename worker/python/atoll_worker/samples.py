"""Which samples a step trains on, and which rows of a data set they are."""

from typing import List

import numpy as np

from atoll.v1 import worker_pb2
from atoll_worker.failure import WorkerFailure


def of_step(train: worker_pb2.TrainSteps, step: int, batch: int) -> List[int]:
    """The run's sample numbers of one step: the leased ranges, read one after the other; without a
    lease (private data) the run's own numbering of steps."""
    skip = step * batch
    if not train.samples:
        first = train.first_step * batch + skip
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
