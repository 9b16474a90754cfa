"""A small real run on loopback for the end-to-end tests: start it, look at it, kill parts of it.

Everything waits for a condition with a deadline; nothing sleeps for a fixed time and hopes.

With ATOLL_TEST_STORE=etcd the coordinators of these runs keep their state in an etcd of their own,
so that each test of a death can be repeated with the other store:
`ATOLL_TEST_STORE=etcd ctest --test-dir build/release -R 'e2e_(faults|life|membership)'`. Without
etcd it exits with 77.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from etcd_members import EtcdMembers, etcd_program
from ports import free_port  # noqa: F401  for those who take it from here

BIN = os.environ.get("ATOLL_BIN", "")
STORE = os.environ.get("ATOLL_TEST_STORE", "sqlite")
if STORE not in ("sqlite", "etcd"):
    sys.exit(f"ATOLL_TEST_STORE={STORE}: it must be sqlite or etcd")
if STORE == "etcd" and etcd_program() is None:
    print("no etcd: scripts/etcd build/etcd fetches it")
    sys.exit(77)

WORDS = (
    "the atoll is a ring of islands and each island trains alone for a while before the sea "
    "carries what it learned to the others so that all of them know the same thing again "
).split()


def write_corpus(path, sentences=4000):
    """English-looking text that is the same on every machine."""
    state = 12345
    with open(path, "w", encoding="utf-8") as out:
        for _ in range(sentences):
            line = []
            for _ in range(12):
                state = (state * 1103515245 + 12345) % 2**31
                line.append(WORDS[(state >> 8) % len(WORDS)])
            out.write(" ".join(line) + ".\n")


CONFIG = """
[run]
rounds = {rounds}
peers = {peers}
quorum = {quorum}
[model]
kind = "gpt"
layers = {layers}
heads = 2
width = {width}
context = 32
[data]
path = "{data}"
[inner]
steps = {steps}
batch = 4
warmup_steps = 10
[outer]
rule = "nesterov"
[exchange]
codec = "int8"
error_feedback = {error_feedback}
chunk_elements = 4096
[evaluation]
tokens = 2048
every_rounds = 10
[membership]
failure_timeout = "3s"
"""


# Training that only takes time, on a vector large enough for an exchange that can be hit.
STUB_CONFIG = """
[run]
rounds = {rounds}
peers = {peers}
quorum = {quorum}
[model]
kind = "stub"
parameters = {parameters}
[inner]
steps = {steps}
step_time = "{step_time}"
[exchange]
codec = "int8"
chunk_elements = {chunk_elements}
[evaluation]
every_rounds = 0
[membership]
failure_timeout = "{failure_timeout}"
[peer]
snapshot_every = {snapshot_every}
donate_bytes_per_second = {donate}
[log]
level = "debug"
"""


def wait_for(what, condition, seconds=60):
    """Returns the first true value of condition(); fails naming `what` after `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)  # between two looks, not instead of one
    raise AssertionError(f"not within {seconds} s: {what}")


def own_store(top):
    """The etcd member of a run whose test asks for it, or None: then the run has SQLite."""
    return EtcdMembers(top, 1) if STORE == "etcd" else None


def with_store(config, etcd):
    """The text of a coordinator's config, with its state in these members of etcd."""
    if etcd is None:
        return config
    keys = f'store = "etcd"\netcd = "{etcd.endpoints}"\n'
    section = re.search(r"^\[coordinator\].*\n", config, re.MULTILINE)
    if section is None:
        return f"{config}\n[coordinator]\n{keys}"
    return config[:section.end()] + keys + config[section.end():]


class Cluster:
    """`atoll local` on a temporary directory."""

    def __init__(self, rounds=30, peers=3, quorum=2, steps=5, layers=1, width=64,
                 error_feedback=False, stub=None, extra="", text=None, folder="run"):
        self.top = tempfile.mkdtemp(prefix="atoll-e2e-")
        self.dir = os.path.join(self.top, folder)
        self.json_path = os.path.join(self.top, "out.json")
        self.output_path = os.path.join(self.top, "output.txt")
        self.config = os.path.join(self.top, "run.toml")
        if text is not None:  # the whole config
            pass
        elif stub is None:
            data = os.path.join(self.top, "text.txt")
            write_corpus(data)
            text = CONFIG.format(rounds=rounds, peers=peers, quorum=quorum, steps=steps,
                                 layers=layers, width=width, data=data,
                                 error_feedback=str(error_feedback).lower())
        else:
            values = {"parameters": 20000, "step_time": "20ms", "chunk_elements": 16384,
                      "failure_timeout": "3s", "snapshot_every": 20, "donate": 0, **stub}
            text = STUB_CONFIG.format(rounds=rounds, peers=peers, quorum=quorum, steps=steps,
                                      **values)
        self.etcd = own_store(self.top)
        with open(self.config, "w", encoding="utf-8") as out:
            out.write(with_store(text + extra, self.etcd))
        self.output = open(self.output_path, "w", encoding="utf-8")
        self.process = subprocess.Popen(
            [os.path.join(BIN, "atoll"), "local", "--config", self.config,
             "--peers", str(peers), "--dir", self.dir, "--json", self.json_path],
            stdout=self.output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        self.restarted = []

    # -- looking

    def peers_json(self):
        try:
            with open(os.path.join(self.dir, "peers.json"), encoding="utf-8") as source:
                entries = json.load(source)
            for entry in entries:  # the file has folders as seen from its own
                entry["dir"] = os.path.join(self.dir, entry["dir"])
            return entries
        except (FileNotFoundError, json.JSONDecodeError):
            return []

    def process_of(self, name):
        for entry in self.peers_json():
            if entry["id"] == name:
                return entry
        raise AssertionError(f"{name} is not in peers.json: {self.peers_json()}")

    def pid_of(self, name):
        with open(os.path.join(self.process_of(name)["dir"], "pid"), encoding="utf-8") as source:
            return int(source.read())

    def status(self):
        """What `atoll run show` says, or None while there is no coordinator."""
        done = atoll("run", "show", "--dir", self.dir, "--json", timeout=30)
        if done.returncode != 0:
            return None
        status = json.loads(done.stdout)
        return status if status["epoch"] else None  # 0: told from the folder alone

    def version(self):
        status = self.status()
        return int(status.get("version", 0)) if status else -1

    def wait_version(self, version, seconds=90):
        return wait_for(f"version {version}", lambda: self.version() >= version, seconds)

    def wait_mid_round(self, version, seconds=90):
        """Waits for a moment in which the round after `version` or a later one is being trained."""
        def trains():
            status = self.status()
            return (status and int(status.get("version", 0)) >= version and
                    status.get("phase") == "training")
        return wait_for(f"training after version {version}", trains, seconds)

    def log(self, name):
        path = os.path.join(self.process_of(name)["dir"], "log.txt")
        with open(path, encoding="utf-8") as source:
            return source.read()

    def all_logs(self, name):
        """Of all its lives."""
        text = self.log(name)
        try:
            with open(os.path.join(self.top, name + ".restart.txt"), encoding="utf-8") as source:
                return text + source.read()
        except FileNotFoundError:
            return text

    def peer(self, name):
        """Its part of `atoll run show`, or None while there is no coordinator."""
        status = self.status()
        for one in (status or {}).get("peers", []):
            if one["member"]["peer"] == name:
                return one
        return None

    def verify(self, name):
        """What `atoll log verify` says of a peer's directory."""
        done = atoll("log", "verify", "--dir", self.process_of(name)["dir"], "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def wait_phase(self, phase, seconds=90):
        """The next moment at which the run is in this phase; found by following it closely."""
        end = time.monotonic() + seconds
        watcher = subprocess.Popen(
            [os.path.join(BIN, "atoll"), "run", "watch", "--dir", self.dir, "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            for line in watcher.stdout:
                status = json.loads(line)
                if status.get("phase") == phase:
                    return status
                if time.monotonic() > end:
                    break
        finally:
            watcher.kill()
            watcher.wait()
            watcher.stdout.close()
        raise AssertionError(f"the run was not {phase} within {seconds} s")

    def text(self):
        self.output.flush()
        with open(self.output_path, encoding="utf-8") as source:
            return source.read()

    # -- doing

    def kill(self, name):
        pid = self.pid_of(name)
        os.kill(pid, signal.SIGKILL)
        return pid

    def wipe(self, name):
        """Removes what a dead peer has on disk, but neither its config nor who it is."""
        folder = self.process_of(name)["dir"]
        for entry in os.listdir(folder):
            path = os.path.join(folder, entry)
            if entry == "identity":
                continue
            if os.path.isdir(path):
                shutil.rmtree(path)
            elif entry not in ("config.toml", "log.txt"):
                os.remove(path)

    def bytes_under(self, name, folder):
        total = 0
        top = os.path.join(self.process_of(name)["dir"], folder)
        for place, _, files in os.walk(top):
            for file in files:
                try:
                    total += os.path.getsize(os.path.join(place, file))
                except FileNotFoundError:
                    pass
        return total

    def signal(self, name, number):
        os.kill(self.pid_of(name), number)

    def restart(self, name, before="", env=None):
        """With the command that peers.json names, as a user would; `before` comes before it."""
        command = f"{before} {self.process_of(name)['command']}"
        with open(os.path.join(self.top, name + ".restart.txt"), "a", encoding="utf-8") as log:
            process = subprocess.Popen(["/bin/sh", "-c", "exec " + command], cwd=self.dir,
                                       stdout=log, stderr=subprocess.STDOUT,
                                       stdin=subprocess.DEVNULL,
                                       env={**os.environ, **(env or {})})
        self.restarted.append(process)
        return process

    def worker_pid(self, name):
        """The worker of a peer: a child of its daemon."""
        parent = self.pid_of(name)
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8") as source:
                    stat = source.read()
                # Not the name in stat: a worker that has begun anew for its math library is "exe".
                with open(f"/proc/{entry}/cmdline", encoding="utf-8") as source:
                    command = source.read()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(stat.rpartition(")")[2].split()[1]) == parent and "--socket" in command:
                return int(entry)
        return None

    def finish(self, seconds=240):
        """Waits for the end and returns the JSON report."""
        code = self.process.wait(timeout=seconds)
        assert code == 0, f"atoll local exited with {code}\n{self.text()}"
        with open(self.json_path, encoding="utf-8") as source:
            return json.load(source)

    def close(self):
        for process in [self.process, *self.restarted]:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(timeout=20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        self.output.close()
        if self.etcd is not None:
            self.etcd.close()
        shutil.rmtree(self.top, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is not None:
            sys.stderr.write(f"--- output of atoll local\n{self.text()}\n")
            for entry in self.peers_json():
                try:
                    tail = "\n".join(self.log(entry["id"]).splitlines()[-40:])
                    sys.stderr.write(f"--- log of {entry['id']}\n{tail}\n")
                except OSError:
                    pass
        self.close()
        return False


def atoll(*arguments, timeout=60, env=None):
    """Runs `atoll` and returns the finished process."""
    return subprocess.run([os.path.join(BIN, "atoll"), *arguments], capture_output=True, text=True,
                          timeout=timeout, check=False, env=env)


def token_file(path, token):
    """A file that is its owner's alone, as --token-file wants it."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w",
              encoding="utf-8") as out:
        out.write(token + "\n")
    return path


def equal_digests(report):
    digests = {peer["state_digest"] for peer in report["peers"]}
    return digests == {report["state_digest"]} and len(report["state_digest"]) == 64
