"""Starts Atoll's programs, which lie beside this file. pip makes a command of each function."""

import importlib.util
import os
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def _torch():
    """PyTorch's folder if Python finds it elsewhere than beside Atoll, else nothing."""
    if os.path.isdir(os.path.join(os.path.dirname(HERE), "torch")):
        return ""
    found = importlib.util.find_spec("torch")
    return os.path.dirname(found.origin) if found is not None and found.origin else ""


def _start(name):
    program = os.path.join(HERE, "bin", name)
    folder = os.path.dirname(os.path.abspath(sys.argv[0]))
    # Workers in Python are looked for in PATH, also where nobody has activated the environment.
    path = os.environ.get("PATH", "")
    if folder not in path.split(os.pathsep):
        os.environ["PATH"] = folder + os.pathsep + path if path else folder
    if "ATOLL_TORCH" not in os.environ and (torch := _torch()):
        os.environ["ATOLL_TORCH"] = torch
    # Python ignores these, and what a process ignores, the program that it becomes ignores too.
    for name in ("SIGPIPE", "SIGXFSZ"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    os.execv(program, [program, *sys.argv[1:]])


def atoll():
    _start("atoll")


def atolld():
    _start("atolld")


def worker():
    _start("atoll-worker")


def stub_worker():
    _start("atoll-stub-worker")


def quickstart():
    _start("atoll-quickstart")
