"""`atoll-track`: what a coordinator starts, and what a person may call."""

import argparse
import fcntl
import os
import signal
import sys
import threading
from typing import List, Optional, TextIO

from atoll_track.follow import Follower
from atoll_track.source import LAST_PATIENCE, Source
from atoll_track.tracker import MissingLibrary, Tracker

NAME = "atoll-track"
FAILED, NO_LIBRARY = 1, 3  # and 2 for a wrong call
# How long it may take to end after SIGTERM; a coordinator waits for 10 s.
MOST_SECONDS_TO_END = 8.0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=NAME, description="Writes the figures of a run to experiment trackers, every version "
        "once. A coordinator starts it where its config has a section [tracking].")
    parser.add_argument("--to", action="append", required=True, metavar="TRACKER",
                        help="tensorboard:FOLDER, wandb:PROJECT, wandb:ENTITY/PROJECT, mlflow:URI "
                        "or mlflow:FOLDER; may be given several times")
    run = parser.add_mutually_exclusive_group()
    run.add_argument("--dir", help="the folder of a local run")
    run.add_argument("--coordinator", help="the coordinator's address")
    parser.add_argument("--identity", help="folder of the administrator's identity, with "
                        "--coordinator")
    parser.add_argument("--plaintext", action="store_true", help="the run has no certificates")
    parser.add_argument("--name", help="the run's name in the trackers [its id]")
    parser.add_argument("--follow", action="store_true", help="go on until the run is sealed")
    parser.add_argument("--every", type=float, default=5.0, metavar="SECONDS",
                        help="how often to look, with --follow [5]")
    parser.add_argument("--atoll", default="atoll", help="the program to ask [atoll]")
    parser.add_argument("--state", metavar="DIR", help="folder of W&B's files and of a lock, by "
                        "which one such program at a time writes for it [none; W&B's: here]")
    parser.add_argument("--check", action="store_true",
                        help="print what must be installed, if anything, and end")
    return parser


def _say(line: str) -> None:
    print(f"{NAME}: {line}", file=sys.stderr, flush=True)


def tracker_of(target: str, state: str) -> Tracker:
    """The tracker that "tensorboard:runs" names. Fails with ValueError if it names none."""
    kind, _, place = target.partition(":")
    if not place:
        raise ValueError(f"--to '{target}' must be a tracker and its place, like tensorboard:runs")
    if kind == "tensorboard":
        from atoll_track.tensorboard import TensorBoard
        return TensorBoard(place)
    if kind == "wandb":
        from atoll_track.wandb import Wandb
        return Wandb(place, state)
    if kind == "mlflow":
        from atoll_track.mlflow import Mlflow
        return Mlflow(place)
    raise ValueError(f"--to '{target}': '{kind}' is none of tensorboard, wandb and mlflow")


def _where(options: argparse.Namespace) -> List[str]:
    if options.dir:
        return ["--dir", options.dir]
    words = ["--coordinator", options.coordinator] if options.coordinator else []
    words += ["--identity", options.identity] if options.identity else []
    return words + (["--plaintext"] if options.plaintext else [])


def _lock(folder: str) -> TextIO:
    """Waits until no other such program writes for this folder; the kernel gives it up by itself
    when this one ends."""
    os.makedirs(folder, exist_ok=True)
    lock = open(os.path.join(folder, "lock"), "a", encoding="utf-8")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def _end_on_signals(stop: threading.Event, sources: List[Source]) -> None:
    def end(*_) -> None:
        for source in sources:
            source.patience = LAST_PATIENCE
        # A tracker's service may be slow, and this process is not to be waited for.
        deadline = threading.Timer(MOST_SECONDS_TO_END, os._exit, (FAILED,))
        deadline.daemon = True
        deadline.start()
        stop.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)


def _run(options: argparse.Namespace, trackers: dict) -> int:
    stop = threading.Event()
    followers, sources = [], []
    for target, tracker in trackers.items():
        sources.append(Source(options.atoll, _where(options)))
        followers.append(Follower(target, tracker, sources[-1], stop, _say, options.name))
    if not options.follow:
        return 0 if all([follower.once() for follower in followers]) else FAILED
    _end_on_signals(stop, sources)
    lock = _lock(options.state) if options.state else None
    # So that a tracker that does not answer holds up no other.
    threads = [threading.Thread(target=follower.follow, args=(options.every,), daemon=True)
               for follower in followers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if lock is not None:
        lock.close()
    return 0


def main(arguments: Optional[List[str]] = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    trackers, missing = {}, False
    for target in options.to:
        try:
            trackers[target] = tracker_of(target, options.state or ".")
        except MissingLibrary as why:
            if options.check:
                print(why)
            else:
                _say(str(why))
            missing = True
        except ValueError as why:
            parser.error(str(why))
    if options.check:
        return 0
    if not options.dir and not options.coordinator:
        parser.error("name the run: --dir DIR, or --coordinator ADDRESS")
    if not trackers:
        return NO_LIBRARY
    try:
        os.nice(10)  # what trains on this machine goes first
    except OSError:
        pass
    done = _run(options, trackers)
    return FAILED if missing and done == 0 and not options.follow else done
