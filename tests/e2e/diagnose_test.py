"""Would fail if `atoll run diagnose` named something else first than what was made wrong,
or found fault with a run in which all is well.

Real runs of stub workers on this machine: nine with a cause of their own, of which a clock that is
off needs libfaketime and a disk that is nearly full a mount namespace; two that are healthy. Those
two causes are passed over, in words, where a machine cannot make them. A slow line, which only a
network of its own can have, stands in the unit tests with the figures that such a run has told
(tests/unit/daemon/cli/diagnosis_test.cc).
"""

import datetime
import glob
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

from cluster import BIN, Cluster, atoll, wait_for

CONFIG = """
[run]
rounds = 1000000
peers = 3
quorum = 2
[model]
kind = "stub"
parameters = {parameters}
[inner]
steps = {steps}
step_time = "{step_time}"
[exchange]
codec = "{codec}"
chunk_elements = 16384
aggregation = "{aggregation}"
audit_share = 0
[evaluation]
every_rounds = 0
[membership]
failure_timeout = "3s"
[peer]
snapshot_every = 1000000
[worker]
program = "{program}"
"""

# A worker as any other, but for one peer's. $1 is --socket, $2 the socket in the peer's folder.
PROGRAM = """#!/bin/sh
case "$2" in
  */peer-2/*)
    if [ -e {top}/no-worker ]; then echo "no such device" >&2; exit 1; fi
    exec {stub} {options} "$@" ;;
esac
exec {stub} "$@"
"""

# A rule that makes no mean tells no noise scale: a stub's updates agree so well at first that more
# than one peer is too many, which only one of these runs is to be about.
NO_NOISE_SCALE = "median"

# In front of a peer's command: its folder becomes a disk that has room for what is there, and not
# for another snapshot and the log. Nobody else sees that disk, and it ends with the process.
SMALL_DISK = ["unshare", "--map-root-user", "--mount"]
ON_A_SMALL_DISK = """{unshare} /bin/sh -c 'cp -a {name} {name}.before &&
mount -t tmpfs -o size=32m tmpfs {name} && cp -a {name}.before/. {name} && exec "$@"' disk"""

ROUNDS = 6  # looked at: medians of fewer move with every breath of the machine


def faketime():
    """The library that shows a process another time, or None."""
    return next(iter(sorted(glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1"))), None)


def forget_faketime(pid):
    """What the library leaves behind where a process does not end by returning from main."""
    for path in glob.glob(f"/dev/shm/*faketime_s*_{pid}"):
        os.remove(path)


def can_mount():
    return subprocess.run([*SMALL_DISK, "mount", "-t", "tmpfs", "tmpfs", "/mnt"],
                          capture_output=True, check=False).returncode == 0


def hours_but_now():
    """Hours of a week that are neither today nor tomorrow."""
    day = datetime.date.today() + datetime.timedelta(days=3)
    return f"{day:%a} 08:00-09:00".lower()


class Prepared(Cluster):
    """A run of three peers, of which the second's worker has options of its own."""

    def __init__(self, top, options="", parameters=20000, steps=20, step_time="30ms", codec="int8",
                 aggregation=NO_NOISE_SCALE):
        os.mkdir(top)
        self.prepared = top
        program = os.path.join(top, "worker")
        with open(program, "w", encoding="utf-8") as out:
            out.write(PROGRAM.format(top=top, options=options,
                                     stub=os.path.join(BIN, "atoll-stub-worker")))
        os.chmod(program, stat.S_IRWXU)
        super().__init__(text=CONFIG.format(parameters=parameters, steps=steps,
                                            step_time=step_time, codec=codec,
                                            aggregation=aggregation, program=program))

    def diagnosis(self):
        """What is found after some rounds, or None before."""
        done = atoll("run", "diagnose", "--dir", self.dir, "--json")
        if done.returncode != 0:
            return None
        told = json.loads(done.stdout)
        return told if told["rounds"] >= ROUNDS else None

    def names_first(self, cause, peer=""):
        def first():
            told = self.diagnosis()
            if not told or not told["findings"]:
                return None
            found = told["findings"][0]
            return found if (found["cause"], found["peer"]) == (cause, peer) else None
        try:
            return wait_for(f"{cause} is named first", first, 30)
        except AssertionError as error:
            raise AssertionError(f"{error}; found: {json.dumps(self.diagnosis(), indent=1)}")


class DiagnoseTest(unittest.TestCase):

    def setUp(self):
        self.runs = []
        self.addCleanup(lambda: [run.close() for run in self.runs])

    def prepare(self, name, **what):
        folder = tempfile.mkdtemp(prefix="atoll-diagnose-")
        self.addCleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        run = Prepared(os.path.join(folder, name), **what)
        self.runs.append(run)
        return run

    def turn_clock(self, run):
        """Ten minutes, which certificates bear. The worker's clock stays: it only sleeps by it."""
        run.wait_version(1)
        run.kill("peer-2")
        process = run.restart("peer-2", env={
            "LD_PRELOAD": faketime(), "FAKETIME": "+10m", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1",
            "FAKETIME_SKIP_CMDS": "atoll-stub-worker"})
        self.addCleanup(forget_faketime, process.pid)

    def fill_disk(self, run):
        run.wait_version(1)
        run.kill("peer-2")
        run.restart("peer-2", ON_A_SMALL_DISK.format(unshare=" ".join(SMALL_DISK), name="peer-2"))

    def hold_back(self, run):
        run.wait_version(1)
        done = atoll("limits", "set", "--dir", run.process_of("peer-2")["dir"],
                     f"hours={hours_but_now()}")
        self.assertEqual(done.returncode, 0, done.stderr)

    def prepare_if(self, possible, name):
        if not possible:
            print(f"{name}: passed over, this machine cannot make it", file=sys.stderr)
        return self.prepare(name) if possible else None

    def test_runs_that_mostly_wait(self):
        """Side by side: they take next to no processor."""
        clock = self.prepare_if(faketime(), "clock")
        disk = self.prepare_if(can_mount(), "disk")
        limits = self.prepare("limits")
        worker = self.prepare("worker")
        straggler = self.prepare("straggler", options="--slower 4")
        noise = self.prepare("noise", aggregation="mean")
        data = self.prepare("data", options="--shift 3")
        healthy = [self.prepare("healthy"),
                   self.prepare("healthy-too", steps=40, codec="int4", options="--slower 1.1")]

        if clock:
            self.turn_clock(clock)
        if disk:
            self.fill_disk(disk)
        self.hold_back(limits)
        worker.wait_version(2)
        with open(os.path.join(worker.prepared, "no-worker"), "w", encoding="utf-8"):
            pass
        os.kill(wait_for("its worker", lambda: worker.worker_pid("peer-2")), 9)

        found = straggler.names_first("straggler", "peer-2")
        self.assertIn("the others were after", found["what"])
        self.assertEqual(found["key"], "[inner] pace")
        self.assertGreater(found["share"], 0.3)
        self.assertEqual(noise.names_first("noise")["key"], "[run] peers")
        self.assertIn("peer-2", data.names_first("data", "peer-2")["what"])
        self.assertIn("has failed", worker.names_first("worker", "peer-2")["what"])
        found = limits.names_first("limits", "peer-2")
        self.assertIn("does not train because its owner holds it back", found["what"])
        self.assertEqual(found["key"], "[machine]")
        if clock:
            self.assertIn("10 minutes ahead", clock.names_first("clock", "peer-2")["what"])
        if disk:
            self.assertIn("nearly full", disk.names_first("disk", "peer-2")["what"])
        for run in healthy:
            told = wait_for("healthy", run.diagnosis)
            self.assertTrue(told["healthy"], told)
            self.assertEqual(told["findings"], [])
        text = atoll("run", "diagnose", "--dir", healthy[0].dir)
        self.assertEqual(text.returncode, 0)
        self.assertIn("healthy: nothing costs", text.stdout)

    def test_a_large_codec(self):
        """One byte a parameter would save most of what an exchange takes."""
        run = self.prepare("codec", parameters=3000000, steps=5, step_time="20ms", codec="fp32")
        found = run.names_first("codec")
        self.assertEqual((found["key"], found["value"]), ("[exchange] codec", "int8"))

    def test_few_inner_steps(self):
        run = self.prepare("steps", parameters=3000000, steps=2, step_time="20ms")
        found = run.names_first("inner_steps")
        self.assertEqual(found["key"], "[inner] steps")
        self.assertGreater(int(found["value"]), 2)
        self.assertIn("2 inner steps take", found["what"])


if __name__ == "__main__":
    unittest.main()
