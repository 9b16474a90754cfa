"""The two slots of fp32 values that a worker shares with its daemon (worker.proto)."""

import mmap
import os

import numpy as np

from atoll.v1 import worker_pb2
from atoll_worker.failure import WorkerFailure

PAGE = 4096


class Memory:
    """Who may touch a slot is decided by the messages alone; this only maps."""

    def __init__(self, request: worker_pb2.MapMemory, elements: int):
        if request.elements != elements:
            raise WorkerFailure(f"shared memory: slots of {request.elements} values; the model "
                                f"has {elements}")
        size = 4 * elements
        try:
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

    @staticmethod
    def _check(request: worker_pb2.MapMemory, size: int, length: int) -> None:
        for offset in (request.theta_offset, request.update_offset):
            if offset % PAGE:
                raise WorkerFailure(f"shared memory: offset {offset} is inside a page")
            if offset + size > length:
                raise WorkerFailure(f"shared memory: a slot of {size} bytes at {offset} ends "
                                    f"after the file's {length}")
        if abs(request.theta_offset - request.update_offset) < size:
            raise WorkerFailure("shared memory: slots overlap")

    def theta(self) -> np.ndarray:
        """A copy: a commit may write the slot meanwhile, and each value must be read once."""
        return self._theta.copy()
