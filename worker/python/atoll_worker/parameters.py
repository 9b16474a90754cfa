"""What a worker trains, as one flat vector of fp32 values.

The names, shapes and order of the tensors are the model's manifest, which must be the same at every
peer of a run.
"""

from typing import Dict, List, Mapping, Protocol, Tuple

import numpy as np

from atoll.v1 import worker_pb2
from atoll_worker.failure import WorkerFailure

Shapes = List[Tuple[str, Tuple[int, ...]]]


class Parameters(Protocol):
    """The seam between a training library and the run."""

    def shapes(self) -> Shapes:
        """Names and shapes, in the order in which their values lie in the flat vector."""

    def read(self, flat: np.ndarray) -> None:
        """Copies the values into `flat` (fp32)."""

    def write(self, flat: np.ndarray) -> None:
        """Takes the values from `flat`, bit by bit."""

    # Where the values lie in several places there may also be put_aside() and put_back(), without
    # arguments: between the two they may be written, and then they are what they were.

    # A run in which peers own experts, or train slices of adapters, needs freeze(names) as well.
    # The tensors with these names are not trained until the next call: no step may move them. All
    # others are trained.


def elements(shapes: Shapes) -> int:
    return sum(int(np.prod(shape, dtype=np.int64)) for _, shape in shapes)


def frozen_names(train: worker_pb2.TrainSteps, shapes: Shapes) -> List[str]:
    """The tensors in TrainSteps.frozen. They must be whole, and must not be all."""
    names: List[str] = []
    ranges = [(one.first, one.first + one.count) for one in train.frozen]
    if any(end > first for (_, end), (first, _) in zip(ranges, ranges[1:])):
        raise WorkerFailure(f"version {train.version}: the ranges of TrainSteps.frozen must be "
                            "ascending and disjoint")
    offset, covered, at = 0, 0, 0
    for name, shape in shapes:
        begin, offset = offset, offset + elements([(name, shape)])
        # Tensors and ranges ascend, so a range that ends before this tensor's end has no later one.
        while at < len(ranges) and ranges[at][1] < offset:
            at += 1
        if at < len(ranges) and ranges[at][0] <= begin:
            names.append(name)
            covered += offset - begin
    wanted = sum(end - first for first, end in ranges)
    if covered != wanted:
        raise WorkerFailure(f"version {train.version}: TrainSteps.frozen has {wanted} values, of "
                            f"which {covered} are in whole tensors; all must be")
    if names and covered == offset:
        raise WorkerFailure(f"version {train.version}: TrainSteps.frozen has every tensor of the "
                            "model; at least one must be trained")
    return names


def pieces(shapes: Shapes, flat: np.ndarray) -> List[np.ndarray]:
    """The parts of `flat` in the shapes of the tensors: views."""
    views, offset = [], 0
    for _, shape in shapes:
        size = int(np.prod(shape, dtype=np.int64))
        views.append(flat[offset:offset + size].reshape(shape))
        offset += size
    return views


class Arrays:
    """numpy arrays of fp32 that are trained in place: w -= rate * gradient, w[:] = new."""

    def __init__(self, arrays: Mapping[str, np.ndarray]):
        self._arrays: Dict[str, np.ndarray] = dict(arrays)
        for name, array in self._arrays.items():
            if array.dtype != np.float32:
                raise WorkerFailure(f"parameter {name} is of {array.dtype}; it must be float32")

    def shapes(self) -> Shapes:
        return [(name, array.shape) for name, array in self._arrays.items()]

    def read(self, flat: np.ndarray) -> None:
        for array, piece in zip(self._arrays.values(), pieces(self.shapes(), flat)):
            piece[...] = array

    def write(self, flat: np.ndarray) -> None:
        for array, piece in zip(self._arrays.values(), pieces(self.shapes(), flat)):
            array[...] = piece
