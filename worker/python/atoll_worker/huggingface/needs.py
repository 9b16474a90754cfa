"""Libraries that are no part of this package, and what to say where one is missing."""

import importlib
import sys
from types import ModuleType

from atoll_worker.failure import WorkerFailure

INSTALL = "pip install 'atoll[hf]'"


def need(name: str, install: str = INSTALL,
         who: str = "a model of kind 'huggingface'") -> ModuleType:
    """The module of that name. WorkerFailure: it is not installed for this Python."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        missing = name if getattr(error, "name", name) == name else f"{name} ({error})"
        raise WorkerFailure(f"{missing} is not installed for {sys.executable}; {who} needs it: "
                            f"{install}") from error
