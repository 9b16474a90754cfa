"""The stream to the daemon: a queue of what came in, a way to answer."""

import queue
import threading
from typing import Optional

import grpc

from atoll.v1 import worker_pb2
from atoll_worker.failure import WorkerFailure

# The daemon listens before it starts its worker; more is a daemon that is gone.
DIAL_SECONDS = 5
# For the last message to be read at the other end before the stream is torn down.
CLOSE_SECONDS = 0.5


class Link:
    """One call of atolld.v1.Worker/Attach."""

    def __init__(self, address: str):
        self._incoming: "queue.Queue[Optional[worker_pb2.DaemonMessage]]" = queue.Queue()
        self._outgoing: "queue.Queue[Optional[worker_pb2.WorkerMessage]]" = queue.Queue()
        self._channel = grpc.insecure_channel(address)
        try:
            grpc.channel_ready_future(self._channel).result(timeout=DIAL_SECONDS)
        except grpc.FutureTimeoutError:
            self._channel.close()
            raise WorkerFailure(f"no daemon listens at {address}") from None
        attach = self._channel.stream_stream(
            "/atolld.v1.Worker/Attach",
            request_serializer=worker_pb2.WorkerMessage.SerializeToString,
            response_deserializer=worker_pb2.DaemonMessage.FromString)
        self._call = attach(iter(self._outgoing.get, None))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        try:
            for message in self._call:
                self._incoming.put(message)
        except grpc.RpcError:
            pass  # however it ended, it is over
        self._incoming.put(None)

    def send(self, message: worker_pb2.WorkerMessage) -> None:
        self._outgoing.put(message)

    def take(self) -> Optional[worker_pb2.DaemonMessage]:
        """The next message; waits for it. None: the stream has ended."""
        return self._incoming.get()

    def take_within(self, seconds: float) -> Optional[worker_pb2.DaemonMessage]:
        """The same, but queue.Empty if none has come after that time."""
        return self._incoming.get(timeout=seconds)

    def empty(self) -> bool:
        return self._incoming.empty()

    def close(self) -> None:
        self._outgoing.put(None)
        self._reader.join(CLOSE_SECONDS)
        self._call.cancel()
        self._channel.close()
