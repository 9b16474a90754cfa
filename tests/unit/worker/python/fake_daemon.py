"""The daemon's end of worker.proto, scripted: for tests of the Python package."""

import mmap
import os
import queue
import shutil
import tempfile
import threading
import time
from concurrent import futures

import grpc
import numpy as np

import atoll_worker
from atoll.v1 import worker_pb2

PATIENCE = 20


class FakeDaemon:
    """Serves one worker on a socket of its own, and keeps what it says."""

    def __init__(self, elements, batch=4, seed=5, guess=False):
        self.elements = elements
        self.folder = tempfile.mkdtemp(prefix="atoll-fake-")
        self.socket = f"unix:{self.folder}/socket"
        self._said, self._to_say = queue.Queue(), queue.Queue()
        self._slot = -(-elements * 4 // 4096) * 4096
        self.path = os.path.join(self.folder, "memory")
        with open(self.path, "wb") as out:
            out.truncate((3 if guess else 2) * self._slot)
        with open(self.path, "r+b") as file:
            mapping = mmap.mmap(file.fileno(), 0)
        self.theta = np.frombuffer(mapping, np.float32, elements, 0)
        self.update = np.frombuffer(mapping, np.float32, elements, self._slot)
        self._guess_offset = 2 * self._slot if guess else 0
        self.guess = np.frombuffer(mapping, np.float32, elements, 2 * self._slot) if guess else None
        self.configure = worker_pb2.Configure(data_path="/some/data", threads=1)
        self.configure.spec.seed = seed
        self.configure.spec.inner.batch = batch
        self._server = grpc.server(futures.ThreadPoolExecutor(2))
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(
            "atolld.v1.Worker", {"Attach": grpc.stream_stream_rpc_method_handler(
                self._attach, worker_pb2.WorkerMessage.FromString,
                worker_pb2.DaemonMessage.SerializeToString)}),))
        assert self._server.add_insecure_port(self.socket)
        self._server.start()
        self._worker = None
        self.error = None

    def _attach(self, requests, _):
        def listen():
            try:
                for message in requests:
                    self._said.put(message)
            except Exception:  # the stream was torn down
                pass
            self._to_say.put(None)
        threading.Thread(target=listen, daemon=True).start()
        yield from iter(self._to_say.get, None)

    def start(self, work):
        """Runs work(run), a worker's script, in a thread."""
        def body():
            try:
                with atoll_worker.connect(self.socket) as run:
                    work(run)
            except Exception as error:  # what a script would end with
                self.error = error
        self._worker = threading.Thread(target=body, daemon=True)
        self._worker.start()
        assert self.expect("hello").protocol == 2
        self.send(configure=self.configure)

    def send(self, **message):
        self._to_say.put(worker_pb2.DaemonMessage(**message))

    def send_seen(self, run, **message):
        """From inside a worker's step: returns once the worker could look at the message."""
        self.send(**message)
        end = time.monotonic() + PATIENCE
        while run._link.empty():
            assert time.monotonic() < end, "the message does not arrive"
            time.sleep(0.001)  # between two looks

    def map(self, **changes):
        fields = {"path": self.path, "elements": self.elements, "theta_offset": 0,
                  "update_offset": self._slot, "guess_offset": self._guess_offset, **changes}
        self.send(map_memory=worker_pb2.MapMemory(**fields))

    def train(self, version=1, steps=3, **more):
        self.send(train=worker_pb2.TrainSteps(version=version, steps=steps, **more))

    def expect(self, kind):
        """The next message, reports of progress left out, which must be of this kind."""
        while True:
            message = self._said.get(timeout=PATIENCE)
            said = message.WhichOneof("message")
            if said == "progress" and kind != "progress":
                continue
            assert said == kind, f"{said} instead of {kind}: {message}"
            return getattr(message, kind)

    def stop(self):
        self.send(stop=worker_pb2.Stop())
        self.join()

    def join(self):
        self._worker.join(PATIENCE)
        assert not self._worker.is_alive(), "the worker does not end"

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self._to_say.put(None)
        self._server.stop(0).wait(PATIENCE)
        shutil.rmtree(self.folder, ignore_errors=True)
        return False
