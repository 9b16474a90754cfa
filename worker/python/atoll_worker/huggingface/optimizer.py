"""The inner optimiser: AdamW, Muon or SGD, with the run's schedule and clip.

As atoll-worker has them (worker/training/inner_optimizer.h): weight decay on tensors of two or more
dimensions alone; Muon steps the matrices that have a number in their name, AdamW all others, and
its step is 0.2 sqrt(max(rows, columns)) long ("Muon is scalable for LLM training",
arXiv:2502.16982).
"""

import os
from typing import Any, Dict, List, Optional, Sequence, Tuple

from atoll.v1 import run_pb2
from atoll_worker.failure import WorkerFailure
from atoll_worker.huggingface.needs import need
from atoll_worker.huggingface.schedule import learning_rate

Named = Sequence[Tuple[str, Any]]


def is_muons(name: str, parameter: Any) -> bool:
    return parameter.ndim == 2 and any(part.isdigit() for part in name.split("."))


def _adamw(torch: Any, inner: run_pb2.InnerSpec, parameters: Sequence[Any], fused: bool) -> Any:
    groups = [{"params": [one for one in parameters if one.ndim >= 2],
               "weight_decay": inner.weight_decay},
              {"params": [one for one in parameters if one.ndim < 2], "weight_decay": 0.0}]
    more = {"fused": True} if fused else {}
    return torch.optim.AdamW([one for one in groups if one["params"]], lr=inner.learning_rate,
                             betas=(inner.beta1, inner.beta2), **more)


class InnerOptimizer:
    """Steps all of a model's trained parameters. Its state is one peer's own."""

    def __init__(self, inner: run_pb2.InnerSpec, named: Named, fused: bool = False):
        torch = need("torch")
        self._torch, self._inner = torch, inner
        self._parameters = [one for _, one in named]
        name = inner.optimizer or "adamw"
        if name == "sgd":
            self.parts = [torch.optim.SGD(self._parameters, lr=inner.learning_rate)]
        elif name == "adamw":
            self.parts = [_adamw(torch, inner, self._parameters, fused)]
        elif name == "muon":
            self.parts = self._muon(named, fused)
        else:
            raise WorkerFailure(f"[inner] optimizer '{name}' is not known here; 'adamw', 'muon' "
                                "and 'sgd' are")

    def _muon(self, named: Named, fused: bool) -> List[Any]:
        torch = self._torch
        if not hasattr(torch.optim, "Muon"):
            raise WorkerFailure("[inner] optimizer 'muon' needs PyTorch 2.9 or newer, and this is "
                                f"{torch.__version__}; take 'adamw'")
        muons = [one for name, one in named if is_muons(name, one)]
        others = [one for name, one in named if not is_muons(name, one)]
        if not muons:
            raise WorkerFailure("[inner] optimizer 'muon': the model has no matrices in blocks; "
                                "take 'adamw'")
        parts = [torch.optim.Muon(
            muons, lr=self._inner.learning_rate, weight_decay=self._inner.weight_decay,
            momentum=self._inner.muon_momentum, adjust_lr_fn="match_rms_adamw")]
        return parts + ([_adamw(torch, self._inner, others, fused)] if others else [])

    def step(self, number: int) -> None:
        """One step with the gradients that are there; `number` is of the run's schedule."""
        if self._inner.gradient_clip > 0:
            self._torch.nn.utils.clip_grad_norm_(self._parameters, self._inner.gradient_clip)
        rate = learning_rate(self._inner, number)
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = rate
            part.step()
            part.zero_grad(set_to_none=True)

    def forget(self, parameter: Any) -> None:
        """Drops the state of a parameter. When it has a gradient again, it begins with fresh state,
        the number of steps included."""
        for part in self.parts:
            part.state.pop(parameter, None)

    def save(self, path: str, run_id: str) -> None:
        if path:
            self.write(path, run_id, [part.state_dict() for part in self.parts])

    def write(self, path: str, run_id: str, states: List[Any]) -> None:
        """As save(), of states that are the parts' own in another place."""
        state: Dict[str, Any] = {"run": run_id, "optimizer": self._inner.optimizer,
                                 "parts": states}
        self._torch.save(state, path + ".new")
        os.replace(path + ".new", path)

    def read(self, path: str, run_id: str, **more: Any) -> Optional[List[Any]]:
        """The parts' states; None: there are none of this run and optimiser."""
        if not path or not os.path.isfile(path):
            return None
        try:
            state = self._torch.load(path, map_location="cpu", weights_only=True, **more)
            same = state["run"] == run_id and state["optimizer"] == self._inner.optimizer
            return list(state["parts"]) if same else None
        except Exception as error:  # whatever torch.load says of a file that is none
            self._unused(path, error)
            return None

    def load(self, path: str, run_id: str) -> bool:
        """False: there is none of this run and optimiser, and nothing has changed."""
        states = self.read(path, run_id)
        if states is None:
            return False
        try:
            for part, kept in zip(self.parts, states):
                part.load_state_dict(kept)
        except Exception as error:  # it is of other parameters
            self._unused(path, error)
            return False
        return True

    @staticmethod
    def _unused(path: str, error: Exception) -> None:
        print(f"the optimiser's state in {path} is not used: {error}", flush=True)
