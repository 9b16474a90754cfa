"""Brings a run's figures to one tracker, each figure of a version once, as the run goes on."""

import threading
import time
from typing import Callable, Dict, List, Optional

from atoll_track.source import NoAnswer, Source, figure_of
from atoll_track.tracker import EVALUATED, Figure, RunFacts, Tracker

# An evaluation comes at the latest when the next one begins. Rows that are older than so many
# versions are not looked at again.
LOOK_BACK = 200
# The pause after a failure of a tracker, which doubles up to the longest.
FIRST_PAUSE = 5.0
LONGEST_PAUSE = 300.0


class Follower:
    """Used by one thread; `stop` may be set by another."""

    def __init__(self, what: str, tracker: Tracker, source: Source, stop: threading.Event,
                 say: Callable[[str], None], name: Optional[str] = None):
        self._what = what
        self._tracker = tracker
        self._source = source
        self._stop = stop
        self._say = say
        self._name = name
        self._newest: Optional[Dict[str, int]] = None  # there, by figure; None: it is not open
        self._told: tuple = ()  # what the run had when it was last asked for its figures
        self._start = 0  # the first version to ask for
        self._trouble = ""
        self._pause = FIRST_PAUSE

    def once(self) -> bool:
        """Writes what there is. Returns False if it could not."""
        try:
            self._tracker.close(self._write())
        except NoAnswer as why:
            self._say(str(why))
            return False
        except Exception as why:  # whatever a tracker's library throws
            self._say(f"{self._what}: {one_line(why)}")
            return False
        return True

    def follow(self, every: float) -> None:
        """Goes on until the run is sealed, or until `stop`, after which it looks once more."""
        pause = 0.0
        while True:
            last = self._stop.wait(pause)
            pause = every
            try:
                sealed = self._write()
                self._recovered()
                if sealed or last:
                    return self._close(sealed)
            except NoAnswer as why:
                if last:
                    return self._close(sealed=False)
                self._tell(f"the run does not answer: {why}")
            except Exception as why:  # the run must not notice, whatever it is
                if last:
                    return self._say(f"{self._what}: {one_line(why)}")
                self._tell(f"{self._what}: {one_line(why)}; it is tried again")
                self._newest = None
                pause = self._pause
                self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def _tell(self, trouble: str) -> None:
        """Says a trouble once, until it is over."""
        if trouble != self._trouble:
            self._say(trouble)
        self._trouble = trouble

    def _recovered(self) -> None:
        if self._trouble:
            self._say(f"{self._what}: it goes on")
        self._trouble = ""
        self._pause = FIRST_PAUSE

    def _close(self, sealed: bool) -> None:
        try:
            self._tracker.close(sealed)
        except Exception as why:
            self._say(f"{self._what}: {one_line(why)}")

    def _write(self) -> bool:
        """Writes what is new. Returns true if the run is sealed, so that nothing more will come."""
        status = self._source.status()
        sealed = status["phase"] == "sealed"
        if int(status["version"] or 0) == 0 and not sealed:
            return False  # some of its settings are known once it has begun
        if self._newest is None:
            self._newest = self._tracker.open(RunFacts(status, self._name))
            self._told, self._start = (), 0
        evaluations = status.get("evaluations") or [{"version": None}]
        told = (status["version"], evaluations[-1]["version"], sealed)
        if told == self._told:
            return sealed
        rows = self._source.rows(self._start)
        self._write_rows(rows, status)
        self._told = told
        return sealed

    def _write_rows(self, rows: List[dict], status: dict) -> None:
        # The rows say how long after its first round the run came to each.
        elapsed = [row["time/elapsed_seconds"] or 0 for row in rows]
        begun = time.time() - max(elapsed, default=0)
        every = (status["spec"].get("evaluation") or {}).get("every_rounds") or 0
        for row, seconds in zip(rows, elapsed):
            version = row["version"]
            figures = self._new_of(version, row)
            if figures:
                due = version in (0, status["spec"]["rounds"]) or (every and version % every == 0)
                complete = not due or row["validation/loss"] is not None
                self._tracker.write(version, figures, begun + seconds, complete)
                self._newest.update(dict.fromkeys(figures, version))
        if rows:
            evaluated = [row["version"] for row in rows if row["validation/loss"] is not None]
            newest = rows[-1]["version"]
            self._start = max(evaluated[-1] if evaluated else self._start, newest - LOOK_BACK)

    def _new_of(self, version: int, row: dict) -> Dict[str, Figure]:
        found = {}
        for name, value in row.items():
            figure = figure_of(value)
            if name == "version" or figure is None or version <= self._newest.get(name, -1):
                continue
            found[name] = figure
        # That of a version without a round is known once it was evaluated, and comes with that.
        alone = all(not name.startswith((EVALUATED, "train/loss")) for name in found)
        return {} if version == 0 and alone else found


def one_line(why: BaseException) -> str:
    lines = [line.strip() for line in str(why).splitlines() if line.strip()]
    text = lines[0] if lines else type(why).__name__
    return text if len(text) <= 300 else text[:300] + " ..."
