"""What a worker trains, as one flat vector of fp32 values.

The names, shapes and order of the tensors are the model's manifest, which must be the same at every
peer of a run.
"""

from typing import Dict, List, Mapping, Protocol, Tuple

import numpy as np

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


def elements(shapes: Shapes) -> int:
    return sum(int(np.prod(shape, dtype=np.int64)) for _, shape in shapes)


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
