"""Several devices of one machine as one peer: each computes the gradient of its part of a batch.

The worker is rank 0 and alone speaks with the daemon. For each other device it starts a helper, a
process with a model and an optimiser of its own. All take the same steps with the sum of all
gradients, so their parameters stay equal; what a round or a rebase writes is sent to the helpers
before the next step. A helper ends when its worker does.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from typing import Any, Callable, Collection, FrozenSet, List, Optional, Sequence

import numpy as np

from atoll.v1 import run_pb2
from atoll_worker.failure import WorkerFailure
from atoll_worker.huggingface.needs import need
from atoll_worker.parameters import Parameters, Shapes


class Watched:
    """Parameters that remember whether somebody has written them, and what is not trained.
    `on_freeze` is told the latter."""

    def __init__(self, parameters: Parameters,
                 on_freeze: Callable[[Collection[str]], None] = lambda _: None):
        self._parameters, self._on_freeze = parameters, on_freeze
        self.written = True
        self.frozen: FrozenSet[str] = frozenset()

    def shapes(self) -> Shapes:
        return self._parameters.shapes()

    def read(self, flat: np.ndarray) -> None:
        self._parameters.read(flat)

    def write(self, flat: np.ndarray) -> None:
        self._parameters.write(flat)
        self.written = True

    def freeze(self, names: Collection[str]) -> None:
        self.frozen = frozenset(names)
        self._on_freeze(self.frozen)


class Group:
    """The processes of one peer, as torch.distributed has them."""

    def __init__(self, meeting: str, rank: int, size: int, device: str):
        self._torch = need("torch")
        self._distributed = need("torch.distributed")
        self.rank, self.size = rank, size
        backend = "nccl" if device.startswith("cuda") else "gloo"
        if backend == "nccl":
            self._torch.cuda.set_device(device)
        self._distributed.init_process_group(backend, init_method=f"file://{meeting}", rank=rank,
                                             world_size=size)

    def tell(self, what: Any = None) -> Any:
        """What rank 0 says, at every rank."""
        box = [what]
        self._distributed.broadcast_object_list(box, 0)
        return box[0]

    def share(self, rows: Sequence[Any]) -> Sequence[Any]:
        """Of all rows, this rank's."""
        first, end = (len(rows) * (self.rank + more) // self.size for more in (0, 1))
        return rows[first:end]

    def spread(self, named: Sequence[Any]) -> None:
        """The parameters of rank 0 become everybody's."""
        with self._torch.no_grad():
            for _, one in named:
                self._distributed.broadcast(one.data, 0)

    def add_up(self, named: Sequence[Any], loss: float, device: str) -> float:
        """All gradients become the sum of everybody's; returns the sum of the losses."""
        for _, one in named:
            if not one.requires_grad:  # frozen
                continue
            if one.grad is None:  # no row was this rank's
                one.grad = self._torch.zeros_like(one)
            self._distributed.all_reduce(one.grad)
        total = self._torch.tensor([loss], dtype=self._torch.float32, device=device)
        self._distributed.all_reduce(total)
        return float(total)

    def leave(self) -> None:
        self._distributed.destroy_process_group()


class Team:
    """The helpers of a worker."""

    def __init__(self, devices: List[str], spec: run_pb2.RunSpec, state_path: str, threads: int):
        self._top = tempfile.mkdtemp(prefix="atoll-team-")
        meeting = os.path.join(self._top, "meeting")
        self._helpers = [subprocess.Popen(
            [sys.executable, "-m", "atoll_worker.huggingface", "--helper",
             f"{rank},{len(devices)},{meeting}", "--device", device],
            stdin=subprocess.PIPE) for rank, device in enumerate(devices) if rank > 0]
        self.group = Group(meeting, 0, len(devices), devices[0])
        self.group.tell((spec.SerializeToString(), state_path, threads))

    def close(self) -> None:
        self.group.tell(None)
        self.group.leave()
        for one in self._helpers:
            one.wait()
            if one.stdin is not None:
                one.stdin.close()
        shutil.rmtree(self._top, ignore_errors=True)


def devices_of(named: str) -> List[str]:
    """ "cuda:0,cuda:1" as its parts; "cuda:all" as all that PyTorch sees."""
    if named == "cuda:all":
        torch = need("torch")
        if not torch.cuda.is_available():
            raise WorkerFailure(f"[worker] device '{named}': this PyTorch sees no GPU")
        return [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    return [one.strip() for one in named.split(",")]


def help_out(told: str, device: str) -> int:
    """The life of a helper; `told` is "RANK,SIZE,MEETING"."""
    from atoll_worker.huggingface.folder import ModelFolder
    from atoll_worker.huggingface.model import build
    from atoll_worker.huggingface.worker import Computing
    threading.Thread(target=_end_with_worker, daemon=True).start()
    rank, size, meeting = told.split(",", 2)
    group = Group(meeting, int(rank), int(size), device)
    spec_bytes, state_path, threads = group.tell()
    need("torch").set_num_threads(threads)
    spec = run_pb2.RunSpec.FromString(spec_bytes)
    computing = Computing(spec, build(ModelFolder(spec.model.file), spec, device), device, group)
    computing.optimizer.load(state_path, spec.run_id)
    order: Optional[Any] = group.tell()
    while order is not None:
        rows, tokens, number, padding, written, frozen = order
        computing.padding = padding
        computing.freeze(frozen)
        if written:
            group.spread(computing.named)
        computing.step(rows, tokens, number)
        order = group.tell()
    group.leave()
    return 0


def _end_with_worker() -> None:
    os.read(0, 1)  # nothing ever comes: it ends where the worker does
    os._exit(1)
