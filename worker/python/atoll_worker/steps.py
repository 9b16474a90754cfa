"""Rounds for who has a loop already: it says after each step that the step is done.

    steps = Steps(run.rounds(attach(model)))
    for batch in loader:                       # any loop, with any samples
        ...                                    # one optimiser step
        if not steps.done(loss):
            break                              # the run has ended

Between two calls of done() the parameters are the caller's; inside, they may become the replica's.
"""

from typing import Iterator, Optional

from atoll_worker.run import Round, Step


class Steps:
    """A run's rounds, one step after the other. Everything happens in the caller's thread."""

    def __init__(self, rounds: Iterator[Round]):
        """Waits for the first round: then the parameters hold the replica's values."""
        self._rounds = rounds
        self._round: Optional[Round] = None
        self._steps: Iterator[Step] = iter(())
        self.step: Optional[Step] = None  # that is to be done; None: the run has ended
        self._advance()

    @property
    def ended(self) -> bool:
        return self.step is None

    def _advance(self) -> None:
        self.step = next(self._steps, None)
        while self.step is None:
            self._round = next(self._rounds, None)  # hands over the last one's update
            if self._round is None:
                return
            self._steps = iter(self._round)
            self.step = next(self._steps, None)

    def done(self, loss: float, tokens: Optional[int] = None) -> bool:
        """A step was done: its mean loss from before it, and how many tokens (default: samples) it
        saw. Waits where a round has ended for the next. False: the run has ended."""
        if self._round is None or self.step is None:
            return False
        self._round.report(loss, tokens)
        self._advance()
        return not self.ended
