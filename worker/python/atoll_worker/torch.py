"""PyTorch models in an Atoll run: `run.rounds(attach(model))`."""

from typing import Collection, List, Tuple

import numpy as np
import torch

from atoll_worker.failure import WorkerFailure
from atoll_worker.parameters import Shapes, pieces


class Module:
    """The trainable parameters of a module, in the order of named_parameters(). Its buffers and
    frozen parameters stay each peer's own."""

    def __init__(self, model: torch.nn.Module):
        self._named: List[Tuple[str, torch.nn.Parameter]] = [
            (name, one) for name, one in model.named_parameters() if one.requires_grad]
        for name, one in self._named:
            if one.dtype != torch.float32:
                raise WorkerFailure(f"parameter {name} is of {one.dtype}; train it as float32, "
                                    "with autocast where less is enough")

    def shapes(self) -> Shapes:
        return [(name, tuple(one.shape)) for name, one in self._named]

    def read(self, flat: np.ndarray) -> None:
        for (_, one), piece in zip(self._named, pieces(self.shapes(), flat)):
            piece[...] = one.detach().cpu().numpy()

    def write(self, flat: np.ndarray) -> None:
        with torch.no_grad():
            for (_, one), piece in zip(self._named, pieces(self.shapes(), flat)):
                one.copy_(torch.from_numpy(piece))

    def freeze(self, names: Collection[str]) -> None:
        """Without a gradient no optimiser of PyTorch moves a parameter, nor does weight decay. The
        state that an optimiser has of it is for its owner to drop: Round.frozen names them."""
        for name, one in self._named:
            one.requires_grad_(name not in names)
            if name in names:
                one.grad = None


def attach(model: torch.nn.Module) -> Module:
    """What run.rounds() needs of a model; an optimiser of the model's parameters stays valid."""
    return Module(model)
