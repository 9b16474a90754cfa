"""TensorBoard: a folder for each run, in it one event file that every start goes on with.

The folder has the run's name, and the file the run's key: if another run has taken the folder, the
key is in the name of this one's too.
"""

import os
import time
from typing import Dict, Optional

from atoll_track import event_file
from atoll_track.tracker import Figure, RunFacts, Tracker

# TensorBoard reads the files of a folder that have "tfevents" in their names.
FILE = "events.out.tfevents.atoll"


def path_of(folder: str, run: RunFacts) -> str:
    file = f"{FILE}-{run.key}" if run.key else FILE
    own = os.path.join(folder, run.name)
    others = [name for name in (os.listdir(own) if os.path.isdir(own) else [])
              if name.startswith(FILE) and name != file]
    return os.path.join(f"{own}-{run.key}" if others else own, file)


class TensorBoard(Tracker):

    def __init__(self, folder: str):
        self._folder = folder
        self._file: Optional[event_file.EventFile] = None

    def open(self, run: RunFacts) -> Dict[str, int]:
        if self._file is not None:  # after a failure
            self._file.close()
            self._file = None
        path = path_of(self._folder, run)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self._file = event_file.EventFile(path)
        if self._file.empty:
            now = time.time()
            self._file.begin(now)
            self._file.add(event_file.hyperparameters(now, run.parameters))
        return self._file.newest

    def write(self, version: int, figures: Dict[str, Figure], when: float, complete: bool) -> None:
        numbers = {name: value for name, value in figures.items() if not isinstance(value, str)}
        if numbers:
            self._file.add(event_file.scalars(when, version, numbers))

    def close(self, sealed: bool) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
