"""A port for a process of a test."""

import random
import socket

_held = []  # until this process ends


def free_port():
    """Returns a port that nobody else is given while the process that has it is dead.

    It is below those that the system hands out. A name among the abstract sockets of this network
    namespace keeps it from the tests that run at the same time, until this one has ended.
    """
    while True:
        port = random.randrange(15000, 32000)
        mark = socket.socket(socket.AF_UNIX)
        with socket.socket() as probe:
            try:
                mark.bind(f"\0atoll-test-port-{port}")
                probe.bind(("127.0.0.1", port))
            except OSError:
                mark.close()
                continue
        _held.append(mark)
        return port
