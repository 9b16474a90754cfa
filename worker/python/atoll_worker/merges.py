"""What a worker does that trains on while an entry is on its way (worker.proto, Merge): when it
takes the entry in, and how. No parameters are touched but in merge_into()."""

import struct
from typing import List

import numpy as np

from atoll.v1 import worker_pb2
from atoll_worker.failure import WorkerFailure

STARTS = ("", "own", "guess")


def start_of(train: worker_pb2.TrainSteps) -> str:
    """TrainSteps.start, checked."""
    if train.start not in STARTS:
        raise WorkerFailure(f"version {train.version}: TrainSteps.start is '{train.start}'; this "
                            "worker knows '', 'own' and 'guess'")
    if train.start == "own" and train.party:
        raise WorkerFailure(f"version {train.version}, party {train.party}: TrainSteps.start is "
                            "'own'; virtual parties train in turn and have no parameters of their "
                            "own")
    return train.start


class MergePoint:
    """The order of a training's steps and of the merges that come."""

    def __init__(self) -> None:
        self._awaited = 0  # version of the merge that the training waits for; 0: none
        self._after = 0    # so many steps
        self._merged = 0   # newest version that was merged
        self._pending: List[worker_pb2.Merge] = []

    def begin(self, train: worker_pb2.TrainSteps, own: bool) -> None:
        """A training begins. From `own` parameters what has come and is not merged stays to be
        merged; from others it is in them, or of no use to them."""
        if not own:
            self._merged = max([self._merged] + [one.version for one in self._pending])
            self._pending = []
        self._awaited = train.merge_version if train.merge_version > self._merged else 0
        self._after = train.merge_after

    def add(self, merge: worker_pb2.Merge) -> None:
        self._pending.append(merge)

    def _has_awaited(self) -> bool:
        return any(one.version >= self._awaited for one in self._pending)

    def waits(self, done: int, steps: int) -> bool:
        """A training that has done `done` of its `steps` goes no further before a merge comes."""
        return self._awaited != 0 and done >= min(self._after, steps) and not self._has_awaited()

    def take(self, done: int, steps: int) -> List[worker_pb2.Merge]:
        """What is to be merged now, in the order in which it came, by such a training, or by a
        worker that trains nothing."""
        if self._awaited and done >= min(self._after, steps) and self._has_awaited():
            self._awaited = 0
        # What is older than the awaited one belongs to an entry from before this training.
        due = [one for one in self._pending if not self._awaited or one.version < self._awaited]
        self._pending = [one for one in self._pending if one not in due]
        self._merged = max([self._merged] + [one.version for one in due])
        return due


def merge_into(merge: worker_pb2.Merge, theta: np.ndarray, base: np.ndarray,
               parameters: np.ndarray) -> None:
    """Merges theta into base and parameters, flat and of one size, as worker.proto says of Merge:
    in fp32, each operation rounded. `theta` is a copy."""
    own = np.float32(struct.unpack("<f", struct.pack("<I", merge.own_share_bits))[0])
    if not merge.rebase and not 0 <= own <= 1:
        raise WorkerFailure(f"Merge of version {merge.version}: own_share is {own}; it is 0 to 1")
    parts = [(one.first, one.count) for one in merge.ranges] or [(0, theta.size)]
    for first, count in parts:
        if first + count > theta.size:
            raise WorkerFailure(f"Merge of version {merge.version}: {count} values from {first} "
                                f"on; the model has {theta.size}")
    for first, count in parts:
        part = slice(first, first + count)
        if merge.rebase:
            parameters[part] += theta[part] - base[part]
        else:
            parameters[part] = own * parameters[part] + (np.float32(1) - own) * theta[part]
        base[part] = theta[part]
