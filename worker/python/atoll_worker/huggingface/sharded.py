"""What the ranks of a divided model do together: each order of rank 0, done by all."""

import contextlib
import math
import os
import sys
import threading
import time
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from atoll.v1 import run_pb2, worker_pb2
from atoll_worker.device import device_of
from atoll_worker.failure import WorkerFailure
from atoll_worker.huggingface.batches import chosen, parts
from atoll_worker.huggingface.data import Row, Rows
from atoll_worker.huggingface.folder import ModelFolder
from atoll_worker.huggingface.model import base_digest, build
from atoll_worker.huggingface.needs import need
from atoll_worker.huggingface.ranks import (Children, Launched, Others, Ranks, by_torchrun,
                                            device_by_torchrun, follow)
from atoll_worker.huggingface.sharding import (Parts, WholeStates, check_torch, divided, plan_of,
                                               take_apart, take_states, without_parts)
from atoll_worker.huggingface.team import devices_of
from atoll_worker.huggingface.worker import COMPILE, Computing
from atoll_worker.parameters import Shapes, pieces
from atoll_worker.run import Run

SHOW_SECONDS = 1
REST = 20  # times as long as the optimiser's state took to write, until it is written again


def check(spec: run_pb2.RunSpec) -> None:
    """Refuses by name what is not divided."""
    check_torch()
    if spec.experts.tensors:
        what = "train slices of adapters in this run ([model] lora_slice)" \
            if spec.model.lora_slice else "own experts in this run ([experts])"
        raise WorkerFailure(f"peers {what}, and a model that is divided among devices (sharding) "
                            "trains all of its tensors; leave out sharding")
    if spec.model.base_bits:
        raise WorkerFailure(f"[model] base_bits = {spec.model.base_bits}: a base in so few bits is "
                            "not divided among devices; leave out base_bits, or sharding")
    if os.environ.get(COMPILE) == "1":
        raise WorkerFailure(f"{COMPILE}=1: a model that is divided among devices does not go "
                            "through torch.compile; leave out one of the two")


@contextlib.contextmanager
def _showing(alive: Callable[[], None]) -> Iterator[None]:
    """Calls `alive` now and then: the daemon ends a worker that shows nothing for long."""
    ended = threading.Event()

    def show() -> None:
        while not ended.wait(SHOW_SECONDS):
            alive()
    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class Together(Computing):
    """Computing on a divided model. What begins with `all_` every rank does at the same time; its
    last argument is what rank 0 alone has."""

    def __init__(self, spec: run_pb2.RunSpec, model: Any, ranks: Ranks):
        super().__init__(spec, model, ranks.device)
        self.ranks, self._parts = ranks, Parts(ranks)
        self._aside: List[Any] = []

    def _shares(self, rows: Sequence[Row], accumulation: int) -> List[Sequence[Row]]:
        """This rank's rows in as many parts as every rank has. A rank that has fewer computes rows
        of which nothing counts: the others need its part of each layer."""
        size, rank = self.ranks.size, self.ranks.rank
        bounds = [len(rows) * one // size for one in range(size + 1)]
        most = max(bounds[one + 1] - bounds[one] for one in range(size))
        own = list(parts(rows[bounds[rank]:bounds[rank + 1]], max(1, accumulation)))
        blank = [(rows[0][0][:2], np.zeros(1, bool))]
        return own + [blank] * (min(max(1, accumulation), most) - len(own))

    def all_fill(self, model: Optional[Any]) -> None:
        """The values of rank 0's whole model, which loses them one by one."""
        whole = dict(model.named_parameters()) if model is not None else {}
        for name, one in self.model.named_parameters():
            self._parts.spread(one, whole[name].detach() if whole else None)
            if whole:
                whole[name].data = self._torch.empty(0)

    def all_read(self, flat: Optional[np.ndarray]) -> None:
        for one, piece in zip(self.named, self._pieces(flat)):
            self._parts.collect(one[1], piece)

    def all_write(self, flat: Optional[np.ndarray]) -> None:
        for one, piece in zip(self.named, self._pieces(flat)):
            self._parts.spread(one[1], piece)

    def shapes(self) -> Shapes:
        return [(name, tuple(one.shape)) for name, one in self.named]

    def _pieces(self, flat: Optional[np.ndarray]) -> Sequence[Any]:
        if flat is None:
            return [None] * len(self.named)
        return [self._torch.from_numpy(one) for one in pieces(self.shapes(), flat)]

    def all_step(self, rows: Sequence[Row], tokens: int, number: int, padding: int,
                 base: Optional[np.ndarray]) -> float:
        """As Computing.step. FSDP2 takes the mean of the ranks' gradients, and the sum is meant."""
        self.padding = padding
        total = 0.0
        for part in self._shares(rows, self.inner.accumulation):
            loss, _ = self.loss_sum(part)
            (loss * (self.ranks.size / tokens)).backward()
            total += float(loss.detach())
        take_apart(self.model)
        if self.inner.proximal:
            self._pull_parts(base)
        total, _ = self.ranks.add_up(total, 0)
        if math.isfinite(total):
            self.optimizer.step(number)
        return total / tokens

    def _pull_parts(self, base: Optional[np.ndarray]) -> None:
        for (_, one), piece in zip(self.named, self._pieces(base)):
            there = self._torch.empty_like(one)
            self._parts.spread(there, piece)
            if one.grad is not None:
                one.grad.add_(one.detach() - there, alpha=self.inner.proximal)

    def all_losses(self, rows: Sequence[Row], padding: int, _: Any) -> Tuple[float, int]:
        self.padding = padding
        self.model.eval()
        try:
            with self._torch.no_grad():
                loss, count = self.loss_sum(self._shares(rows, 1)[0])
        finally:
            self.model.train()
        take_apart(self.model)
        return self.ranks.add_up(float(loss), count)

    def all_put_aside(self, _: Any) -> None:
        """Each rank keeps its part of what is trained, until it is put back."""
        self._aside = [one.detach().to_local().clone() for _, one in self.named]

    def all_put_back(self, _: Any) -> None:
        for (_, one), kept in zip(self.named, self._aside):
            one.detach().to_local().copy_(kept)
        self._aside = []

    def all_save(self, run_id: str, path: Optional[str]) -> None:
        with WholeStates(self._parts, path) as whole:
            states = whole.of(self.optimizer.parts)
            if whole.no_room:
                print(f"atoll-hf-worker: the optimiser's state was not written: {whole.no_room}",
                      file=sys.stderr, flush=True)
            elif path is not None:
                self.optimizer.write(path, run_id, states)

    def all_load(self, told: List[Any], whole: Optional[List[Any]]) -> None:
        take_states(told, whole, self.optimizer.parts, self._parts)


class Leader(Together):
    """Rank 0's: tells the others what to do, and does it with them."""

    def __init__(self, spec: run_pb2.RunSpec, folder: ModelFolder, others: Others, ranks: Ranks,
                 threads: int):
        self._others = others
        whole = build(folder, spec)
        frozen = any(not one.requires_grad for one in whole.parameters())
        self._base_digest = base_digest(folder, spec.inner.precision, spec.seed, whole) \
            if frozen else b""
        plan = plan_of(whole)
        try:
            ranks.tell((spec.SerializeToString(), threads, plan))
            super().__init__(spec, divided(plan, ranks, spec.inner.precision,
                                           spec.inner.checkpointing), ranks)
        except Exception as error:
            raise others.explained(error) from error
        self._do("all_fill", own=whole)
        self._saved, self._took = time.monotonic(), 0.0

    def _do(self, what: str, *told: Any, own: Any = None) -> Any:
        """An order, of which the others are told all but what is rank 0's own."""
        try:
            self.ranks.tell((what, told))
            return getattr(self, what)(*told, own)
        except WorkerFailure:
            raise
        except Exception as error:
            raise self._others.explained(error) from error

    # As Parameters has them.

    def read(self, flat: np.ndarray) -> None:
        self._do("all_read", own=flat)

    def write(self, flat: np.ndarray) -> None:
        self._do("all_write", own=flat)

    def put_aside(self) -> None:
        self._do("all_put_aside")

    def put_back(self) -> None:
        self._do("all_put_back")

    # As Computing has them.

    def step(self, rows: Sequence[Row], tokens: int, number: int,
             base: Optional[np.ndarray] = None) -> float:
        return float(self._do("all_step", rows, tokens, number, self.padding,
                              own=base if self.inner.proximal else None))

    def evaluate(self, rows: Rows, first: int, end: int,
                 show: Callable[[int], None]) -> Tuple[float, int]:
        total, tokens = 0.0, 0
        batch = max(1, self.inner.batch)
        for begin in range(first, end, batch):
            some = chosen(rows, range(begin, min(end, begin + batch)))
            loss, count = self._do("all_losses", some, self.padding)
            total, tokens = total + loss, tokens + count
            show(tokens)
        return total, tokens

    def digest_of_base(self, folder: ModelFolder, spec: run_pb2.RunSpec) -> bytes:
        return self._base_digest  # taken while it was whole

    def load(self, path: str, run_id: str) -> bool:
        states = self.optimizer.read(path, run_id, mmap=True)
        if states is None:
            return False
        try:
            told = without_parts(states, self.optimizer.parts)
        except (WorkerFailure, KeyError, IndexError, TypeError) as error:
            print(f"the optimiser's state in {path} is not used: {error}", flush=True)
            return False
        self._do("all_load", told, own=states)
        return True

    def save(self, path: str, run_id: str) -> None:
        if path:
            began = time.monotonic()
            self._do("all_save", run_id, own=path)
            self._saved = time.monotonic()
            self._took = self._saved - began

    def save_now_and_then(self, path: str, run_id: str, alive: Callable[[], None]) -> float:
        """A rank that is killed takes its part of the state with it. Calls `alive` meanwhile, and
        returns how many seconds it took."""
        began = time.monotonic()
        if began - self._saved < REST * self._took:
            return 0.0
        with _showing(alive):
            self.save(path, run_id)
        return time.monotonic() - began

    def close(self) -> None:
        self._others.expect_end()
        self.ranks.tell(None)
        self._others.close()


def lead(run: Run, folder: ModelFolder, devices: List[str]) -> Leader:
    """Rank 0 with the others behind it; they are started, or torchrun has done that."""
    check(run.spec)

    def on_lost(what: str) -> None:
        run.send(failed=worker_pb2.WorkerFailed(what=what))
    others: Any = Launched(device_by_torchrun(devices), on_lost) if by_torchrun() else \
        Children(devices, ["--sharding", "full"], on_lost)
    return Leader(run.spec, folder, others, others.ranks, run.threads or 1)


def _obey(ranks: Ranks) -> None:
    spec_bytes, threads, plan = ranks.tell()
    need("torch").set_num_threads(threads)
    spec = run_pb2.RunSpec.FromString(spec_bytes)
    together = Together(spec, divided(plan, ranks, spec.inner.precision, spec.inner.checkpointing),
                        ranks)
    order: Optional[Tuple[str, Tuple[Any, ...]]] = ranks.tell()
    while order is not None:
        what, told = order
        getattr(together, what)(*told, None)
        order = ranks.tell()


def help_out(told: Optional[str], device: str) -> int:
    """The life of a rank that is not 0; see follow()."""
    check_torch()
    return follow(told, [device_of(need("torch"), one) for one in devices_of(device)], _obey)
