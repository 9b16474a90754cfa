"""JAX parameters in an Atoll run: a tree whose value is replaced, since its arrays never change.

    tree = Tree(parameters)
    for round in run.rounds(tree): ... tree.value = update(tree.value, batch)
"""

from typing import Any

import jax
import numpy as np

from atoll_worker.failure import WorkerFailure
from atoll_worker.parameters import Shapes, pieces


class Tree:
    """Any tree of fp32 arrays; a leaf's path is its name."""

    def __init__(self, value: Any):
        self.value = value
        for name, leaf in self._leaves():
            if leaf.dtype != np.float32:
                raise WorkerFailure(f"parameter {name} is of {leaf.dtype}; it must be float32")

    def _leaves(self) -> "list[tuple[str, Any]]":
        named, _ = jax.tree_util.tree_flatten_with_path(self.value)
        return [(jax.tree_util.keystr(path), leaf) for path, leaf in named]

    def shapes(self) -> Shapes:
        return [(name, tuple(leaf.shape)) for name, leaf in self._leaves()]

    def read(self, flat: np.ndarray) -> None:
        for (_, leaf), piece in zip(self._leaves(), pieces(self.shapes(), flat)):
            piece[...] = np.asarray(leaf)

    def write(self, flat: np.ndarray) -> None:
        leaves = [jax.numpy.array(piece) for piece in pieces(self.shapes(), flat)]
        structure = jax.tree_util.tree_structure(self.value)
        self.value = jax.tree_util.tree_unflatten(structure, leaves)
