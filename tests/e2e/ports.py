"""A port for a process of a test."""

import random
import socket


def free_port():
    """One that nobody is given by chance while the process that has it is dead: below those that
    the system hands out."""
    while True:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", random.randrange(15000, 32000)))
            except OSError:
                continue
            return probe.getsockname()[1]
