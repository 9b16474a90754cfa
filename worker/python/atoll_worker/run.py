"""The worker's side of worker.proto: answers the daemon in the order of its messages.

Between two steps it looks at what came in, so a rebase, an evaluation, a stop or newer work never
waits longer than a step. Everything happens in the caller's thread.
"""

import contextlib
import math
import os
import queue
import signal
import sys
import threading
import time
from typing import Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np

from atoll.v1 import run_pb2, worker_pb2
from atoll_worker import samples
from atoll_worker.failure import WorkerFailure
from atoll_worker.link import Link
from atoll_worker.memory import Memory
from atoll_worker.merges import MergePoint, merge_into, start_of
from atoll_worker.parameters import Parameters, elements, frozen_names

PROTOCOL = 2
PROGRESS_SECONDS = 0.25  # worker.proto: a few a second
NO_DIGEST = bytes(32)    # data that is nobody else's

# A sum of losses, and of how many tokens it is; a sum alone is one of samples.
Losses = Union[float, Tuple[float, int]]

# Takes [first, end) of the held-out samples; returns the sum of their losses.
Evaluate = Callable[[int, int], Losses]

# Takes a party (0: the worker is one) and how many samples it holds out itself; returns the sum of
# their losses.
EvaluateOwn = Callable[[int, int], Losses]

# Of one party, or of each virtual one in their order.
Counts = Union[int, Sequence[int]]


class Step:
    """One inner step: its number in the run, and the samples that are its own."""

    def __init__(self, run: "Run", number: int, numbers: List[int]):
        self._run = run
        self.number = number
        self.samples = numbers

    def rows(self, count: int) -> np.ndarray:
        """The samples as row numbers of a data set of `count` rows."""
        order = self._run.order(count)
        return np.array([order.row(sample) for sample in self.samples], np.int64)


class Round:
    """The steps that the daemon asked for at once. Iterate over it, and report each step."""

    def __init__(self, run: "Run", train: worker_pb2.TrainSteps):
        self._run, self._train = run, train
        self.version: int = train.version
        self.party: int = train.party  # virtual parties count from 1; 0: this worker is one
        self.fresh: bool = train.fresh  # nothing of the party is kept from an earlier round
        # The tensors that are not trained in this round: experts of other peers. They must not
        # move, and an optimiser should forget its state of them.
        self.frozen: List[str] = run.frozen
        self._batch: int = run.spec.inner.batch
        self._plan()
        self._done = 0
        self._samples = 0
        self._first_loss = 0.0
        self._tokens = 0
        self._loss_sum = 0.0
        self._began = self._progressed = time.monotonic()
        self.evaluating = 0.0  # seconds inside this round that are not training's
        self.waited = 0.0      # likewise, for a merge
        self.replaced = False
        self._given: List[int] = []

    def _plan(self) -> None:
        """How many steps it has, and with private data which of its samples."""
        self._steps: int = self._train.steps
        self._all: Optional[int] = None  # samples of the round, with private data
        a_pass = self._run.samples_of(self.party)
        if not self._run.private or not a_pass:
            if self._run.spec.inner.epochs:
                raise WorkerFailure("the run's rounds are passes over private data (inner.epochs): "
                                    "give run.rounds how many samples= there are")
            return
        self._first = self._run.places.of(self._run.number_of(self.party))
        if self.fresh:
            self._first = a_pass * samples.pass_of(self._run.seed, self._run.number_of(self.party),
                                                   self.version)
        self._all = self._steps * self._batch
        if self._run.spec.inner.epochs and self._steps:
            self._all = self._run.spec.inner.epochs * a_pass
            self._steps = -(-self._all // self._batch)
        self._first += self._train.again * self._all

    def _numbers(self, step: int) -> List[int]:
        if self._all is None:
            return samples.of_step(self._train, step, self._batch)
        first = step * self._batch
        return [self._first + i for i in range(first, min(self._all, first + self._batch))]

    def _number_of_step(self, step: int) -> int:
        """Of the run's schedule, through which a round of passes goes in paces of its own."""
        nominal = self._run.spec.inner.steps
        if self._steps == self._train.steps or not nominal:
            return self._train.first_step + step
        return self._train.first_step + step * nominal // self._steps

    @property
    def base(self) -> np.ndarray:
        """The values that the update is counted from, flat: what FedProx pulls towards."""
        return self._run.base

    def __iter__(self) -> Iterator[Step]:
        self._began = time.monotonic()
        self.send_progress()
        while not self.replaced and self._done < self._steps:
            self._run.await_merge(self, self._steps)
            if self.replaced:
                return
            before = self._done
            self._given = self._numbers(before)
            yield Step(self._run, self._number_of_step(before), self._given)
            if self._done != before + 1:
                raise WorkerFailure(f"version {self.version}: a step was reported "
                                    f"{self._done - before} times; call round.report once a step")
            self._run.look()

    def report(self, loss: float, tokens: Optional[int] = None) -> None:
        """A step is done: its mean loss from before the step, and how many tokens (or samples, the
        default) it saw."""
        loss = float(loss)
        if not math.isfinite(loss):
            raise WorkerFailure(f"version {self.version}: step "
                                f"{self._train.first_step + self._done}: the loss is {loss}")
        if self._done == 0:
            self._first_loss = loss
        self._done += 1
        self._loss_sum += loss
        self._samples += len(self._given)
        self._tokens += len(self._given) if tokens is None else tokens
        if time.monotonic() - self._progressed >= PROGRESS_SECONDS:
            self.send_progress()

    @property
    def done(self) -> int:
        """How many steps were reported."""
        return self._done

    @property
    def steps(self) -> int:
        return self._steps

    def _loss(self) -> float:
        return self._loss_sum / self._done if self._done else 0.0

    def _seconds(self) -> float:
        return max(0.0, time.monotonic() - self._began - self.evaluating - self.waited)

    def send_progress(self) -> None:
        self._progressed = time.monotonic()
        seconds = self._seconds()
        rate = self._tokens / seconds if seconds > 0 else 0.0
        self._run.send(progress=worker_pb2.WorkerProgress(
            version=self.version, step=self._done, steps=self._steps, loss=self._loss(),
            tokens_per_second=rate, waited_seconds=self.waited))

    def boundary(self) -> worker_pb2.Boundary:
        return worker_pb2.Boundary(version=self.version, steps=self._done, tokens=self._tokens,
                                   loss=self._loss(), seconds=self._seconds(),
                                   first_loss=self._first_loss, samples=self._samples,
                                   party=self.party, waited_seconds=self.waited)

    def keep(self) -> None:
        """It is finished: the party's next round goes on behind its samples."""
        if self._all is not None and not self.fresh:
            self._run.places.advance(self._run.number_of(self.party), self._first + self._samples)


class Run:
    """What connect() gives: the run as the daemon told it, and its rounds."""

    def __init__(self, link: Link, configure: worker_pb2.Configure):
        self._link = link
        self.spec: run_pb2.RunSpec = configure.spec
        self.seed: int = configure.spec.seed
        self.data_path: str = configure.data_path    # a file or a folder here; "": none was named
        self.state_path: str = configure.state_path  # for the optimiser's state between two starts
        self.threads: int = configure.threads        # 0: as many as the worker likes
        self.private: bool = configure.spec.data.private  # the data is nobody else's
        self.validation_path: str = configure.validation_path  # with private data: the common set
        # Virtual parties of this worker, and the first one's number; 0: it is one party itself.
        self.parties: int = configure.parties
        self.first_party: int = max(1, configure.first_party)
        self.places = samples.Places(configure.state_path, configure.spec.run_id)
        self._samples: Counts = 0
        self._orders: Dict[int, samples.Order] = {}
        self._ended = False
        self._pending: Optional[Round] = None  # told, not yet begun
        self._round: Optional[Round] = None    # being trained
        self._parameters: Optional[Parameters] = None
        self._memory: Optional[Memory] = None
        self._base = np.empty(0, np.float32)   # theta as the worker last took it, or a guess of it
        self._has_own = False                  # the parameters are those of a training, on the base
        self._merges = MergePoint()
        self.frozen: List[str] = []            # the tensors that are not trained at present
        self._frozen_parts: List[slice] = []   # the same in the flat vector
        self._elements = 0
        self._room: Optional[np.ndarray] = None
        self._evaluate: Optional[Evaluate] = None
        self._held_out = 0
        self._evaluate_own: Optional[EvaluateOwn] = None
        self._own_held_out: Counts = 0

    @property
    def base(self) -> np.ndarray:
        return self._base

    def number_of(self, party: int) -> int:
        """The number of a virtual party among all of the run; 0: this worker is one party."""
        return self.first_party + party - 1 if self.parties and party else 0

    def samples_of(self, party: int) -> int:
        return self._count(self._samples, party)

    @staticmethod
    def _count(counts: Counts, party: int) -> int:
        return counts if isinstance(counts, int) else int(counts[max(party, 1) - 1])

    def rounds(self, parameters: Parameters, *, data_digest: bytes = NO_DIGEST,
               samples_a_pass: int = 0, evaluate: Optional[Evaluate] = None, held_out: int = 0,
               samples: Counts = 0, evaluate_own: Optional[EvaluateOwn] = None,
               own_held_out: Counts = 0, device: str = "cpu",
               sample_tokens: int = 1, tokenizer_digest: bytes = b"") -> Iterator[Round]:
        """The rounds, until the run or the process ends; before each, `parameters` hold what it is
        to start from. `data_digest` (32 bytes) and the parameters' shapes must be the same at every
        peer. `evaluate` is asked for the loss on parts of `held_out` samples, while `parameters`
        hold what is to be judged.

        With private data (`run.private`) there is no digest. `samples` says how many there are, of
        each virtual party if the worker has some; step.samples then goes through them pass by
        pass. `evaluate_own(party, count)` gives the summed loss of what a party holds out itself,
        `own_held_out` samples.

        A sample of a text is many tokens: `sample_tokens` says how many, at most. The losses that
        are told are then of tokens: `evaluate` returns how many beside their sum. The run records
        `tokenizer_digest` (32 bytes; empty: there is no tokenizer)."""
        self._check_kind()
        if len(data_digest) != 32:
            raise WorkerFailure(f"the data's digest has {len(data_digest)} bytes; 32 are needed")
        if evaluate is None and held_out:
            raise WorkerFailure(f"{held_out} samples are held out and nothing evaluates them")
        self._parameters, self._evaluate, self._held_out = parameters, evaluate, held_out
        self._samples, self._evaluate_own = samples, evaluate_own
        self._own_held_out = own_held_out
        if self.spec.experts.tensors:
            self._need_freeze()
        shapes = parameters.shapes()
        self._elements = elements(shapes)
        manifest = run_pb2.Manifest(elements=self._elements)
        offset = 0
        for name, shape in shapes:
            manifest.tensors.add(name=name, shape=shape, offset=offset)
            offset += elements([(name, shape)])
        self.send(configured=worker_pb2.WorkerConfigured(
            manifest=manifest, data_digest=b"" if self.private else data_digest,
            train_tokens=samples_a_pass * sample_tokens,
            validation_tokens=held_out * sample_tokens, device=device,
            math_kernel="Python", tokenizer_digest=tokenizer_digest, samples=self._total(samples),
            own_validation_tokens=self._total(own_held_out) * sample_tokens,
            parties=self.first_party + self.parties - 1 if self.parties else 0))
        while not self._ended:
            if self._pending is None:
                self._handle(self._link.take())
                continue
            self._round, self._pending = self._pending, None
            yield self._round
            self.await_merge(self._round, self._round.done)
            if not self._ended and not self._round.replaced:
                self._finish(self._round)
            self._round = None

    def _total(self, counts: Counts) -> int:
        if isinstance(counts, int):
            return counts * max(1, self.parties)
        if len(counts) != max(1, self.parties):
            raise WorkerFailure(f"{len(counts)} numbers of samples; this worker has "
                                f"{max(1, self.parties)} parties")
        return sum(counts)

    def _check_kind(self) -> None:
        """What the rules of a federation ask of the inner loop, and this package cannot see to."""
        if self.spec.inner.control_variates:
            raise WorkerFailure("control variates (SCAFFOLD) are kept by atoll-worker alone")
        if self.spec.model.local:
            raise WorkerFailure("model.local is for atoll-worker's models: leave out of "
                                "run.rounds what is to stay here")

    def _need_freeze(self) -> None:
        if not hasattr(self._parameters, "freeze"):
            what = "train slices of adapters in this run ([model] lora_slice)" \
                if self.spec.model.lora_slice else "own experts in this run ([experts])"
            raise WorkerFailure(f"peers {what}, and the parameters of this worker "
                                f"({type(self._parameters).__name__}) have no freeze() for those "
                                "of others; use atoll-worker, atoll-hf-worker or "
                                "atoll_worker.torch.attach")

    def _freeze(self, train: worker_pb2.TrainSteps) -> None:
        """Says to the parameters what is not trained, if anything is or was."""
        names = frozen_names(train, self._parameters.shapes()) if train.frozen else []
        self._frozen_parts = [slice(one.first, one.first + one.count) for one in train.frozen]
        if names or self.frozen:
            self._need_freeze()
            self._parameters.freeze(names)
        self.frozen = names

    def _keep_frozen(self, own: np.ndarray) -> None:
        """What is not trained is the base's: its update is 0."""
        for part in self._frozen_parts:
            own[part] = self._base[part]

    @property
    def _own(self) -> np.ndarray:
        """Room for the parameters. Not every run needs it, and then it takes no memory."""
        if self._room is None:
            self._room = np.empty(self._elements, np.float32)
        return self._room

    def order(self, rows: int) -> samples.Order:
        if rows not in self._orders:
            self._orders[rows] = samples.Order(self.seed, rows)
        return self._orders[rows]

    def send(self, **message: object) -> None:
        self._link.send(worker_pb2.WorkerMessage(**message))

    def look(self) -> None:
        """Handles what has come in, without waiting. Between two steps only."""
        while not self._ended and not self._link.empty():
            self._handle(self._link.take())
        self._settle()

    def await_merge(self, training: Round, steps: int) -> None:
        """Before the next step, or before the round of so many `steps` is over: goes on when what
        must be merged before was."""
        while (not self._ended and not training.replaced
               and self._merges.waits(training.done, steps)):
            training.send_progress()  # it lives
            began = time.monotonic()
            try:
                message = self._link.take_within(PROGRESS_SECONDS)
            except queue.Empty:
                continue
            finally:
                training.waited += time.monotonic() - began
            self._handle(message)
        if not self._ended and not training.replaced:
            self._settle(training.done, steps)

    def _settle(self, done: Optional[int] = None, steps: Optional[int] = None) -> None:
        """Between two steps, or without a training: does the merges that are due."""
        training = self._training()
        if training is None:
            due = self._merges.take(0, 0)
        else:
            due = self._merges.take(training.done if done is None else done,
                                    training.steps if steps is None else steps)
        if not due or not self._has_own:
            return
        theta = self._mapped("Merge").theta()
        self._parameters.read(self._own)
        for merge in due:
            merge_into(merge, theta, self._base, self._own)
        self._keep_frozen(self._own)
        self._parameters.write(self._own)

    def _training(self) -> Optional[Round]:
        """What is under way: trained, or told and not yet begun."""
        if self._pending is not None:
            return self._pending
        return None if self._round is None or self._round.replaced else self._round

    def _mapped(self, message: str) -> Memory:
        if self._memory is None or self._parameters is None:
            raise WorkerFailure(f"{message} came before MapMemory")
        return self._memory

    def _handle(self, message: Optional[worker_pb2.DaemonMessage]) -> None:
        kind = "stop" if message is None else message.WhichOneof("message")
        if kind == "stop":
            self._ended = True
            if self._round is not None:
                self._round.replaced = True
        elif kind == "map_memory":
            self._memory = Memory(message.map_memory, self._elements)
        elif kind == "write_initial_state":
            memory = self._mapped("WriteInitialState")
            self._parameters.read(memory.update)
            self._has_own = False  # they stand on no base
            self.send(initial_state_written=worker_pb2.InitialStateWritten())
        elif kind == "train":
            self._begin(message.train)
        elif kind == "rebase":
            self._rebase(message.rebase)
        elif kind == "merge":
            self._mapped("Merge")
            self._merges.add(message.merge)
            self._settle()
        elif kind == "evaluate":
            self._evaluate_share(message.evaluate)
        elif kind == "configure":
            raise WorkerFailure("a second Configure; a worker serves one run")
        # None: of a newer daemon, which does not depend on an answer.

    def _begin(self, train: worker_pb2.TrainSteps) -> None:
        memory = self._mapped("TrainSteps")
        start = start_of(train)
        own = start == "own" and self._has_own
        if self._round is not None:
            self._round.replaced = True  # this one supersedes it
        self._freeze(train)
        if not own:
            self._base = np.empty(0, np.float32)  # not two of them at a time
            self._base = memory.guess() if start == "guess" else memory.theta()
        if self._frozen_parts and start:  # these are theta's wherever the others start from
            theta = memory.theta()
            for part in self._frozen_parts:
                self._base[part] = theta[part]
        if not own:
            self._parameters.write(self._base)
            self._has_own = True
        elif self._frozen_parts:
            self._parameters.read(self._own)
            self._keep_frozen(self._own)
            self._parameters.write(self._own)
        self._merges.begin(train, own)
        self._pending = Round(self, train)
        self._settle()

    def _rebase(self, rebase: worker_pb2.Rebase) -> None:
        memory = self._mapped("Rebase")
        if self._training() is None:
            return  # the boundary was crossed first
        moved = memory.theta()
        if rebase.keep_parameters and not self._frozen_parts:
            self._base = moved
            return
        self._parameters.read(self._own)
        own = self._own
        if not rebase.keep_parameters:
            own += moved - self._base
        self._base = moved
        self._keep_frozen(own)
        self._parameters.write(own)

    @contextlib.contextmanager
    def _judging(self, memory: Memory) -> Iterator[None]:
        """Within it the parameters are theta's."""
        put_aside, put_back = (getattr(self._parameters, name, None)
                               for name in ("put_aside", "put_back"))
        if put_aside and put_back:
            put_aside()
        else:
            self._parameters.read(self._own)
        self._parameters.write(memory.theta())
        try:
            yield
        finally:
            if put_aside and put_back:
                put_back()
            else:
                self._parameters.write(self._own)

    def _evaluate_share(self, asked: worker_pb2.EvaluateShare) -> None:
        memory = self._mapped("EvaluateShare")
        began = time.monotonic()
        if asked.own:
            self._evaluate_own_share(asked, memory)
            return
        first, end = samples.share_of(self._held_out, asked.share, asked.shares)
        loss_sum, tokens = 0.0, end - first
        if self._evaluate is not None and end > first:
            with self._judging(memory):
                loss_sum, tokens = self._summed(self._evaluate(first, end), tokens)
        self.send(evaluated=worker_pb2.WorkerEvaluated(
            version=asked.version, share=asked.share, shares=asked.shares, loss_sum=loss_sum,
            tokens=tokens))
        if self._round is not None:
            self._round.evaluating += time.monotonic() - began

    def _evaluate_own_share(self, asked: worker_pb2.EvaluateShare, memory: Memory) -> None:
        began = time.monotonic()
        parties = [asked.party] if asked.party or not self.parties else \
            list(range(1, self.parties + 1))
        answer = worker_pb2.WorkerEvaluated(version=asked.version, share=asked.share,
                                            shares=asked.shares, own=True, party=asked.party)
        if self._evaluate_own is not None:
            with self._judging(memory):
                for party in parties:
                    count = self._count(self._own_held_out, party)
                    if count == 0:
                        continue
                    loss, tokens = self._summed(self._evaluate_own(party, count), count)
                    answer.loss_sum += loss
                    answer.tokens += tokens
                    answer.own_losses.append(loss / max(tokens, 1))
        self.send(evaluated=answer)
        if self._round is not None:
            self._round.evaluating += time.monotonic() - began

    @staticmethod
    def _summed(losses: Losses, count: int) -> Tuple[float, int]:
        loss, tokens = losses if isinstance(losses, tuple) else (losses, count)
        return float(loss), int(tokens)

    def show_evaluated(self, tokens: int) -> None:
        """From inside an evaluation, now and then: a worker that shows nothing for long is taken
        for hung. `tokens` grows from call to call."""
        self.send(progress=worker_pb2.WorkerProgress(evaluated=tokens))

    def _finish(self, done: Round) -> None:
        memory = self._mapped("TrainSteps")
        self._parameters.read(memory.update)
        np.subtract(self._base, memory.update, out=memory.update)
        for part in self._frozen_parts:
            memory.update[part] = 0
        self.send(boundary=done.boundary())
        done.keep()

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind: object, value: Optional[BaseException], trace: object) -> bool:
        if isinstance(value, Exception):
            text = str(value) if isinstance(value, WorkerFailure) else \
                f"{type(value).__name__}: {value}"
            self.send(failed=worker_pb2.WorkerFailed(what=" ".join(text.split())))
        self._link.close()
        return False


def arguments() -> Tuple[Dict[str, str], str]:
    """What the daemon started the program with, and the device among it ("auto": none is named)."""
    given = sys.argv[1:]
    options = dict(zip(given[::2], given[1::2]))
    if len(given) % 2 or "--socket" not in options or not set(options) <= {"--socket", "--device"}:
        sys.exit(f"usage: {sys.argv[0]} --socket unix:/PATH [--device DEVICE] (a daemon starts it "
                 "so: name it as [worker] program)")
    return options, options.get("--device", "auto")


def connect(socket: Optional[str] = None) -> Run:
    """Says hello to the daemon at `socket` (default: the one that the script was started with, by
    "--socket unix:/PATH") and waits for what it has to say of the run."""
    if socket is None:
        options, _ = arguments()
        socket = options["--socket"]
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the daemon decides when its worker ends
    link = Link(socket)
    link.send(worker_pb2.WorkerMessage(hello=worker_pb2.WorkerHello(
        pid=os.getpid(), protocol=PROTOCOL, software="atoll_worker for Python")))
    message = link.take()
    if message is None or message.WhichOneof("message") == "stop":
        link.close()
        sys.exit(0)  # it was not needed after all
    if message.WhichOneof("message") != "configure":
        link.close()
        raise WorkerFailure(f"{message.WhichOneof('message')} came before Configure")
    return Run(link, message.configure)
