"""An Atoll worker in Python: the inner loop of one peer, whatever it trains with.

    with atoll_worker.connect() as run:
        for round in run.rounds(atoll_worker.Arrays({"w": w})):
            for step in round:
                ...                      # train on step.rows(n), in place
                round.report(loss)

The daemon starts the script (config: [model] kind = "external", [worker] program = "train.py") and
keeps it running. docs/workers.md has the rules; `atoll_worker.torch` and `atoll_worker.jax` fit
models of those libraries in, and only they import them.
"""

from atoll_worker.failure import WorkerFailure
from atoll_worker.parameters import Arrays, Parameters
from atoll_worker.run import Round, Run, Step, connect
from atoll_worker.steps import Steps

__all__ = ["Arrays", "Parameters", "Round", "Run", "Step", "Steps", "WorkerFailure", "connect"]
