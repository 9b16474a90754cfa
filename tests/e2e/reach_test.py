"""Would fail if peers that nobody can dial could not train: beside others that can be dialled, with
the aggregator that the coordinator starts, or at least with a word about what is missing."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from cluster import BIN, STUB_CONFIG, atoll, free_port, wait_for


class Machines:
    """A coordinator and peers, each started as on a machine of its own; peers that nobody can dial
    have no address."""

    def __init__(self, peers, dial_out, aggregator="auto", rounds=8, quorum=2):
        self.top = tempfile.mkdtemp(prefix="atoll-e2e-")
        self.address = f"127.0.0.1:{free_port()}"
        self.whom = ["--coordinator", self.address, "--identity", f"{self.top}/coordinator/admin"]
        self.run = STUB_CONFIG.format(
            rounds=rounds, peers=peers, quorum=quorum, steps=4, parameters=60000,
            step_time="20ms", chunk_elements=4096, failure_timeout="3s", snapshot_every=20,
            donate=0)
        self.processes = {}
        for number in range(1, peers + 1):
            done = atoll("identity", "issue", "--dir", f"{self.top}/coordinator", "--id",
                         f"peer-{number}", "--out", f"{self.top}/peer-{number}/identity")
            assert done.returncode == 0, done.stderr
        self.start("coordinator", "coordinator", {"coordinator": {
            "address": self.address, "dir": f"{self.top}/coordinator", "exit_when_sealed": True,
            "aggregator": aggregator, "aggregator_address": f"127.0.0.1:{free_port()}"}})
        for number in range(1, peers + 1):
            name = f"peer-{number}"
            advertise = "none" if number <= dial_out else ""
            self.start(name, "peer", {
                "peer": {"id": name, "dir": f"{self.top}/{name}", "advertise": advertise},
                "coordinator": {"address": self.address}})

    def start(self, name, role, sections):
        config = os.path.join(self.top, f"{name}.toml")
        text = self.run
        for section, values in sections.items():
            lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
            if f"[{section}]\n" not in text:
                text += f"[{section}]\n"
            text = text.replace(f"[{section}]\n", f"[{section}]\n{lines}")
        with open(config, "w", encoding="utf-8") as out:
            out.write(text)
        with open(os.path.join(self.top, f"{name}.log"), "w", encoding="utf-8") as log:
            self.processes[name] = subprocess.Popen(
                [os.path.join(BIN, "atolld"), role, "--config", config], stdout=log,
                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def log(self, name):
        with open(os.path.join(self.top, f"{name}.log"), encoding="utf-8") as source:
            return source.read()

    def finish(self, seconds=120):
        for name, process in self.processes.items():
            code = process.wait(timeout=seconds)
            assert code == 0, f"{name} exited with {code}\n{self.log(name)[-3000:]}"

    def verify(self, name):
        done = atoll("log", "verify", "--dir", os.path.join(self.top, name), "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()
        if kind is not None:
            for name in self.processes:
                sys.stderr.write(f"--- {name}\n" + "\n".join(self.log(name).splitlines()[-40:]))
        shutil.rmtree(self.top, ignore_errors=True)
        return False


class ReachTest(unittest.TestCase):

    def check_equal(self, machines, names, rounds):
        reports = [machines.verify(name) for name in names]
        self.assertEqual({rounds}, {report["versions"] for report in reports})
        self.assertEqual(1, len({report["state_digest"] for report in reports}), reports)

    def committed_by(self, machines):
        """Who contributed, one list a round."""
        return [line.split(", ") for line in
                re.findall(r"round \d+: committed by ([^;\n]*)", machines.log("coordinator"))]

    def test_two_of_four_that_nobody_can_dial_contribute_in_full(self):
        # Would fail if a peer behind NAT were left out, or asked to reduce.
        with Machines(peers=4, dial_out=2, rounds=6) as machines:
            machines.finish()
            everybody = [f"peer-{number}" for number in range(1, 5)]
            self.check_equal(machines, everybody, 6)
            rounds = self.committed_by(machines)
            self.assertEqual(6, len(rounds))
            # A machine that stalls may leave one out of a round.
            full = sum(sorted(names) == everybody for names in rounds)
            self.assertGreaterEqual(full, 5, rounds)
            self.assertNotIn("starting an aggregator", machines.log("coordinator"))

    def test_a_crowd_that_nobody_can_dial_has_the_coordinators_aggregator(self):
        # Would fail if such a run could not make version 0, reduce, commit, or end.
        with Machines(peers=3, dial_out=3, rounds=6) as machines:
            machines.finish()
            self.check_equal(machines, ["peer-1", "peer-2", "peer-3", "coordinator/aggregator"], 6)
            self.assertIn("starting an aggregator", machines.log("coordinator"))
            for names in self.committed_by(machines):
                self.assertNotIn("aggregator", names)

    def test_without_an_aggregator_the_watch_names_the_wait(self):
        # Would fail if a run that cannot go on did not say why.
        with Machines(peers=2, dial_out=2, aggregator="never") as machines:
            wait_for("a coordinator", lambda: self.show(machines), 60)
            watch = subprocess.Popen(
                [os.path.join(BIN, "atoll"), "run", "watch", *machines.whom],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            said = []
            wait = "no reachable peer to make version 0: peer-1, peer-2"
            try:
                for line in watch.stdout:
                    said.append(line)
                    if wait in line:
                        break
                    self.assertIsNone(watch.poll(), said)
                else:
                    self.fail(f"the watch has ended: {said}")
            finally:
                watch.kill()
                watch.wait()
                watch.stdout.close()
            self.assertEqual("waiting", self.show(machines)["phase"])
            self.assertIn(wait, self.show(machines)["reason"])

    def show(self, machines):
        done = atoll("run", "show", *machines.whom, "--json")
        return json.loads(done.stdout) if done.returncode == 0 else None


if __name__ == "__main__":
    unittest.main()
