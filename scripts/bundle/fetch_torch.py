#!/usr/bin/env python3
"""Fetches the PyTorch that the worker needs, by this Python's pip.

    atoll-torch [--all]

Where there is no NVIDIA GPU it takes only what training on a CPU needs, a fifth of the gigabytes:
the worker runs with it, Python's own `import torch` does not. --all takes everything, as
`pip install 'atoll[torch]'` does.
"""

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys

VERSION = "@TORCH@"
GPU = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg")  # the last: WSL2


def install(*what):
    """Returns pip's code. Its complaints, which a PyTorch in parts earns, show only if it fails."""
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "-q", *what]
    done = subprocess.run(command, check=False, text=True, stderr=subprocess.PIPE)
    if done.returncode != 0:
        sys.stderr.write(done.stderr)
    return done.returncode


def needs_of_cpu():
    """What libtorch_cpu.so of PyPI's build is linked with, as PyTorch's metadata names it."""
    needs = []
    for line in importlib.metadata.requires("torch") or []:
        need = line.split(";")[0].strip()
        if re.match(r"nvidia-cuda-(runtime|cupti)\b", need):
            needs.append(need)
        elif found := re.match(r"cuda-toolkit\[.*\](.*)", need):
            needs.append("cuda-toolkit[cudart,cupti]" + found.group(1))
    return needs


def main():
    arguments = sys.argv[1:]
    if arguments and arguments != ["--all"]:
        wanted = arguments[0] in ("-h", "--help")
        print(__doc__, file=sys.stdout if wanted else sys.stderr)
        return 0 if wanted else 2
    torch = f"torch == {VERSION}.*"
    if importlib.util.find_spec("pip") is None:
        print(f"atoll-torch: {sys.executable} has no pip: have {torch} installed by what installed "
              f"Atoll, such as `uv pip install '{torch}'`", file=sys.stderr)
        return 1
    if arguments or any(os.path.exists(path) for path in GPU):
        return install(torch)
    print("no NVIDIA GPU here: only what a CPU needs of PyTorch (--all takes all)", flush=True)
    code = install("--no-deps", torch)
    if code != 0:
        return code
    needs = needs_of_cpu()
    return install(*needs) if needs else 0


if __name__ == "__main__":
    sys.exit(main())
