"""One run of the worker: the model, the data, and what the daemon asks for."""

import hashlib
import math
import os
import sys
from contextlib import nullcontext
from typing import Any, Callable, Collection, List, Optional, Sequence, Tuple

import numpy as np

from atoll.v1 import run_pb2
from atoll_worker.device import check_devices, check_precision, device_of, memory_note
from atoll_worker.failure import WorkerFailure
from atoll_worker.huggingface.batches import IGNORED, chosen, collate, parts
from atoll_worker.huggingface.data import (Corpus, Reading, Row, Rows, note_of_common,
                                           open_corpus)
from atoll_worker.huggingface.folder import ModelFolder
from atoll_worker.huggingface.model import (base_digest, build, load_tokenizer, trained,
                                            vocabulary_of)
from atoll_worker.huggingface.needs import need
from atoll_worker.huggingface.optimizer import InnerOptimizer
from atoll_worker.huggingface.ranks import ranks_of
from atoll_worker.huggingface.team import Group, Team, Watched, devices_of
from atoll_worker.parameters import pieces
from atoll_worker.run import Round, Run, Step

COMPILE = "ATOLL_HF_COMPILE"  # set to 1: the model goes through torch.compile


def say(line: str) -> None:
    print(f"atoll-hf-worker: {line}", file=sys.stderr, flush=True)


def check(run: Run) -> None:
    """Refuses by name what a run may ask and this worker has not."""
    if run.parties:
        raise WorkerFailure("[parties] hosted is for atoll-worker's models; start a peer for each "
                            "party")
    if run.spec.model.context < 2:
        raise WorkerFailure(f"[model] context is {run.spec.model.context}; a row needs 2 tokens at "
                            "least")


class Computing:
    """Model and optimiser on one device, and the steps on them. With a group, each of its ranks
    has one and they step together."""

    def __init__(self, spec: run_pb2.RunSpec, model: Any, device: str,
                 group: Optional[Group] = None):
        torch = need("torch")
        self._torch, self.inner, self.device, self._group = torch, spec.inner, device, group
        check_precision(torch, device, spec.inner.precision)
        self.model = model
        self.named = trained(self.model)
        if not self.named:
            raise WorkerFailure(f"[model] path '{spec.model.file}': nothing in it is trained")
        self.frozen = any(not one.requires_grad for one in self.model.parameters())
        self.optimizer = InnerOptimizer(self.inner, self.named, device.startswith("cuda"))
        self._forward = torch.compile(self.model) if os.environ.get(COMPILE) == "1" else self.model
        self.model.train()
        self.padding = 0

    def _precision(self) -> Any:
        if self.inner.precision != "bf16":
            return nullcontext()
        return self._torch.autocast(self.device.split(":")[0], self._torch.bfloat16)

    def loss_sum(self, rows: Sequence[Row]) -> "Tuple[Any, int]":
        """The sum of the losses of all tokens that count (a tensor), and how many they are."""
        torch = self._torch
        inputs, targets, real = (torch.from_numpy(one).to(self.device)
                                 for one in collate(rows, self.padding))
        # Without padding nothing is masked, and the fastest attention is taken.
        mask = {} if bool((real == 1).all()) else {"attention_mask": real}
        with self._precision():
            logits = self._forward(input_ids=inputs, use_cache=False, **mask).logits
        loss = torch.nn.functional.cross_entropy(
            logits.float().flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="sum")
        return loss, int((targets != IGNORED).sum())

    def step(self, rows: Sequence[Row], tokens: int, number: int,
             base: Optional[np.ndarray] = None) -> float:
        """One step on all these rows, of which `tokens` count: their mean loss before it. With a
        group this rank computes its part. `base` is for rank 0."""
        total = 0.0
        own = self._group.share(rows) if self._group else rows
        for part in parts(own, max(1, self.inner.accumulation)):
            loss, _ = self.loss_sum(part)
            (loss / tokens).backward()
            total += float(loss.detach())
        if self.inner.proximal and base is not None:
            self._pull(base)
        if self._group:
            total = self._group.add_up(self.named, total, self.device)
        if math.isfinite(total):  # else the report of the loss ends the worker
            self.optimizer.step(number)
        return total / tokens

    def freeze(self, names: Collection[str]) -> None:
        """From now on trains all but these tensors: they get no gradient, and the optimiser
        forgets its state of them."""
        for name, one in self.named:
            one.requires_grad_(name not in names)
            if name in names:
                one.grad = None
                self.optimizer.forget(one)

    def _pull(self, base: np.ndarray) -> None:
        """FedProx (Li et al., arXiv:1812.06127): the gradient gets mu (parameters - base)."""
        shapes = [(name, tuple(one.shape)) for name, one in self.named]
        for (_, one), piece in zip(self.named, pieces(shapes, base)):
            if one.grad is not None:
                there = self._torch.from_numpy(np.ascontiguousarray(piece)).to(self.device)
                one.grad.add_(one.detach() - there, alpha=self.inner.proximal)

    def digest_of_base(self, folder: ModelFolder, spec: run_pb2.RunSpec) -> bytes:
        """Of what is frozen beneath adapters."""
        return base_digest(folder, spec.inner.precision, spec.seed,
                           None if spec.model.base_bits else self.model)

    def load(self, path: str, run_id: str) -> bool:
        """The optimiser's state; False: there is none."""
        return self.optimizer.load(path, run_id)

    def save(self, path: str, run_id: str) -> None:
        self.optimizer.save(path, run_id)

    def evaluate(self, rows: Rows, first: int, end: int,
                 show: Callable[[int], None]) -> Tuple[float, int]:
        """The sum of the losses of those rows' tokens, and how many tokens they are."""
        self.model.eval()
        total, tokens = 0.0, 0
        try:
            with self._torch.no_grad():
                for begin in range(first, end, max(1, self.inner.batch)):
                    numbers: List[int] = list(range(begin, min(end, begin + self.inner.batch)))
                    loss, count = self.loss_sum(chosen(rows, numbers))
                    total, tokens = total + float(loss), tokens + count
                    show(tokens)
        finally:
            self.model.train()
        return total, tokens


class Training:
    """The data of one run, and who computes on it."""

    def __init__(self, run: Run, folder: ModelFolder, device: str, sharding: str):
        from atoll_worker.torch import attach  # needs torch, and serve() has asked for it
        self._run = run
        need("torch").set_num_threads(run.threads or 1)
        self.tokenizer = load_tokenizer(folder.tokenizer_folder())
        context = run.spec.model.context
        how = Reading(run.spec.data, self.tokenizer, context, folder.vocabulary(),
                      folder.tokenizer_digests())
        self.corpus = open_corpus(how, run.data_path)
        self.common: Rows = self.corpus.held_out
        if run.private and run.validation_path:
            self.common = open_corpus(how, run.validation_path, 1.0).held_out
            recurs = note_of_common(self.corpus.train, self.common)
            self.corpus.notes += [recurs] if recurs else []
        if len(self.corpus.train) == 0:
            least = "two tokens" if run.private else f"{context} tokens and the one after it"
            raise WorkerFailure(f"data: {run.data_path} has not one row to train on: with [model] "
                                f"context = {context} it needs {least}")
        devices = [device_of(need("torch"), one) for one in devices_of(device)]
        count = ranks_of(devices, sharding)
        check_devices(device, devices, count)
        if count > max(1, run.spec.inner.batch):
            raise WorkerFailure(f"[worker] device '{device}' names {count} devices, and "
                                f"[inner] batch is {run.spec.inner.batch}; each needs one row")
        self.device = ",".join(devices)
        self._team: Optional[Team] = None
        self._leader: Any = None  # sharded.Leader
        if sharding and count > 1:
            from atoll_worker.huggingface.sharded import lead
            self.device += f" (1 model in {count} parts)"
            self._leader = lead(run, folder, devices)
            self.computing: Computing = self._leader
            self.parameters: Any = self._leader
        else:
            if count > 1:
                self._team = Team(devices, run.spec, run.state_path, run.threads or 1)
            self.computing = Computing(run.spec, build(folder, run.spec, devices[0]), devices[0],
                                       self._team.group if self._team else None)
            self.parameters = Watched(attach(self.computing.model), self.computing.freeze)
        self._check_ids()
        padding = self.tokenizer.pad_token_id
        self.computing.padding = 0 if padding is None else padding
        self.goes_on = self.computing.load(run.state_path, run.spec.run_id)

    def _check_ids(self) -> None:
        largest = max(one.largest() for one in (self.corpus.train, self.corpus.held_out,
                                                self.common))
        vocabulary = vocabulary_of(self.computing.model)
        if largest >= vocabulary:
            raise WorkerFailure(f"data: {self._run.data_path} has token ids up to {largest}; the "
                                f"model has {vocabulary} ids")

    def evaluated_rows(self) -> int:
        """Of the common held-out rows, as many as [evaluation] tokens asks for."""
        wanted = math.ceil(self._run.spec.evaluation.tokens / self._run.spec.model.context)
        return min(len(self.common), wanted) if wanted else len(self.common)

    def train(self, step: Step, base: np.ndarray) -> Tuple[float, int]:
        """One step on its samples: the mean loss of their tokens before it, and how many."""
        rows = chosen(self.corpus.train, step.rows(len(self.corpus.train)))
        tokens = sum(int(counted.sum()) for _, counted in rows)
        if self._team:
            group, written = self._team.group, self.parameters.written
            group.tell((rows, tokens, step.number, self.computing.padding, written,
                        self.parameters.frozen))
            if written:
                group.spread(self.computing.named)
            self.parameters.written = False
        return self.computing.step(rows, tokens, step.number, base), tokens

    def evaluate(self, rows: Rows, first: int, end: int) -> Tuple[float, int]:
        """As Computing's. Helpers wait meanwhile."""
        return self.computing.evaluate(rows, first, end, self._run.show_evaluated)

    def keep(self, round: Round) -> None:
        """After a round: what a death of one of several ranks would lose."""
        if self._leader and not round.replaced:
            round.evaluating += self._leader.save_now_and_then(
                self._run.state_path, self._run.spec.run_id, round.send_progress)

    def close(self) -> None:
        """Keeps the optimiser's state, and lets the helpers go."""
        try:
            self.computing.save(self._run.state_path, self._run.spec.run_id)
        finally:
            for others in (self._team, self._leader):
                if others:
                    others.close()


def _compare(what: str, here: bytes, wanted: bytes) -> None:
    if wanted and here != wanted:
        raise WorkerFailure(f"{what} has SHA-256 {here.hex()}; the run's has {wanted.hex()}")


def _digest(run: Run, folder: ModelFolder, training: Training) -> bytes:
    """What must be the same at every peer: data, tokenizer, and of the model all that is not
    exchanged."""
    spec = run.spec
    tokenizer = folder.tokenizer_digest()
    _compare(f"the tokenizer of '{folder.path}'", tokenizer, spec.data.tokenizer_digest)
    config = folder.config_digest()
    _compare(f"config.json of '{folder.base}'", config, spec.model.file_digest)
    base = b""
    if training.computing.frozen:
        base = training.computing.digest_of_base(folder, spec)
        say(f"the base of the adapters has SHA-256 {base.hex()}")
        _compare(f"the base '{folder.base}'", base, spec.model.base_digest)
        if run.private and not spec.model.base_digest:
            raise WorkerFailure("[model] base_digest is missing: with private data nothing else "
                                f"says that all adapters are of one base. Here it is {base.hex()}")
    return hashlib.sha256(b"".join([b"atoll.huggingface", training.corpus.digest(), tokenizer,
                                    config, base])).digest()


def serve(run: Run, device: str, sharding: str = "") -> None:
    """Trains until the run or the process ends. WorkerFailure: what cannot be trained. With
    `sharding` several devices hold one model, and otherwise each holds a whole one."""
    need("torch")
    check(run)
    folder = ModelFolder(run.spec.model.file)
    training = Training(run, folder, device, sharding)
    digest = _digest(run, folder, training)
    if not folder.has_weights:
        say(f"'{folder.base}' has no weights: the model begins with random ones")
    for note in training.corpus.notes:
        say(note)
    if training.goes_on:
        say("the optimiser goes on where it was")
    memory = memory_note(need("torch"), training.device)
    if memory:
        say(memory)
    for round in run.rounds(training.parameters, data_digest=digest,
                            **_counts(run, training), device=training.device,
                            sample_tokens=run.spec.model.context,
                            tokenizer_digest=folder.tokenizer_digest()):
        train_round(round, training)
    training.close()


def train_round(round: Round, training: Training) -> None:
    for step in round:
        loss, tokens = training.train(step, round.base)
        round.report(loss, tokens)
    training.keep(round)


def _counts(run: Run, training: Training) -> "dict[str, Any]":
    """What run.rounds() is told of the data."""
    rows, held_out = len(training.corpus.train), training.evaluated_rows()
    counts = {"samples_a_pass": rows, "held_out": held_out,
              "evaluate": lambda first, end: training.evaluate(training.common, first, end)}
    if not run.private:
        return counts
    own: Corpus = training.corpus
    counts.update(samples=rows, own_held_out=len(own.held_out),
                  evaluate_own=lambda _, count: training.evaluate(own.held_out, 0, count))
    return counts if run.validation_path else {**counts, "held_out": 0, "evaluate": None}
