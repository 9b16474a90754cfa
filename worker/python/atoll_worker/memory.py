"""The slots of fp32 values that a worker shares with its daemon (worker.proto)."""

import mmap
import os

import numpy as np

from atoll.v1 import worker_pb2
from atoll_worker.failure import WorkerFailure

PAGE = 4096


def inherited() -> int:
    """The memory that the daemon has started this process with, or -1: whoever started this process
    in between has kept it."""
    try:
        number, device, inode = map(int, os.environ.get("ATOLL_MEMORY", "").split(":"))
        about = os.fstat(number)
    except (ValueError, OSError):
        return -1
    return os.dup(number) if (about.st_dev, about.st_ino) == (device, inode) else -1


class Memory:
    """Who may touch a slot is decided by the messages alone; this only maps."""

    def __init__(self, request: worker_pb2.MapMemory, elements: int):
        if request.elements != elements:
            raise WorkerFailure(f"shared memory: slots of {request.elements} values; the model "
                                f"has {elements}")
        size = 4 * elements
        try:
            file = inherited()
            if file < 0:
                file = os.open(request.path, os.O_RDWR | os.O_CLOEXEC)
            try:
                length = os.fstat(file).st_size
                self._check(request, size, length)
                self._mapping = mmap.mmap(file, length)
            finally:
                os.close(file)
        except OSError as error:
            raise WorkerFailure(f"shared memory: {request.path}: {error.strerror}") from error
        self._theta = np.frombuffer(self._mapping, np.float32, elements, request.theta_offset)
        self.update = np.frombuffer(self._mapping, np.float32, elements, request.update_offset)
        self._guess = np.frombuffer(self._mapping, np.float32, elements, request.guess_offset) \
            if request.guess_offset else None

    @staticmethod
    def _check(request: worker_pb2.MapMemory, size: int, length: int) -> None:
        offsets = [request.theta_offset, request.update_offset]
        if request.guess_offset:
            offsets.append(request.guess_offset)
        for offset in offsets:
            if offset % PAGE:
                raise WorkerFailure(f"shared memory: offset {offset} is inside a page")
            if offset + size > length:
                raise WorkerFailure(f"shared memory: a slot of {size} bytes at {offset} ends "
                                    f"after the file's {length}")
        offsets.sort()
        if any(later - earlier < size for earlier, later in zip(offsets, offsets[1:])):
            raise WorkerFailure("shared memory: slots overlap")

    def theta(self) -> np.ndarray:
        """A copy: a commit may write the slot meanwhile, and each value must be read once."""
        return self._theta.copy()

    def guess(self) -> np.ndarray:
        """Likewise, of the daemon's guess of a state that is to come."""
        if self._guess is None:
            raise WorkerFailure("TrainSteps.start is 'guess', and MapMemory named no slot for it")
        return self._guess.copy()
