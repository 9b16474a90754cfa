"""Asks `atoll` for the state of a run and for its figures."""

import json
import subprocess
from typing import List, Optional

from atoll_track.tracker import Figure

# A coordinator that is busy with a round may need some seconds.
PATIENCE = 60
# How long it may take to ask for the last figures when this program is to end.
LAST_PATIENCE = 4


class NoAnswer(Exception):
    """The run did not tell what it was asked; the message is the last line of `atoll`."""


class Source:

    def __init__(self, atoll: str, where: List[str]):
        """`where`: the options of `atoll run` that say which run."""
        self._atoll = atoll
        self._where = where
        self.patience = PATIENCE

    def _ask(self, *words: str) -> str:
        try:
            done = subprocess.run([self._atoll, "run", *words, *self._where], text=True,
                                  stdin=subprocess.DEVNULL, capture_output=True, check=False,
                                  timeout=self.patience)
        except subprocess.TimeoutExpired as late:
            raise NoAnswer(f"no answer in {self.patience} s") from late
        except OSError as error:
            raise NoAnswer(f"{self._atoll}: {error.strerror}") from error
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise NoAnswer(lines[-1])
        return done.stdout

    def status(self) -> dict:
        """The object of `atoll run show --json`."""
        return json.loads(self._ask("show", "--json"))

    def rows(self, start: int) -> List[dict]:
        """The figures of each version from this one on, in order."""
        told = self._ask("metrics", "--format", "jsonl", "--from", str(start))
        return [json.loads(line) for line in told.splitlines()]


def figure_of(value) -> Optional[Figure]:
    """A figure as a number, also where it is a word of JSON for NaN or infinity."""
    if value is None or isinstance(value, (int, float)):
        return value
    return float(value) if value in ("NaN", "Infinity", "-Infinity") else value
