"""A world of its own for the lab: private namespaces for network, mounts and processes.

Everything that the lab makes lies in them: interfaces, named network namespaces, processes. When
the lab's first process in there ends, in whatever way, the kernel ends all others and removes the
rest; nothing has to be tidied up and two labs never meet.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys

CLONE_NEWNS = 0x00020000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1

SKIPPED = 77  # what ctest is told where the lab cannot be


class Impossible(Exception):
    """This machine cannot hold a lab, with the reason."""


def check_machine(programs):
    """Says early and plainly what is missing."""
    if os.geteuid() != 0:
        raise Impossible("needs root: it makes network namespaces")
    if not os.path.exists("/dev/net/tun"):
        raise Impossible("needs /dev/net/tun")
    for program, package in programs.items():
        if shutil.which(program) is None:
            raise Impossible(f"needs the program {program} (Debian package {package})")


def enter():
    """Splits this process: returns in the world, as its first process; outside, the call waits for
    the world's end and exits with its code. Impossible if the kernel refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID) != 0:
        raise Impossible(f"may not make namespaces: {os.strerror(ctypes.get_errno())}")
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child != 0:
        _stand_by(child)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    try:
        for command in (["mount", "--make-rprivate", "/"],
                        ["mount", "-t", "proc", "proc", "/proc"],
                        ["mount", "-t", "tmpfs", "tmpfs", "/run"]):
            subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "stderr", None) or error
        raise Impossible(f"may not mount in namespaces: {str(reason).strip()}") from None


def _end(number, _frame):
    for again in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(again, signal.SIG_IGN)
    raise SystemExit(128 + number)


def _stand_by(child):
    # A terminal's Ctrl-C reaches both; one that was meant for this process alone is passed on.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: os.kill(child, number))
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)
