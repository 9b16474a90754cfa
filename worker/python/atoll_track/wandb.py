"""Weights & Biases: a run whose id is the run's id in Atoll and the first digits of its key.

With a key the run is kept by the service, which says how far it has come. Without one, or with
WANDB_MODE=offline, it is kept in a folder for `wandb sync`. Such a folder is complete only once it
was closed: what W&B has not written when it is killed is lost, and a later start cannot go on with
the folder. So each start makes one anew, with all versions, and takes the one before away.
"""

import glob
import logging
import netrc
import os
import shutil
import urllib.parse
from typing import Dict, Mapping, Optional

from atoll_track.tracker import EVALUATED, Figure, RunFacts, Tracker, require

SERVICE = "https://api.wandb.ai"
# The version that a row's evaluation is of.
EVALUATED_VERSION = EVALUATED + "version"


def is_offline(environment: Mapping[str, str]) -> bool:
    """Without a key wandb.init would ask for one, or fail."""
    mode = environment.get("WANDB_MODE", "")
    if mode:
        return mode == "offline"
    if environment.get("WANDB_API_KEY") or environment.get("WANDB_IDENTITY_TOKEN_FILE"):
        return False
    host = urllib.parse.urlsplit(environment.get("WANDB_BASE_URL") or SERVICE).hostname
    try:
        return netrc.netrc(environment.get("NETRC")).authenticators(host or "") is None
    except (OSError, netrc.NetrcParseError):
        return True


class Wandb(Tracker):

    def __init__(self, target: str, folder: str):
        self._entity, _, self._project = target.rpartition("/")
        self._folder = os.path.abspath(folder)
        self._run = None
        self._late: Dict[str, Figure] = {}  # of an evaluation whose row is closed
        require("wandb", "atoll[wandb]", "wandb")

    def open(self, run: RunFacts) -> Dict[str, int]:
        import wandb
        if self._run is not None:  # after a failure
            self._run.finish(exit_code=1)
        self._late = {}
        logging.getLogger("wandb").setLevel(logging.ERROR)
        offline = is_offline(os.environ)
        if offline:
            # First: a start within the same second has a folder of the same name.
            folders = os.path.join(self._folder, "wandb", f"offline-run-*-{run.unique_id}")
            for earlier in glob.glob(folders):
                shutil.rmtree(earlier, ignore_errors=True)
        self._run = wandb.init(
            entity=self._entity or None, project=self._project, id=run.unique_id, name=run.name,
            config=run.parameters, dir=self._folder, mode="offline" if offline else "online",
            resume=None if offline else "allow", settings=self._settings(wandb))
        self._run.define_metric(EVALUATED_VERSION, hidden=True)
        self._run.define_metric(EVALUATED + "*", step_metric=EVALUATED_VERSION)
        if offline:
            return {}
        newest = self._run.step - 1  # the first row of a resumed run that is not there yet
        evaluated = self._run.summary.get(EVALUATED_VERSION, newest) if newest >= 0 else -1
        return _Newest(newest, int(evaluated))

    @staticmethod
    def _settings(wandb):
        # The run is not what this process does: neither its output nor its machine belong to it.
        return wandb.Settings(console="off", silent=True, disable_git=True, save_code=False,
                              x_disable_stats=True, x_disable_meta=True,
                              x_disable_machine_info=True)

    def write(self, version: int, figures: Dict[str, Figure], when: float, complete: bool) -> None:
        if any(name.startswith(EVALUATED) for name in figures):
            figures = {**figures, EVALUATED_VERSION: version}
        if version < self._run.step:
            # Rows are in order, so it is in the next one. EVALUATED_VERSION says of which it is.
            self._late.update(figures)
            return
        # A row that is not complete stays open until the next one.
        self._run.log({**self._late, **figures}, step=version, commit=complete)
        self._late = {}

    def close(self, sealed: bool) -> None:
        if self._run is None:
            return
        if self._late:
            self._run.log(self._late, step=self._run.step)
        self._run.finish(exit_code=0)
        self._run = None


class _Newest(dict):
    """The newest version is that of the rows, for every figure."""

    def __init__(self, rounds: int, evaluated: int):
        super().__init__()
        self._rounds, self._evaluated = rounds, evaluated

    def get(self, name: str, default: Optional[int] = None) -> Optional[int]:
        if name in self:
            return self[name]
        return self._evaluated if name.startswith(EVALUATED) else self._rounds
