"""Would fail if a tracker lacked a round of a run, or had one twice, after whatever was killed; or
if the figures had other names there than docs/metrics.md says.

Runs, `atoll` and the services of MLflow and Weights & Biases are played here. Where the libraries
are installed, the same is asked of them: MLflow with a database in a folder, Weights & Biases
offline. TensorBoard's files are read by a reader that shares no code with their writer, and by
TensorBoard itself where that is installed.
"""

import contextlib
import glob
import importlib.util
import io
import math
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import types
import unittest
from collections import Counter
from importlib.machinery import ModuleSpec
from unittest import mock

from tracker_files import message, points_of_file, rows_of_wandb

from atoll_track import command, event_file, follow, source, tracker, wandb
from atoll_track.follow import Follower
from atoll_track.mlflow import Mlflow, uri_of
from atoll_track.source import NoAnswer
from atoll_track.tensorboard import FILE, TensorBoard

SPEC = {"seed": 7, "rounds": 9, "model": {"kind": "gpt", "width": 64}, "privacy": None,
        "inner": {"optimizer": "muon", "steps": 30}, "outer": {"learning_rate": 0.699999988079071},
        "evaluation": {"every_rounds": 3}, "codec": "int8", "history_key": "12345678" * 8}
# Debian's Python has none of them; a developer's may.
HAS = {name: importlib.util.find_spec(name) is not None
       for name in ("mlflow", "wandb", "sqlalchemy", "tensorboard")}


class PlayedRun:
    """A run that answers as `atoll run show` and `atoll run metrics` do."""

    def __init__(self, version=0, evaluated=(0,), sealed=False):
        self.version, self.evaluated, self.sealed = version, set(evaluated), sealed
        self.silent = False
        self.asked = []

    def status(self):
        if self.silent:
            raise NoAnswer("connection refused")
        return {"run_id": "books", "phase": "sealed" if self.sealed else "training",
                "version": self.version or None, "parameters": 1000, "spec": SPEC,
                "peers": [{"member": {"role": "peer"}}, {"member": {"role": "peer"}},
                          {"member": {"role": "aggregator"}}],
                "evaluations": [{"version": one} for one in sorted(self.evaluated)]}

    def rows(self, start):
        self.asked.append(start)
        return [self._row(version) for version in range(start, self.version + 1)]

    def _row(self, version):
        trained = version > 0
        return {"version": version, "time/elapsed_seconds": 2.0 * version,
                "train/loss": 1 / version if trained else None,
                "validation/loss": 5.0 - version if version in self.evaluated else None,
                "train/total_tokens": 100 * version, "privacy/epsilon": None,
                "noise/scale_tokens": "NaN" if trained else None,
                "exchange/plan": "flat" if trained else None}


class Notes(tracker.Tracker):
    """A tracker that notes what it is given, and fails when it is told to."""

    def __init__(self, newest=None):
        self.newest = newest or {}
        self.rows = []
        self.opened = 0
        self.fails = 0
        self.closed = None

    def open(self, run):
        self.opened += 1
        for version, figures, *_ in self.rows:
            for name in figures:
                self.newest[name] = version
        return dict(self.newest)

    def write(self, version, figures, when, complete):
        if self.fails:
            self.fails -= 1
            raise RuntimeError("the service is down\nand more of it")
        self.rows.append((version, figures, when, complete))

    def close(self, sealed):
        self.closed = sealed

    def points(self):
        return Counter((version, name) for version, figures, *_ in self.rows for name in figures)


def follower(of, run, said=None, stop=None):
    return Follower("there", of, run, stop or threading.Event(),
                    said.append if said is not None else lambda line: None)


def expected(run):
    """All points of a run whose evaluations have come, without words."""
    points = Counter()
    for row in run.rows(0):
        if row["version"] > 0 or row["validation/loss"] is not None:
            points.update((row["version"], name) for name, value in row.items()
                          if value not in (None, "flat") and name != "version")
    return points


class FollowTest(unittest.TestCase):

    def test_each_figure_is_written_once_and_an_evaluation_when_it_comes(self):
        """Broken: a loss that is told rounds after its round would be lost, or come twice."""
        run, notes = PlayedRun(), Notes()
        on = follower(notes, run)
        for version, evaluated in ((0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (4, 3), (5, 3), (9, 6)):
            run.version = version
            run.evaluated.add(evaluated)
            on._write()
        run.evaluated.add(9)
        run.sealed = True
        self.assertTrue(on._write())
        words = Counter((version, "exchange/plan") for version in range(1, 10))
        self.assertEqual(expected(run) + words, notes.points())
        self.assertEqual(1, notes.opened)
        # What was looked at is not asked for again and again.
        self.assertEqual(6, run.asked[-2])

    def test_it_goes_on_where_the_tracker_is(self):
        """Broken: a start would write again what is there."""
        run, notes = PlayedRun(version=5, evaluated=(0, 3)), Notes()
        notes.newest = {"train/loss": 4, "validation/loss": 0}
        follower(notes, run)._write()
        self.assertEqual([5], [row[0] for row in notes.rows if "train/loss" in row[1]])
        self.assertEqual([3], [row[0] for row in notes.rows if "validation/loss" in row[1]])

    def test_a_tracker_that_fails_is_asked_what_it_has(self):
        """Broken: a call whose answer is lost would be written twice, or end the program."""
        run, notes, said = PlayedRun(version=9, evaluated=(0, 3, 6, 9)), Notes(), []
        notes.fails = 2
        run.sealed = True
        stop = threading.Event()
        with mock.patch.object(follow, "FIRST_PAUSE", 0.001):
            follower(notes, run, said, stop).follow(0.001)
        self.assertEqual(3, notes.opened)
        self.assertEqual(Counter(dict.fromkeys(notes.points(), 1)), notes.points())
        self.assertTrue(notes.closed)
        self.assertEqual(["there: the service is down; it is tried again", "there: it goes on"],
                         said)

    def test_a_run_that_does_not_answer_is_waited_for(self):
        """Broken: a coordinator that is started again would find its tracker gone."""
        run, notes, said = PlayedRun(version=3), Notes(), []
        run.silent = True
        stop = mock.Mock()
        waits = iter([False, False, False, True])

        def wait(_):
            last = next(waits)
            run.silent = not last and len(said) == 0
            return last

        stop.wait = wait
        follower(notes, run, said, stop).follow(1)
        self.assertEqual("the run does not answer: connection refused", said[0])
        self.assertEqual([1, 2, 3], [row[0] for row in notes.rows if "train/loss" in row[1]])
        self.assertIs(False, notes.closed)

    def test_rows_have_the_time_at_which_they_came(self):
        """Broken: rounds that are written later would all have happened at once."""
        run, notes = PlayedRun(version=3), Notes()
        follower(notes, run)._write()
        times = [row[2] for row in notes.rows]
        self.assertEqual([2.0, 2.0, 2.0], [round(b - a, 3) for a, b in zip(times, times[1:])])

    def test_settings_have_the_names_of_the_config(self):
        """Broken: users would look for inner.steps under another name."""
        found = tracker.parameters_of(PlayedRun(version=1).status())
        self.assertEqual({"run.seed": 7, "run.rounds": 9, "run.peers": 2, "parameters": 1000,
                          "model.kind": "gpt", "model.width": 64, "inner.optimizer": "muon",
                          "inner.steps": 30, "outer.learning_rate": 0.7,
                          "evaluation.every_rounds": 3, "exchange.codec": "int8"}, found)


class InFolder(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="atoll-track-")
        self.addCleanup(shutil.rmtree, self.folder)


class TensorBoardTest(InFolder):

    def path(self):
        return os.path.join(self.folder, "books", FILE + "-12345678")

    def check(self, run):
        points = points_of_file(self.path())
        self.assertEqual(expected(run), Counter({key: len(all) for key, all in points.items()}))
        self.assertAlmostEqual(0.25, points[4, "train/loss"][0])
        self.assertTrue(math.isnan(points[4, "noise/scale_tokens"][0]))

    def test_every_round_once_after_a_death_at_any_byte(self):
        """Broken: a round would be missing or there twice where a write was torn."""
        run = PlayedRun(version=4, evaluated=(0, 3))
        follower(TensorBoard(self.folder), run).once()
        with open(self.path(), "rb") as opened:
            content = opened.read()
        self.check(run)
        # Each byte of the last write, and some of those before.
        for length in [*range(0, len(content) - 150, 11), *range(len(content) - 150, len(content))]:
            with open(self.path(), "wb") as out:
                out.write(content[:length])
            follower(TensorBoard(self.folder), run).once()
            self.check(run)

    def test_a_damaged_end_is_written_anew(self):
        """Broken: what a full disk or a lost page has left would end the curves for ever."""
        run = PlayedRun(version=4, evaluated=(0, 3))
        follower(TensorBoard(self.folder), run).once()
        size = os.path.getsize(self.path())
        with open(self.path(), "r+b") as out:
            out.seek(size - 20)
            out.write(bytes(20))
        follower(TensorBoard(self.folder), run).once()
        self.check(run)

    def test_another_run_of_the_same_name_has_a_folder_of_its_own(self):
        """Broken: a run that is begun anew would go on with the curves of the one before."""
        run = PlayedRun(version=4, evaluated=(0, 3))
        follower(TensorBoard(self.folder), run).once()
        again = PlayedRun(version=2)
        with mock.patch.dict(SPEC, {"history_key": "abcdef01" * 8}):
            for again.version in (2, 3):
                follower(TensorBoard(self.folder), again).once()
            run_again = os.path.join(self.folder, "books-abcdef01", FILE + "-abcdef01")
            points = points_of_file(run_again)
        self.assertEqual(expected(again), Counter({key: len(all) for key, all in points.items()}))
        follower(TensorBoard(self.folder), run).once()
        self.check(run)

    def test_a_value_that_32_bits_do_not_hold(self):
        """Broken: a huge figure would end the program."""
        event = message(event_file.scalars(1.0, 2, {"a": 1e300, "b": -1e300}))
        values = [dict(message(v))[2] for _, v in message(dict(event)[5])]
        self.assertEqual([math.inf, -math.inf], values)

    @unittest.skipUnless(HAS["tensorboard"], "tensorboard is not installed")
    def test_tensorboard_reads_it(self):
        """Broken: the files would be ones that TensorBoard does not show."""
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        follower(TensorBoard(self.folder), PlayedRun(version=4)).once()
        read = EventAccumulator(os.path.join(self.folder, "books"))
        read.Reload()
        self.assertEqual([(1, 1.0), (2, 0.5)],
                         [(e.step, e.value) for e in read.Scalars("train/loss")][:2])
        self.assertIn("_hparams_/session_start_info",
                      read.summary_metadata)


class PlayedMlflow:
    """What MlflowClient does, for one experiment; a batch may be torn by a death."""

    def __init__(self):
        self.runs, self.points, self.parameters, self.tear = [], [], {}, None

    def client(self, tracking_uri):
        self.uri = tracking_uri
        return self

    def get_experiment_by_name(self, name):
        return types.SimpleNamespace(experiment_id="1") if self.runs else None

    def create_experiment(self, name):
        return "1"

    def search_runs(self, experiments, text, order_by, max_results):
        assert text == "tags.`atoll.run` = 'books-12345678'"
        return self.runs

    def create_run(self, experiment, tags, run_name):
        data = types.SimpleNamespace(params=self.parameters, metrics={})
        info = types.SimpleNamespace(run_id="r1", status="RUNNING")
        self.runs.append(types.SimpleNamespace(info=info, data=data, tags=tags))
        return self.runs[0]

    def log_batch(self, run, metrics=(), params=()):
        for one in params:
            assert one[0] not in self.parameters
            self.parameters[one[0]] = one[1]
        for name, value, _, step in metrics:
            if self.tear is not None:
                if self.tear == 0:
                    raise KeyboardInterrupt
                self.tear -= 1
            self.points.append((step, name))
            self.runs[0].data.metrics[name] = value

    def get_metric_history(self, run, name):
        return [types.SimpleNamespace(step=step) for step, one in self.points if one == name]

    def update_run(self, run, status):
        self.runs[0].info.status = status

    def set_terminated(self, run, status):
        self.runs[0].info.status = status


@contextlib.contextmanager
def played_modules(**modules):
    """Lets these names be imported, and found to be installed."""
    made = {}
    for name, members in modules.items():
        name = name.replace("_", ".")
        made[name] = types.ModuleType(name)
        made[name].__spec__ = ModuleSpec(name, None)
        vars(made[name]).update(members)
    with mock.patch.dict(sys.modules, made):
        yield


class MlflowTest(InFolder):

    def played(self, service):
        def pack(*parts):
            return parts
        return played_modules(mlflow={"__path__": []},
                              mlflow_entities={"Metric": pack, "Param": pack},
                              mlflow_tracking={"MlflowClient": service.client}, sqlalchemy={})

    def test_every_round_once_after_a_death_at_any_point(self):
        """Broken: a death within a batch would leave a figure out, or write it again."""
        run = PlayedRun(version=9, evaluated=(0, 3, 6, 9))
        for tear in range(0, expected(run).total(), 3):
            service = PlayedMlflow()
            service.tear = tear
            with self.played(service):
                with self.assertRaises(KeyboardInterrupt):
                    follower(Mlflow("http://h:1"), run).once()
                service.tear = None
                follower(Mlflow("http://h:1"), run).once()
            self.assertEqual(expected(run), Counter(service.points), tear)
            self.assertEqual("30", service.parameters["inner.steps"])
            self.assertEqual(1, len(service.runs))

    def test_a_sealed_run_is_finished_and_one_that_goes_on_is_not(self):
        """Broken: MLflow would show a run as running for ever, or as over."""
        run, service = PlayedRun(version=3), PlayedMlflow()
        for sealed, wanted in ((False, "RUNNING"), (True, "FINISHED")):
            run.sealed = sealed
            with self.played(service):
                self.assertTrue(follower(Mlflow("http://h:1"), run).once())
            self.assertEqual(wanted, service.runs[0].info.status)

    def test_a_folder_is_a_database_in_it(self):
        """Broken: a path would be taken for a scheme, or a URI for a path."""
        self.assertEqual("sqlite:////runs/mlflow.db", uri_of("/runs"))
        for uri in ("http://h:5000", "databricks", "databricks://profile", "file:///x"):
            self.assertEqual(uri, uri_of(uri))

    @unittest.skipUnless(HAS["mlflow"] and HAS["sqlalchemy"], "mlflow is not installed")
    def test_mlflow_itself(self):
        """Broken: the library would not take what is written, or tell what it has."""
        from mlflow.tracking import MlflowClient
        run = PlayedRun(version=4, evaluated=(0, 3))
        self.assertTrue(follower(Mlflow(self.folder), run).once())
        run.version = 6
        said = []
        self.assertTrue(follower(Mlflow(self.folder), run, said).once(), said)
        client = MlflowClient(uri_of(self.folder))
        there, = client.search_runs([client.get_experiment_by_name("atoll").experiment_id])
        self.assertEqual("0.7", there.data.params["outer.learning_rate"])
        self.assertEqual([1, 2, 3, 4, 5, 6], sorted(
            one.step for one in client.get_metric_history(there.info.run_id, "train/loss")))


class PlayedWandb:
    """The rows of a run of W&B's, with its rule: a row is closed once a later one has begun."""

    def __init__(self, step=0, summary=None):
        self.step, self.summary, self.rows, self.metrics = step, summary or {}, {}, {}
        self.arguments = {}

    def init(self, **arguments):
        self.arguments = arguments
        return self

    def Settings(self, **settings):  # noqa: N802  the library's name
        return settings

    def define_metric(self, name, **how):
        self.metrics[name] = how

    def log(self, row, step, commit=None):
        assert step >= self.step, f"row {step} is dropped by W&B, which is at {self.step}"
        self.rows.setdefault(step, {}).update(row)
        self.step = step + 1 if commit else step

    def finish(self, exit_code):
        pass


class WandbTest(InFolder):

    def follow(self, service, run, environment=None, writes=None):
        with mock.patch.dict(os.environ, environment or {"WANDB_MODE": "offline"}), \
                played_modules(wandb={"init": service.init, "Settings": service.Settings}):
            on = follower(wandb.Wandb("entity/project", self.folder), run)
            for version, evaluated in writes or [(run.version, 0)]:
                run.version = version
                run.evaluated.add(evaluated)
                on._write()
            on._tracker.close(False)

    def check(self, rows, rounds):
        self.assertEqual(rounds, [step for step, row in rows.items() if "train/loss" in row])
        for step, row in rows.items():
            if "train/loss" in row:
                self.assertEqual(100 * step, row["train/total_tokens"])

    def test_an_evaluation_that_comes_late_says_of_which_version_it_is(self):
        """Broken: W&B drops a row that is older than its newest, and the loss would be lost."""
        service, run = PlayedWandb(), PlayedRun()
        self.follow(service, run, writes=[(1, 0), (2, 0), (3, 0), (3, 3), (4, 3), (6, 3), (7, 3),
                                          (7, 6), (8, 6), (9, 6), (9, 9)])
        self.check(service.rows, list(range(1, 10)))
        self.assertEqual({0: 0, 3: 3, 8: 6, 9: 9},
                         {step: row["validation/version"] for step, row in service.rows.items()
                          if "validation/loss" in row})
        self.assertEqual(-1.0, service.rows[8]["validation/loss"])
        self.assertEqual({"step_metric": "validation/version"}, service.metrics["validation/*"])
        self.assertEqual(("entity", "project", "books-12345678"),
                         tuple(service.arguments[key] for key in ("entity", "project", "id")))

    def test_offline_a_start_makes_the_folder_anew(self):
        """Broken: what W&B had not written when it was killed would be missing, or the rounds
        would be in two folders of one run."""
        for run in ("books-12345678", "other"):
            os.makedirs(os.path.join(self.folder, "wandb", f"offline-run-20260101_000000-{run}"))
        service = PlayedWandb()
        self.follow(service, PlayedRun(version=4))
        self.check(service.rows, [1, 2, 3, 4])
        self.assertEqual(["offline-run-20260101_000000-other"],
                         os.listdir(os.path.join(self.folder, "wandb")))
        self.assertEqual(("offline", None), (service.arguments["mode"],
                                             service.arguments["resume"]))

    def test_online_it_goes_on_where_the_service_is(self):
        """Broken: rounds would be sent twice, which W&B refuses, or left out."""
        service = PlayedWandb(step=5, summary={"validation/version": 0})
        self.follow(service, PlayedRun(version=7, evaluated=(0, 3)), {"WANDB_MODE": "online"})
        self.check(service.rows, [5, 6, 7])
        self.assertEqual(3, service.rows[5]["validation/version"])
        self.assertEqual("allow", service.arguments["resume"])

    def test_without_a_key_it_is_offline(self):
        """Broken: W&B would ask for a key that nobody is there to give."""
        rc = os.path.join(self.folder, "netrc")
        self.assertTrue(wandb.is_offline({"NETRC": rc}))
        with open(rc, "w", encoding="utf-8") as out:
            out.write("machine api.wandb.ai login user password secret\n")
        os.chmod(rc, stat.S_IRUSR)
        self.assertFalse(wandb.is_offline({"NETRC": rc}))
        self.assertTrue(wandb.is_offline({"NETRC": rc, "WANDB_BASE_URL": "https://own.example"}))
        self.assertFalse(wandb.is_offline({"WANDB_API_KEY": "k"}))
        self.assertTrue(wandb.is_offline({"WANDB_API_KEY": "k", "WANDB_MODE": "offline"}))

    @unittest.skipUnless(HAS["wandb"], "wandb is not installed")
    def test_wandb_itself(self):
        """Broken: the library would not take what is written, or want a network, or a death would
        cost rounds."""
        script = """if True:
            import os, signal, sys, tracking_test as t
            version, folder, dies = int(sys.argv[1]), sys.argv[2], sys.argv[3] == "dies"
            run = t.PlayedRun(version=version, evaluated=(0, 3))
            on = t.follower(t.wandb.Wandb("project", folder), run, [])
            on._write()
            if dies:
                os.kill(os.getpid(), signal.SIGKILL)
            on._tracker.close(False)
            """
        paths = [os.path.dirname(os.path.abspath(__file__)), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "WANDB_MODE": "offline", "PYTHONPATH": ":".join(paths)}
        for version, end, code in ((3, "dies", -signal.SIGKILL), (6, "ends", 0)):
            done = subprocess.run([sys.executable, "-c", script, str(version), self.folder, end],
                                  env=environment, timeout=60, check=False)
            self.assertEqual(code, done.returncode)
        folder, = glob.glob(os.path.join(self.folder, "wandb", "offline-run-*-books-12345678"))
        rows = rows_of_wandb(os.path.join(folder, "run-books-12345678.wandb"))
        self.assertEqual([(version, 1 / version) for version in range(1, 7)],
                         [(step, row["train/loss"]) for step, row in rows if "train/loss" in row])
        self.assertEqual([(0, 0), (3, 3)], [(step, row["validation/version"])
                                            for step, row in rows if "validation/loss" in row])


class CommandTest(InFolder):

    def call(self, *arguments):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            try:
                code = command.main(list(arguments))
            except SystemExit as end:
                code = end.code
        return code, said.getvalue()

    def test_a_library_that_is_missing_is_named_in_one_line(self):
        """Broken: the log would show a traceback, and nobody would know what to install."""
        with mock.patch("importlib.util.find_spec", lambda name: None):
            for place, wanted in (("wandb:p", "wandb needs the Python library wandb: "
                                   "pip install 'atoll[wandb]'\n"),
                                  ("mlflow:http://h", "mlflow needs the Python library mlflow: "
                                   "pip install 'atoll[mlflow]'\n")):
                self.assertEqual((0, wanted), self.call("--check", "--to", place))
                self.assertEqual((3, f"atoll-track: {wanted}"),
                                 self.call("--follow", "--dir", "x", "--to", place))
            self.assertEqual((0, ""), self.call("--check", "--to", "tensorboard:x"))

    def test_a_wrong_call_says_what_would_be_right(self):
        """Broken: a tracker that nobody knows would be passed over."""
        for place, wanted in (("tensorboard", "like tensorboard:runs"),
                              ("neptune:x", "none of tensorboard, wandb and mlflow")):
            code, said = self.call("--dir", "x", "--to", place)
            self.assertEqual(2, code)
            self.assertIn(wanted, said)
        code, said = self.call("--to", "tensorboard:x")
        self.assertEqual(2, code)
        self.assertIn("--dir DIR, or --coordinator ADDRESS", said)

    def test_what_atoll_says_is_passed_on(self):
        """Broken: a wrong folder would look like a run without figures."""
        program = os.path.join(self.folder, "atoll")
        with open(program, "w", encoding="utf-8") as out:
            out.write('#!/bin/sh\necho "atoll: $5 holds no local run" >&2\nexit 1\n')
        os.chmod(program, 0o755)
        code, said = self.call("--dir", "/no", "--to", f"tensorboard:{self.folder}", "--atoll",
                               program)
        self.assertEqual((1, "atoll-track: atoll: /no holds no local run\n"), (code, said))

    def test_figures_that_are_words(self):
        """Broken: a loss that has diverged would be shown as a text, or end the program."""
        self.assertEqual([1, None, math.inf, -math.inf, "flat"],
                         [source.figure_of(value)
                          for value in (1, None, "Infinity", "-Infinity", "flat")])
        self.assertTrue(math.isnan(source.figure_of("NaN")))


if __name__ == "__main__":
    unittest.main()
