"""What every tracker does, and what it says when it cannot."""

import importlib.util
from typing import Dict, Optional, Union

Figure = Union[float, str]

# Figures of evaluations come after those of their round, and only of some versions.
EVALUATED = "validation/"


# Hexadecimal digits; among a user's runs of one name no two are the same.
KEY_LENGTH = 8


class MissingLibrary(Exception):
    """A library is not installed; the message is what to install."""


class Tracker:
    """One run in one tracker. Used by one thread; open() comes first, and again after a failure."""

    def open(self, run: "RunFacts") -> Dict[str, int]:
        """Begins the run there, or goes on with it. Returns each figure's newest version there."""
        raise NotImplementedError

    def write(self, version: int, figures: Dict[str, Figure], when: float, complete: bool) -> None:
        """Adds figures of a version, which must not be there yet. `complete`: no more of this
        version are expected. `when` is in seconds since 1970."""
        raise NotImplementedError

    def close(self, sealed: bool) -> None:
        """Ends the work; `sealed`: the run is over."""


class RunFacts:
    """What a tracker wants to know of a run besides its figures."""

    def __init__(self, status: dict, name: Optional[str] = None):
        self.id = status["run_id"]
        self.name = name or self.id
        # The key that signs the run's history, which tells it from another run of the same id.
        self.key = (status["spec"].get("history_key") or "")[:KEY_LENGTH]
        self.unique_id = f"{self.id}-{self.key}" if self.key else self.id
        self.parameters = parameters_of(status)


def parameters_of(status: dict) -> Dict[str, Union[int, float, str, bool]]:
    """The settings of a run as `atoll run show --json` has them, with names like inner.steps."""
    found: Dict[str, Union[int, float, str, bool]] = {}

    def add(name: str, value) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                add(f"{name}.{key}", inner)
        elif isinstance(value, list):
            found[name] = ",".join(str(one) for one in value)
        elif isinstance(value, float):
            found[name] = float(f"{value:.7g}")  # most of them have 32 bits
        elif value is not None:
            found[name] = value

    # As in a config: there the rounds and the seed are in [run], the codec is in [exchange].
    sections = {"rounds": "run.rounds", "seed": "run.seed", "codec": "exchange.codec"}
    for key, value in status["spec"].items():
        if key == "history_key":
            continue
        add(sections.get(key, key), value)
    peers = [peer for peer in status["peers"] if peer["member"].get("role") != "aggregator"]
    found["run.peers"] = len(peers)
    add("parameters", status.get("parameters"))
    return found


def require(module: str, install: str, what: str) -> None:
    """Fails if a library is not installed, without reading it."""
    try:
        found = importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        found = False
    if not found:
        raise MissingLibrary(f"{what} needs the Python library {module}: pip install '{install}'")
