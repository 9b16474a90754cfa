"""Would fail if a run's rounds were missing in a tracker, or there twice, after tracker and
coordinator were killed and started again; or if a tracker that cannot work held up its run.

TensorBoard's files are written without a library. Weights & Biases (offline) and MLflow (a database
in a folder) take part where this interpreter has their libraries.
"""

import glob
import importlib.util
import json
import os
import signal
import sys
import tempfile
import unittest
from collections import Counter

from cluster import STUB_CONFIG, Cluster, wait_for

SOURCE = os.environ.get("ATOLL_SOURCE", os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.append(os.path.join(SOURCE, "tests", "unit", "worker", "python"))

from tracker_files import points_of_file, rows_of_wandb  # noqa: E402

ROUNDS = 40
HAS_WANDB = importlib.util.find_spec("wandb") is not None
HAS_MLFLOW = all(importlib.util.find_spec(name) for name in ("mlflow", "sqlalchemy"))


def child_of(parent, words):
    """The child of a process with these words in its command line, or None."""
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8") as source:
                of = int(source.read().rpartition(")")[2].split()[1])
            with open(f"/proc/{entry}/cmdline", encoding="utf-8") as source:
                command = source.read()
        except OSError:
            continue
        if of == parent and words in command:
            return int(entry)
    return None


class TrackingTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="atoll-tracking-")
        self.addCleanup(folder.cleanup)
        self.top = folder.name
        self.boards = os.path.join(self.top, "boards")
        self.program = self.script(
            f'PYTHONPATH="{os.path.abspath(SOURCE)}/worker/python" WANDB_MODE=offline '
            f'exec "{sys.executable}" -m atoll_track --every 0.1 "$@"')

    def script(self, line):
        path = os.path.join(self.top, f"program-{len(os.listdir(self.top))}")
        with open(path, "w", encoding="utf-8") as out:
            out.write(f"#!/bin/sh\n{line}\n")
        os.chmod(path, 0o755)
        return path

    def cluster(self, keys, rounds=ROUNDS):
        text = STUB_CONFIG.format(rounds=rounds, peers=2, quorum=1, steps=5, parameters=20000,
                                  step_time="20ms", chunk_elements=16384, failure_timeout="3s",
                                  snapshot_every=20, donate=0)
        return Cluster(peers=2, text=text.replace("every_rounds = 0", "every_rounds = 6"),
                       extra=f"[tracking]\n{keys}\n")

    def evaluated(self, cluster):
        """The versions that were evaluated in time, as the run's own figures have it."""
        with open(os.path.join(cluster.dir, "metrics.jsonl"), encoding="utf-8") as source:
            rows = [json.loads(line) for line in source]
        self.assertEqual(list(range(ROUNDS + 1)), [row["version"] for row in rows])
        return [row["version"] for row in rows if row["validation/loss"] is not None]

    def kill_tracker(self, cluster):
        """On a busy machine the run may be sealed before its tracker is up, which then ends."""
        def there():
            pid = child_of(cluster.pid_of("coordinator"), "atoll_track")
            status = None if pid else cluster.status()
            return pid or (status and status["phase"] == "sealed" and -1)

        pid = wait_for("atoll-track runs", there)
        if pid > 0:
            os.kill(pid, signal.SIGKILL)

    def newest(self):
        """The newest round that TensorBoard's file has; a last record may be on its way."""
        files = glob.glob(f"{self.boards}/*/events*")
        try:
            return max(step for step, tag in points_of_file(files[0]) if tag == "train/loss")
        except (IndexError, ValueError, AssertionError):
            return 0

    def check_tensorboard(self, evaluated):
        file, = glob.glob(f"{self.boards}/*/events*")
        points = points_of_file(file)
        self.assertEqual([], [key for key, values in points.items() if len(values) != 1])
        for tag, versions in (("train/loss", list(range(1, ROUNDS + 1))),
                              ("train/total_tokens", list(range(0, ROUNDS + 1))),
                              ("validation/loss", evaluated)):
            self.assertEqual(versions, sorted(step for step, one in points if one == tag), tag)

    def check_wandb(self, folder, evaluated):
        file, = glob.glob(f"{folder}/tracking/wandb/offline-run-*/*.wandb")
        rows = rows_of_wandb(file)
        self.assertEqual(list(range(1, ROUNDS + 1)),
                         [step for step, row in rows if "train/loss" in row])
        self.assertEqual(evaluated, [row["validation/version"] for _, row in rows
                                     if "validation/loss" in row])

    def check_mlflow(self, evaluated):
        from mlflow.tracking import MlflowClient
        client = MlflowClient(f"sqlite:///{self.top}/mlflow/mlflow.db")
        run, = client.search_runs([client.get_experiment_by_name("atoll").experiment_id])
        self.assertEqual("FINISHED", run.info.status)
        for name, versions in (("train/loss", list(range(1, ROUNDS + 1))),
                               ("validation/loss", evaluated)):
            history = client.get_metric_history(run.info.run_id, name)
            self.assertEqual(versions, sorted(one.step for one in history), name)

    def test_every_round_once_after_tracker_and_coordinator_were_killed(self):
        keys = f'tensorboard = "{self.boards}"\nprogram = "{self.program}"\n'
        if HAS_WANDB:
            keys += 'wandb = "atoll"\n'
        if HAS_MLFLOW:
            keys += f'mlflow = "{self.top}/mlflow"\n'
        with self.cluster(keys) as cluster:
            wait_for("TensorBoard has round 3", lambda: self.newest() >= 3)
            self.kill_tracker(cluster)
            cluster.wait_version(12)
            cluster.kill("coordinator")
            coordinator = cluster.restart("coordinator")
            at = self.newest()
            wait_for("it goes on after the coordinator's death", lambda: self.newest() > at)
            self.kill_tracker(cluster)
            cluster.finish()
            # `atoll local` ends those that it has started; this one is sealed, and goes on.
            coordinator.terminate()
            coordinator.wait(timeout=20)
            evaluated = self.evaluated(cluster)
            self.assertGreater(len(evaluated), 2)
            self.check_tensorboard(evaluated)
            if HAS_WANDB:
                self.check_wandb(f"{cluster.dir}/coordinator", evaluated)
            if HAS_MLFLOW:
                self.check_mlflow(evaluated)

    def test_a_run_does_not_need_its_trackers(self):
        """A library that is missing is named at once; a program that dies changes nothing."""
        missing = self.script('[ "$1" = --check ] && echo "install wandb" && exit\n'
                              'echo "atoll-track: install wandb" >&2; exit 3')
        dies = self.script('[ "$1" = --check ] || exit 1')
        for program, said, logged in (
                (missing, "\nnote: install wandb\n",
                 "the run is not tracked: atoll-track: install wandb"),
                (dies, "", "atoll-track is gone (exit code 1); starting it again in 1s")):
            with self.cluster(f'wandb = "p"\nprogram = "{program}"', rounds=8) as cluster:
                cluster.finish()
                self.assertIn(said, cluster.text())
                self.assertEqual(1 if said else 0, Counter(cluster.text().split())["note:"])
                self.assertIn(logged, cluster.log("coordinator"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
