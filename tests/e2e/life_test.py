"""Would fail if a run that is stopped, cannot begin, or has an oddly named folder hung, lost what
it had reached, or took its logs away.
"""

import json
import os
import signal
import subprocess
import tempfile
import unittest
import unittest.mock

from cluster import BIN, Cluster, atoll, wait_for, write_corpus

OWN_WORKER = """
[run]
rounds = 3
peers = 2
[model]
kind = "gpt"
layers = 1
heads = 2
width = 32
context = 32
[data]
path = "{path}"
[worker]
program = "{program}"
"""


class LifeTest(unittest.TestCase):

    def setUp(self):
        self.top = tempfile.TemporaryDirectory(prefix="atoll-e2e-")
        self.addCleanup(self.top.cleanup)

    def start(self, cluster, peers=2):
        return subprocess.Popen(
            [os.path.join(BIN, "atoll"), "local", "--config", cluster.config, "--peers", str(peers),
             "--dir", cluster.dir, "--json", cluster.json_path], stdout=cluster.output,
            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def stop(self, cluster, *signals):
        for number in signals:
            cluster.process.send_signal(number)
        self.assertEqual(1, cluster.process.wait(timeout=100), cluster.text())

    def test_a_run_that_is_stopped_says_what_it_reached_and_goes_on(self):
        with Cluster(rounds=100000, peers=2, quorum=1, steps=2, width=32) as cluster:
            cluster.wait_version(2)
            # As `timeout` does: the process, then its group.
            self.stop(cluster, signal.SIGTERM, signal.SIGTERM)
            said = cluster.text()
            for part in ("validation loss before", "loss curve", "Go on with: ",
                         "stopped at round "):
                self.assertIn(part, said)
            for name in ("model.safetensors", "loss.svg", "peer-1/log.txt"):
                self.assertTrue(os.path.exists(os.path.join(cluster.dir, name)), name)
            with open(cluster.json_path, encoding="utf-8") as source:
                report = json.load(source)
            self.assertGreaterEqual(report["rounds"], 2)
            # The folder tells how it stands.
            shown = atoll("run", "show", "--dir", cluster.dir, "--json")
            self.assertEqual(0, shown.returncode, shown.stderr)
            self.assertEqual("stopped", json.loads(shown.stdout)["phase"])
            reached = json.loads(shown.stdout)["version"]
            self.assertEqual(report["rounds"], reached)
            listed = atoll("peer", "list", "--dir", cluster.dir)
            self.assertEqual(0, listed.returncode, listed.stderr)
            self.assertEqual(2, listed.stdout.count(" ended "), listed.stdout)
            watched = atoll("run", "watch", "--dir", cluster.dir)
            self.assertEqual(1, watched.returncode, watched.stdout)
            self.assertIn("no coordinator of it runs; go on with: ", watched.stdout)
            # The command that was named goes on from there, wherever the folder is by now.
            old = cluster.dir
            cluster.dir = os.path.join(cluster.top, "elsewhere", "run")
            os.mkdir(os.path.dirname(cluster.dir))
            os.rename(old, cluster.dir)
            self.what_a_moved_run_gives(cluster, reached)
            cluster.process = self.start(cluster)
            cluster.wait_version(reached + 1)
            self.assertEqual(1, self.start(cluster).wait(timeout=60))  # not twice
            self.assertIn(" is in use by process ", cluster.text())
            cluster.kill("peer-1")
            cluster.restart("peer-1")
            wait_for("it is back", lambda: "peer-1 is back" in cluster.text())
            self.stop(cluster, signal.SIGHUP)
            self.assertFalse(os.path.exists(old))

    def what_a_moved_run_gives(self, cluster, reached):
        """Also with nowhere to put a temporary file: models go through a pipe."""
        def told(*words):
            done = atoll(*words, env={**os.environ, "TMPDIR": "/nowhere"})
            self.assertEqual(0, done.returncode, (words, done.stderr))
            return done.stdout
        shown = json.loads(told("run", "show", "--dir", cluster.dir, "--json"))
        self.assertEqual(reached, shown["version"])
        saved = os.path.join(cluster.top, "saved")
        told("snapshot", "save", "--dir", cluster.dir, "--version", str(reached), "--out", saved)
        text = os.path.join(cluster.top, "text.txt")
        for place in (cluster.dir, saved):
            verified = json.loads(told("log", "verify", "--dir", place))
            self.assertEqual(reached, verified["versions"])
            told("generate", "--dir", place, "--prompt", "the", "--tokens", "4", "--json")
            told("eval", "--dir", place, "--data", text, "--json")
            exported = told("export", "--dir", place, "--output", place + "-exported")
            self.assertIn(verified["state_digest"], exported)
            # A folder has one model at a time, and nothing else stays there.
            self.assertEqual(["config.json", "model.safetensors"],
                             sorted(os.listdir(place + "-exported")))
        done = atoll("eval", "--dir", saved)
        self.assertEqual(2, done.returncode)
        self.assertIn("--data must name the run's text", done.stderr)

    def test_a_run_of_one_ends_with_the_same_bits_however_often_it_is_ended(self):
        whole = {"rounds": 7, "peers": 1, "quorum": 1, "steps": 60, "error_feedback": False}
        with Cluster(**whole) as cluster:
            digest = cluster.finish()["state_digest"]
        with Cluster(**whole) as cluster:
            cluster.wait_mid_round(2)
            self.stop(cluster, signal.SIGTERM)
            cluster.process = self.start(cluster, peers=1)
            cluster.wait_mid_round(4)
            self.kill_all(cluster)
            cluster.process = self.start(cluster, peers=1)
            report = cluster.finish()
            log = cluster.all_logs("peer-1")
        self.assertEqual(7, report["peers"][0]["version"])
        self.assertEqual(2, log.count("optimiser's state of"), log)
        self.assertNotIn("may differ from a run that was never stopped", log)
        self.assertEqual(digest, report["state_digest"], log)

    def kill_all(self, cluster):
        """As a machine's OOM killer does, or `kill -9`: the daemons and the worker too."""
        cluster.process.send_signal(signal.SIGSTOP)  # it starts nothing again
        for pid in [cluster.worker_pid("peer-1")] + [
                cluster.pid_of(name) for name in ("peer-1", "coordinator")]:
            os.kill(pid, signal.SIGKILL)
        cluster.process.send_signal(signal.SIGKILL)
        cluster.process.wait(timeout=30)

    def test_a_run_whose_output_nobody_reads_any_more_ends_in_order(self):
        with Cluster(rounds=100000, peers=1, quorum=1, stub={"parameters": 1000}) as cluster:
            cluster.wait_version(1)
            self.stop(cluster, signal.SIGINT)
            read, write = os.pipe()
            cluster.output, before = os.fdopen(write, "w"), cluster.output
            before.close()
            cluster.process = self.start(cluster, peers=1)
            cluster.output.close()
            os.read(read, 1)  # as `head` does
            os.close(read)
            self.assertEqual(1, cluster.process.wait(timeout=100))
            with open(cluster.json_path, encoding="utf-8") as source:
                self.assertGreaterEqual(json.load(source)["rounds"], 1)
            listed = atoll("peer", "list", "--dir", cluster.dir)
            self.assertIn(" ended ", listed.stdout)

    def test_a_run_none_of_whose_workers_starts_ends_with_the_reason(self):
        text_file = os.path.join(self.top.name, "text.txt")
        write_corpus(text_file, 200)
        program = os.path.join(self.top.name, "worker")
        with open(program, "w", encoding="utf-8") as out:
            out.write("#!/bin/sh\necho 'no luck on this machine' >&2\nexit 1\n")
        os.chmod(program, 0o755)
        text = OWN_WORKER.format(path=text_file, program=program)
        with Cluster(peers=2, text=text) as cluster:
            self.assertEqual(1, cluster.process.wait(timeout=100), cluster.text())
            said = cluster.text()
            self.assertIn("its worker does not start: ", said)
            self.assertIn("for 20 s no worker of this run has started: ", said)
            self.assertIn("no luck on this machine", said)
            # Where an experiment, which has started it, looks for the reason.
            self.assertTrue(said.splitlines()[-1].startswith("it ended: for 20 s "), said)
            self.assertTrue(os.path.exists(os.path.join(cluster.dir, "peer-1", "log.txt")))

    def test_two_that_can_never_train_do_not_hold_the_others(self):
        program = os.path.join(self.top.name, "worker")
        with open(program, "w", encoding="utf-8") as out:
            out.write("#!/bin/sh\ncase \"$PWD $*\" in\n"
                      "*peer-3*) echo 'no luck on this machine' >&2; exit 1;;\nesac\n"
                      f"exec {os.path.join(BIN, 'atoll-stub-worker')} \"$@\"\n")
        os.chmod(program, 0o755)
        trace = os.path.join(self.top.name, "trace")
        with open(trace, "w", encoding="utf-8") as out:
            out.write("1 always\n2 always\n3 always\n4 never\n")
        with Cluster(rounds=3, peers=4, quorum=2, stub={"failure_timeout": "1s"},
                     extra=f'[worker]\nprogram = "{program}"\n'
                           f'[availability]\ntrace = "{trace}"\n') as cluster:
            def aside(peer, why):
                return (f"the first round does not wait for peer {peer} any more, whose worker has "
                        f"not trained for 14s: {why}")
            wait_for("the run shows why it waits", lambda: "4: away by its trace for good" in
                     ((cluster.status() or {}).get("reason") or ""), 30)
            self.assertEqual(0, cluster.process.wait(timeout=100), cluster.text())
            said = cluster.text()
            self.assertIn(aside("peer-3", "exit code 1: no luck on this machine"), said)
            self.assertIn(aside("peer-4", "away by its trace for good"), said)
            with open(cluster.json_path, encoding="utf-8") as source:
                self.assertEqual(3, json.load(source)["rounds"])

    def test_a_run_that_too_few_can_begin_ends_with_the_reason(self):
        trace = os.path.join(self.top.name, "trace")
        with open(trace, "w", encoding="utf-8") as out:
            out.write("1 always\n2 never\n")
        with Cluster(rounds=3, peers=2, quorum=2,
                     extra=f'[availability]\ntrace = "{trace}"\n', stub={}) as cluster:
            self.assertEqual(1, cluster.process.wait(timeout=100), cluster.text())
            self.assertEqual("it ended: for 20 s only 1 of 2 peers could train, and a round needs "
                             "2: peer-2: away by its trace for good",
                             cluster.text().splitlines()[-1])

    def test_a_folder_with_an_odd_name_trains(self):
        # Its own folder for what is temporary: others' come and go in /tmp.
        temporary = os.path.join(self.top.name, "tmp")
        os.mkdir(temporary)
        with unittest.mock.patch.dict(os.environ, TMPDIR=temporary), \
             Cluster(rounds=100000, peers=1, quorum=1, stub={"parameters": 1000},
                     folder="lr=1e-3,batch=4 #1?%41" + "x" * 80) as cluster:
            cluster.wait_version(2)
            self.assertNotEqual([], os.listdir(temporary))  # the worker's socket
            self.stop(cluster, signal.SIGINT)
        self.assertEqual([], os.listdir(temporary))

    def test_a_second_daemon_in_one_folder_is_refused(self):
        with Cluster(rounds=100000, peers=2, quorum=2, stub={"parameters": 1000}) as cluster:
            cluster.wait_version(1)
            for name in ("peer-1", "coordinator"):
                pid = cluster.pid_of(name)
                second = cluster.restart(name)
                self.assertEqual(1, second.wait(timeout=60))
                self.assertIn(f"is in use by process {pid}", cluster.all_logs(name))
                self.assertEqual(pid, cluster.pid_of(name))
            version = cluster.version()
            wait_for("the run goes on", lambda: cluster.version() > version)


if __name__ == "__main__":
    unittest.main()
