"""What a worker cannot do, in one line: it is sent to the daemon, and the process ends."""


class WorkerFailure(Exception):
    """Says what is wrong, where, and what would be right."""
