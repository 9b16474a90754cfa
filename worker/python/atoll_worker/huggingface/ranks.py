"""The processes that hold one model together, of which rank 0 is the worker that its daemon knows.

Rank 0 tells the others what all of them do next, one order after the other. They are started by
rank 0, one for each device of this machine, or by torchrun, on one machine or several. None of them
can go on without the others, so all of them end when one does, with the reason.
"""

import atexit
import contextlib
import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from datetime import timedelta
from typing import Any, Callable, List, NoReturn, Optional, Tuple

from atoll_worker.failure import WorkerFailure
from atoll_worker.huggingface.needs import need

IDLE = timedelta(days=20)    # an order may be long in coming; its milliseconds fit 31 bits
LOOK_SECONDS = 0.2           # between two looks at the processes that were started here
GRACE_SECONDS = 3            # for the reason to be known once an exchange has failed
BEAT_SECONDS = 5             # of ranks that are on other machines
SILENT_SECONDS = 60          # a rank that has not beaten for so long is gone
LONGEST_REASON = 500
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
LARGE_BYTES = 1 << 20        # tensors of layers are larger, what Python allocates is smaller
TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
GUIDE = ("Each rank holds a part of the model, so all of them end; the daemon starts the worker "
         "again")


def by_torchrun() -> bool:
    """Whether torchrun, or what sets its variables, has started this process among others."""
    return all(os.environ.get(name) for name in TORCHRUN)


def ranks_of(devices: List[str], sharding: str) -> int:
    """How many processes train on these devices of this machine, and with torchrun on others."""
    return int(os.environ["WORLD_SIZE"]) if sharding and by_torchrun() else len(devices)


def rank_here() -> int:
    """Of a process that torchrun has started; otherwise 0."""
    return int(os.environ["RANK"]) if by_torchrun() else 0


def how_it_ended(code: int) -> str:
    if code >= 0:
        return f"ended with status {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    killed = f"was killed by signal {-code} ({name})"
    if -code == signal.SIGKILL:
        killed += (", by somebody or for want of memory (see `dmesg`; then take more devices, "
                   "fewer rows or [inner] checkpointing)")
    return killed


def is_of_connection(error: Exception) -> bool:
    """Whether an exchange failed because another rank is gone, as gloo tells it."""
    return isinstance(error, RuntimeError) and "onnection" in str(error)


def give_memory_back() -> None:
    """Has glibc return what is freed. Layers are put together and taken apart all the time, and it
    would keep pieces of up to 32 MiB for itself: at a model of 63 million parameters, as much again
    as all that a rank holds."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return
    for parameter in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
        mallopt(parameter, LARGE_BYTES)


class Ranks:
    """This process among them. Exchanges of host memory go through gloo; those of FSDP through NCCL
    where the devices are GPUs."""

    def __init__(self, store: Any, rank: int, size: int, device: str):
        self._torch, self._distributed = need("torch"), need("torch.distributed")
        self._store = store
        self.rank, self.size, self.device = rank, size, device
        give_memory_back()
        gpu = device.startswith("cuda")
        if gpu:
            self._torch.cuda.set_device(device)
        self._distributed.init_process_group("cpu:gloo,cuda:nccl" if gpu else "gloo", store=store,
                                             rank=rank, world_size=size, timeout=IDLE)

    def tell(self, what: Any = None) -> Any:
        """What rank 0 says, at every rank."""
        box = [what]
        self._distributed.broadcast_object_list(box, 0, device=self._torch.device("cpu"))
        return box[0]

    def send(self, values: Any, rank: int) -> None:
        """A tensor of host memory whose values lie in a row."""
        self._distributed.send(values.reshape(-1).view(self._torch.uint8), rank)

    def receive(self, values: Any, rank: int) -> None:
        """Into a tensor of the size and type that the other sends."""
        self._distributed.recv(values.reshape(-1).view(self._torch.uint8), rank)

    def add_up(self, loss: float, count: int) -> Tuple[float, int]:
        """The sums of everybody's."""
        sums = self._torch.tensor([loss, float(count)], dtype=self._torch.float64)
        self._distributed.all_reduce(sums)
        return float(sums[0]), int(sums[1])

    def last_words(self, what: str) -> None:
        """Leaves the reason why this rank ends, for rank 0 to tell."""
        try:
            self._store.set(f"failed/{self.rank}", what[:LONGEST_REASON])
        except Exception:  # the store is gone with rank 0
            pass

    def words_of(self, rank: int) -> str:
        """Its last words; "": it left none."""
        try:
            key = f"failed/{rank}"
            return self._store.get(key).decode() if self._store.check([key]) else ""
        except Exception:  # as above
            return ""

    def leave(self) -> None:
        self._distributed.destroy_process_group()


class Others:
    """The ranks beside rank 0, as rank 0 sees them: who of them is gone, and why."""

    def __init__(self, on_lost: Callable[[str], None]):
        self._on_lost = on_lost
        self._lost = ""
        self._leaving = False

    def lost(self) -> str:
        """Which rank is gone and why; "": none, as far as is known."""
        return self._lost

    def explained(self, error: Exception) -> Exception:
        """What to say of an exchange that failed: which rank is gone, if one is."""
        end = time.monotonic() + GRACE_SECONDS
        while not self.lost() and time.monotonic() < end:
            time.sleep(LOOK_SECONDS)
        return WorkerFailure(self.lost()) if self.lost() else error

    def expect_end(self) -> None:
        """They are about to be told to end: from now on nobody who ends is missed."""
        self._leaving = True

    def close(self) -> None:
        """They were told to end."""
        self._leaving = True

    def _is_lost(self, what: str) -> None:
        """Tells the daemon and ends this process, unless it does so itself: it may wait for its
        daemon, or inside NCCL for who is gone."""
        if self._leaving or self._lost:
            return
        self._lost = f"{what}. {GUIDE}"
        time.sleep(2 * GRACE_SECONDS)
        if self._leaving:
            return
        print(f"atoll-hf-worker: {self._lost}", file=sys.stderr, flush=True)
        self._on_lost(self._lost)
        time.sleep(1)  # for the daemon to read it
        self._tidy()
        os._exit(1)

    def _tidy(self) -> None:
        """Removes what nobody needs once this process has ended."""


class Children(Others):
    """Ranks that rank 0 has started, one for each further device."""

    def __init__(self, devices: List[str], arguments: List[str], on_lost: Callable[[str], None]):
        super().__init__(on_lost)
        self._devices = devices
        self._top = tempfile.mkdtemp(prefix="atoll-ranks-")
        atexit.register(self._tidy)
        meeting = os.path.join(self._top, "meeting")
        self._children = [subprocess.Popen(
            [sys.executable, "-m", "atoll_worker.huggingface", *arguments, "--helper",
             f"{rank},{len(devices)},{meeting}", "--device", device],
            stdin=subprocess.PIPE) for rank, device in enumerate(devices) if rank > 0]
        # Before the first exchange: one that cannot even start would be waited for.
        threading.Thread(target=self._watch, daemon=True).start()
        self.ranks = _meet(meeting, 0, len(devices), devices[0])

    def _watch(self) -> None:
        while not self._leaving:
            for rank, child in enumerate(self._children, 1):
                code = child.poll()
                if code is not None and not self._leaving:
                    self._is_lost(self._said(rank, child.pid, code))
                    return
            time.sleep(LOOK_SECONDS)

    def _said(self, rank: int, pid: int, code: int) -> str:
        ranks: Optional[Ranks] = getattr(self, "ranks", None)
        words = ranks.words_of(rank) if ranks else ""
        return (f"rank {rank} of {len(self._devices)} ({self._devices[rank]}, process {pid}) "
                f"{how_it_ended(code)}{': ' + words if words else ''}")

    def close(self) -> None:
        super().close()
        self.ranks.leave()
        for one in self._children:
            one.wait()
            if one.stdin is not None:
                one.stdin.close()
        self._tidy()

    def _tidy(self) -> None:
        shutil.rmtree(self._top, ignore_errors=True)


class Launched(Others):
    """Ranks that torchrun has started, here or on other machines. Each shows now and then, in the
    store that torchrun gives them, that it lives; rank 0 does so from its start on (show_life)."""

    def __init__(self, device: str, on_lost: Callable[[str], None]):
        super().__init__(on_lost)
        if rank_here() > 0:
            show_life()
        # Before the first exchange, which waits for who never comes: a torchrun that is begun again
        # sooner than another one has its ranks wait in a store of which the other knows nothing.
        threading.Thread(target=self._watch, daemon=True).start()
        self.ranks = _meet_by_torchrun(device)

    def _watch(self) -> None:
        size = int(os.environ["WORLD_SIZE"])
        pulse = _Pulse(list(range(1, size)) if rank_here() == 0 else [0])
        while not self._leaving:
            silent = pulse.silent()
            if silent and not self._leaving:
                self._is_lost(silent)
                return
            time.sleep(BEAT_SECONDS)

    def explained(self, error: Exception) -> Exception:
        if self.lost():
            return WorkerFailure(self.lost())
        for rank in range(self.ranks.size):
            words = self.ranks.words_of(rank)
            if words:
                return WorkerFailure(f"rank {rank} of {self.ranks.size} ended: {words}. {GUIDE}")
        if not is_of_connection(error):
            return error
        how = re.search("[Cc]onnection [a-z ]+", str(error))
        return WorkerFailure(f"a rank of the {self.ranks.size} that torchrun started is gone "
                             f"({how.group().strip() if how else 'no connection'}); what torchrun "
                             f"printed on its machine names it. {GUIDE}; start torchrun again on "
                             "the other machines")

    def close(self) -> None:
        super().close()
        self.ranks.leave()


class _Pulse:
    """Signs of life in torchrun's store, through a connection of its own: the other is in use by
    whoever waits for an exchange."""

    def __init__(self, watched: List[int]):
        distributed = need("torch.distributed")
        store = distributed.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]),
                                     None, False, timedelta(seconds=SILENT_SECONDS))
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        self._store = distributed.PrefixStore(f"atoll/{attempt}", store)
        self._own, self._beats = os.urandom(8).hex(), 0
        self._seen = {one: ("", time.monotonic()) for one in watched}

    def beat(self) -> None:
        self._beats += 1
        self._store.set(f"beat/{rank_here()}", f"{self._own} {self._beats}")

    def silent(self) -> str:
        """Which of those watched does not live, and how it is known; "": none."""
        size = os.environ["WORLD_SIZE"]
        try:
            for rank, (last, since) in self._seen.items():
                key = f"beat/{rank}"
                now = self._store.get(key).decode() if self._store.check([key]) else ""
                if last and now.split()[:1] != last.split()[:1]:
                    return f"rank {rank} of {size} was started anew"
                if now != last:
                    self._seen[rank] = (now, time.monotonic())
                elif time.monotonic() - since > SILENT_SECONDS:
                    return (f"rank {rank} of {size} has shown nothing for {SILENT_SECONDS} s: it, "
                            "its machine or the line to it is gone")
        except Exception as error:  # whatever a store throws
            return ("the store that torchrun keeps for its ranks is gone "
                    f"({' '.join(str(error).split())[:200]})")
        return ""


def show_life() -> None:
    """Of a rank of torchrun's, as long as its process lives."""
    def show() -> None:
        with contextlib.suppress(Exception):  # without the store there is nobody to show it to
            pulse = _Pulse([])
            while True:
                pulse.beat()
                time.sleep(BEAT_SECONDS)
    threading.Thread(target=show, daemon=True).start()


def _meet(meeting: str, rank: int, size: int, device: str) -> Ranks:
    """In a file of a folder that only this user may open."""
    store = need("torch.distributed").FileStore(meeting, size)
    return Ranks(store, rank, size, device)


def _meet_by_torchrun(device: str) -> Ranks:
    store, rank, size = next(need("torch.distributed").rendezvous("env://", timeout=IDLE))
    return Ranks(store, rank, size, device)


def device_by_torchrun(devices: List[str]) -> str:
    """The device of this rank, among those of its machine."""
    here = int(os.environ.get("LOCAL_RANK", "0"))
    if len(devices) == 1 and devices[0] in ("cpu", "cuda"):
        return devices[0] if devices[0] == "cpu" else f"cuda:{here}"
    if here >= len(devices):
        raise WorkerFailure(f"torchrun has started rank {here} of this machine, and --device names "
                            f"{len(devices)} devices: make --nproc-per-node as many")
    return devices[here]


def _ends_with_input() -> None:
    os.read(0, 1)  # nothing ever comes: it ends where rank 0 does
    os._exit(1)


def _end(ranks: Ranks, error: Exception) -> NoReturn:
    """A rank that is not 0 cannot go on: its words go to rank 0 and to its own output."""
    what = str(error) if isinstance(error, WorkerFailure) else f"{type(error).__name__}: {error}"
    what = " ".join(what.split())[:LONGEST_REASON]
    ranks.last_words(what)
    print(f"atoll-hf-worker: rank {ranks.rank} of {ranks.size}: {what}", file=sys.stderr,
          flush=True)
    if is_of_connection(error):
        time.sleep(GRACE_SECONDS)  # another one ended first, and is to be seen first
    os._exit(1)


def follow(told: Optional[str], devices: List[str], obey: Callable[[Ranks], None]) -> int:
    """The life of a rank that is not 0. `told` is "RANK,SIZE,MEETING" of one that rank 0 started,
    and None of torchrun's; `obey` does what rank 0 says until it says nothing more."""
    others: Optional[Launched] = None
    if told is not None:
        threading.Thread(target=_ends_with_input, daemon=True).start()
        rank, size, meeting = told.split(",", 2)
        ranks = _meet(meeting, int(rank), int(size), devices[0])
    else:
        others = Launched(device_by_torchrun(devices), lambda what: None)
        ranks = others.ranks
    try:
        obey(ranks)
    except Exception as error:  # whatever it is, nobody can go on
        _end(ranks, error)
    if others is not None:
        others.close()
    else:
        ranks.leave()
    return 0
