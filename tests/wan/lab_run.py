"""What the tests of the lab share: a call of it, and where there can be none."""

import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LAB = [sys.executable, os.path.join(HERE, "lab")]
TWO = os.path.join(HERE, "topologies", "two.toml")
SKIPPED = 77


def skip_without_a_lab():
    """Ends the test as skipped, with the reason, on a machine that cannot hold a lab."""
    done = lab("run", TWO, "--", "true")
    if done.returncode == SKIPPED:
        print(f"skipped: {done.stderr.strip()}")
        sys.exit(SKIPPED)


def lab(*arguments, timeout=120):
    return subprocess.run([*LAB, *arguments], capture_output=True, text=True, timeout=timeout,
                          stdin=subprocess.DEVNULL, check=False)


def lab_json(*arguments):
    """The finished call, and the JSON that it wrote."""
    with tempfile.TemporaryDirectory(prefix="atoll-wan-test-") as folder:
        path = os.path.join(folder, "out.json")
        done = lab(*arguments, "--json", path)
        assert os.path.exists(path), done.stdout + done.stderr
        with open(path, encoding="utf-8") as source:
            return done, json.load(source)


def topology_file(test, text):
    """The path of a topology that lasts as long as the test."""
    folder = tempfile.TemporaryDirectory(prefix="atoll-wan-test-")
    test.addCleanup(folder.cleanup)
    path = os.path.join(folder.name, "topology.toml")
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)
    return path
