"""Would fail if a log that nobody reads stopped a process or kept it from ending, if a worker that
writes without end filled the disk, if what a worker has started outlived it, or if a daemon whose
socket was cleaned away could not be asked any more.
"""

import fcntl
import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from cluster import BIN, Cluster, atoll, wait_for

F_SETPIPE_SZ = 1031
SMALL = {"step_time": "5ms", "failure_timeout": "3s"}

# A worker that has started others, two of them in sessions of their own, and writes 20 MB.
BUSY_WORKER = """#!/bin/sh
sleep 100001 & echo $! >> {pids}
setsid sleep 100002 & echo $! >> {pids}
(setsid sh -c 'sleep 100003 & echo $! >> {pids}' &)
yes "the same trouble again and again" | head -c 20000000 >&2
exec {worker} "$@"
"""


class UnreadPipe:
    """A pipe of 4 KiB that nobody reads until it is asked to."""

    def __init__(self):
        self.out, self.into = os.pipe()
        fcntl.fcntl(self.into, F_SETPIPE_SZ, 4096)

    def full(self):
        """Whether the next line has to wait."""
        room = bytearray(4)
        fcntl.ioctl(self.out, 0x541B, room)  # FIONREAD
        return int.from_bytes(room, "little") > 3500

    def read_until(self, wanted, seconds=20):
        text = b""
        os.set_blocking(self.out, False)
        end = time.monotonic() + seconds
        while wanted not in text and time.monotonic() < end:
            try:
                text += os.read(self.out, 65536)
            except BlockingIOError:
                time.sleep(0.01)  # between two looks
        return text

    def close(self):
        os.close(self.out)
        os.close(self.into)


def runs(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as source:
            return source.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


class GreyMachineTest(unittest.TestCase):

    def pipe(self):
        pipe = UnreadPipe()
        self.addCleanup(pipe.close)
        return pipe

    def start(self, cluster, name, pipe):
        """A daemon again, by its own command, whose output goes into the pipe."""
        process = subprocess.Popen(shlex.split(cluster.process_of(name)["command"]),
                                   cwd=cluster.dir, stdin=subprocess.DEVNULL, stdout=pipe.into,
                                   stderr=pipe.into)
        cluster.restarted.append(process)
        return process

    def end_within(self, process, seconds=10):
        process.send_signal(signal.SIGTERM)
        return process.wait(timeout=seconds)

    def test_a_log_that_nobody_reads(self):
        with Cluster(rounds=100000, peers=3, quorum=3, steps=2, stub=SMALL) as cluster:
            cluster.wait_version(2)
            processes = {}
            for name in ("coordinator", "peer-1"):
                pid = cluster.kill(name)
                wait_for("its end", lambda pid=pid: not runs(pid))
                pipe = self.pipe()
                processes[name] = (self.start(cluster, name, pipe), pipe)
            wait_for("full pipes", lambda: all(p.full() for _, p in processes.values()))
            # All three are needed for a round.
            cluster.wait_version(cluster.version() + 30)
            watching = self.pipe()
            watch = subprocess.Popen(
                [os.path.join(BIN, "atoll"), "run", "watch", "--dir", cluster.dir, "--json"],
                stdout=watching.into, stderr=watching.into)
            wait_for("a full pipe", watching.full)
            self.end_within(watch)
            self.assertEqual(self.end_within(processes["peer-1"][0]), 0)
            self.end_within(processes["coordinator"][0])
            self.assertTrue(all(p.full() for _, p in processes.values()))

    def test_a_local_run_whose_output_nobody_reads(self):
        """The supervisor does its work, and says afterwards how much it could not say."""
        with Cluster(rounds=1, peers=1, quorum=1, steps=1, stub=SMALL) as cluster:
            cluster.finish()
            with open(cluster.config, encoding="utf-8") as source:
                text = source.read().replace("rounds = 1\n", "rounds = 100000\n")
            with open(cluster.config, "w", encoding="utf-8") as out:
                out.write(text)
            directory = os.path.join(cluster.top, "unread")
            pipe = self.pipe()
            local = subprocess.Popen(
                [os.path.join(BIN, "atoll"), "local", "--config", cluster.config, "--peers", "2",
                 "--dir", directory],
                stdin=subprocess.DEVNULL, stdout=pipe.into, stderr=pipe.into)
            cluster.restarted.append(local)

            def version():
                done = atoll("run", "show", "--dir", directory, "--json")
                return json.loads(done.stdout)["version"] if done.returncode == 0 else 0
            wait_for("more rounds than the pipe has room for", lambda: version() > 40, 90)
            with open(os.path.join(directory, "peer-1", "pid"), encoding="utf-8") as source:
                killed = int(source.read())
            os.kill(killed, signal.SIGKILL)
            # It is waited for, as none is whose supervisor hangs in a write.
            wait_for("it is waited for", lambda: not os.path.exists(f"/proc/{killed}"), 20)
            self.assertIn(b"were left out here", pipe.read_until(b"were left out here"))
            local.send_signal(signal.SIGTERM)
            self.assertIn(b"Go on with", pipe.read_until(b"Go on with", 40))
            self.assertEqual(local.wait(timeout=20), 1)

    def test_what_a_worker_leaves_behind(self):
        top = tempfile.mkdtemp(prefix="atoll-e2e-")
        self.addCleanup(shutil.rmtree, top)
        program, pids = os.path.join(top, "worker"), os.path.join(top, "pids")
        with open(program, "w", encoding="utf-8") as out:
            out.write(BUSY_WORKER.format(pids=pids, worker=os.path.join(BIN, "atoll-stub-worker")))
        os.chmod(program, 0o755)

        def started():
            try:
                with open(pids, encoding="utf-8") as source:
                    return [int(line) for line in source.read().split()]
            except FileNotFoundError:
                return []
        with Cluster(rounds=100000, peers=1, quorum=1, steps=2, stub=SMALL,
                     extra=f'[worker]\nprogram = "{program}"\n') as cluster:
            cluster.wait_version(2)
            first = started()
            self.assertEqual(len(first), 3)
            self.assertTrue(all(runs(pid) for pid in first))
            self.assertLess(os.path.getsize(os.path.join(cluster.dir, "peer-1", "log.txt")),
                            2000000)
            wait_for("what was left out is told",
                     lambda: "were left out here" in cluster.log("peer-1"), 20)

            os.kill(cluster.worker_pid("peer-1"), signal.SIGKILL)
            wait_for("their end", lambda: not any(runs(pid) for pid in first), 10)
            wait_for("others", lambda: len(started()) == 6)
            cluster.wait_version(cluster.version() + 2)

            cluster.kill("peer-1")  # the daemon, which can do nothing any more
            wait_for("their end", lambda: not any(runs(pid) for pid in started()), 10)

            daemon = cluster.restart("peer-1")
            wait_for("others", lambda: len(started()) == 9)
            cluster.wait_version(cluster.version() + 2)
            self.assertEqual(self.end_within(daemon, 30), 0)
            wait_for("their end", lambda: not any(runs(pid) for pid in started()), 10)

    def test_a_socket_that_was_cleaned_away(self):
        with Cluster(rounds=100000, peers=1, quorum=1, steps=2, stub=SMALL) as cluster:
            cluster.wait_version(1)
            folder = os.path.join(cluster.dir, "peer-1")
            socket = os.path.join(folder, "machine.sock")
            pid = cluster.pid_of("peer-1")
            cluster.signal("peer-1", signal.SIGSTOP)
            os.remove(socket)
            told = atoll("status", "--dir", folder)
            self.assertIn(f"runs as pid {pid}; its socket is gone", told.stdout)
            refused = atoll("pause", "--dir", folder)
            self.assertEqual(refused.returncode, 1)
            self.assertIn(f"runs as pid {pid}; its socket is gone", refused.stderr)
            cluster.signal("peer-1", signal.SIGCONT)
            wait_for("another socket", lambda: os.path.exists(socket), 15)
            status = json.loads(atoll("status", "--dir", folder, "--json").stdout)
            self.assertTrue(status["running"])
            self.assertIn("was made again", cluster.log("peer-1"))


if __name__ == "__main__":
    unittest.main()
