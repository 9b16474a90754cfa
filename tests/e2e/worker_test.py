"""Would fail if a trainer of a user's own could not take part in a run like ours."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from cluster import Cluster, equal_digests, wait_for

try:
    import google.protobuf  # noqa: F401
    import grpc  # noqa: F401
    import numpy
except ImportError as missing:
    print(f"skipped: {missing}; /usr/bin/python3 needs python3-grpcio, -numpy and -protobuf")
    sys.exit(77)

EXAMPLES = os.environ["ATOLL_EXAMPLES"]
MAKE_FILE = os.environ["ATOLL_TORCHSCRIPT_FILE"]

COMMON = """
[run]
rounds = {rounds}
peers = 3
quorum = 3
[inner]
steps = {steps}
batch = 16
learning_rate = {rate}
warmup_steps = 0
[outer]
rule = "average"
[exchange]
codec = "int8"
chunk_elements = 4096
[evaluation]
tokens = 0
every_rounds = 10
[membership]
failure_timeout = "3s"
"""

PYTHON = COMMON.format(rounds=30, steps=200, rate=0.01) + f"""
[model]
kind = "external"
[worker]
program = "{EXAMPLES}/linear_numpy.py"
"""

TORCHSCRIPT = COMMON.format(rounds=20, steps=300, rate=0.001) + """
[model]
kind = "torchscript"
file = "{top}/model.pt"
[data]
path = "{top}/data"
"""


def make_classifier(top):
    """The file, and 2000 noisy images of four patterns."""
    subprocess.run([MAKE_FILE, f"{top}/model.pt"], check=True, timeout=60)
    os.mkdir(f"{top}/data")
    generator = numpy.random.default_rng(3)
    labels = generator.integers(0, 4, 2000)
    noise = generator.standard_normal((2000, 6, 6))
    images = generator.standard_normal((4, 6, 6))[labels] + 0.5 * noise
    numpy.save(f"{top}/data/images.npy", images.astype(numpy.float32))
    numpy.save(f"{top}/data/labels.npy", labels)


class WorkerTest(unittest.TestCase):

    def survives_a_killed_worker(self, cluster, rounds):
        """One worker is killed in the middle; the daemon starts another, which goes on."""
        cluster.wait_version(4)
        first = wait_for("a worker of peer-2", lambda: cluster.worker_pid("peer-2"))
        os.kill(first, signal.SIGKILL)
        wait_for("its successor", lambda: cluster.worker_pid("peer-2") not in (None, first))
        report = cluster.finish()
        self.assertTrue(equal_digests(report), report)
        for peer in report["peers"]:
            self.assertEqual((0, rounds), (peer["exit"], peer["version"]))
            # Of three peers all three are the quorum: no round went on without the killed one.
            self.assertEqual(rounds, peer["rounds_contributed"])
        self.assertIn("the worker is gone", cluster.all_logs("peer-2"))
        return report

    def test_a_script_in_python(self):
        with Cluster(text=PYTHON) as cluster:
            report = self.survives_a_killed_worker(cluster, rounds=30)
            self.assertEqual(65, report["parameters"])
            for peer in report["peers"]:
                self.assertEqual(0, peer["tokens"] % 16)
            # The hidden truth has 65 values of about 1, the noise a variance of 0.01.
            self.assertGreater(report["initial_val_loss"], 10)
            self.assertLess(report["final_val_loss"], 0.03)

    def test_a_script_whose_training_blows_up(self):
        """Its updates are NaN for a while: longer and longer pauses, one line, and no harm."""
        top = tempfile.mkdtemp(prefix="atoll-nan-")
        self.addCleanup(shutil.rmtree, top)
        script, spoilt = f"{top}/script.py", f"{top}/spoilt"
        with open(f"{EXAMPLES}/linear_numpy.py", encoding="utf-8") as source:
            text = source.read() + (
                f"            if __import__('os').path.exists({spoilt!r}):\n"
                "                weight[0] = np.nan\n"
                "                break\n")
        with open(script, "w", encoding="utf-8") as out:
            out.write(text)
        os.chmod(script, 0o755)
        config = PYTHON.replace(f"{EXAMPLES}/linear_numpy.py", "SCRIPT").replace(
            "rounds = 30", "rounds = 100000").replace("quorum = 3", "quorum = 2").replace(
            "every_rounds = 10", "every_rounds = 0")
        plain = config.replace("SCRIPT", f"{EXAMPLES}/linear_numpy.py")
        with Cluster(text=plain + '[log]\nlevel = "debug"\n') as cluster:
            cluster.wait_version(2)
            path = os.path.join(cluster.process_of("peer-3")["dir"], "config.toml")
            pid = cluster.kill("peer-3")
            with open(path, encoding="utf-8") as source:
                own = source.read().replace(f"{EXAMPLES}/linear_numpy.py", script)
            with open(path, "w", encoding="utf-8") as out:
                out.write(own)
            cluster.restart("peer-3")
            wait_for("its successor", lambda: cluster.pid_of("peer-3") != pid)
            contributed = lambda: (cluster.peer("peer-3") or {}).get("rounds_contributed", 0)
            before = contributed()
            wait_for("it contributes", lambda: contributed() > before)
            with open(spoilt, "w", encoding="utf-8"):
                pass

            def ends():
                return [line for line in cluster.all_logs("peer-3").splitlines()
                        if "the worker is gone (" in line and "no update can be made of it" in line]
            wait_for("three ends", lambda: len(ends()) >= 3)
            for line, pause in zip(ends(), ("200ms", "400ms", "800ms")):
                self.assertIn(f"starting it again in {pause}", line)
            self.assertEqual([True, False, False], [" warning " in line for line in ends()[:3]])
            os.remove(spoilt)
            before = contributed()
            wait_for("it contributes again", lambda: contributed() > before)
            self.assertEqual(0, subprocess.run(
                [os.path.join(os.environ["ATOLL_BIN"], "atoll"), "run", "stop", "--dir",
                 cluster.dir], check=False, timeout=30, capture_output=True).returncode)
            self.assertTrue(equal_digests(cluster.finish()))

    def test_a_torchscript_file(self):
        top = tempfile.mkdtemp(prefix="atoll-torchscript-")
        self.addCleanup(shutil.rmtree, top)
        make_classifier(top)
        with Cluster(text=TORCHSCRIPT.format(top=top)) as cluster:
            report = self.survives_a_killed_worker(cluster, rounds=20)
            self.assertEqual(36 * 16 + 16 + 16 * 4, report["parameters"])
            # Nothing is known at first: ln 4 = 1.39, and somewhat more with random weights.
            self.assertGreater(report["initial_val_loss"], 1.2)
            self.assertLess(report["final_val_loss"], 0.1)

    def test_what_cannot_be_trained_is_said_and_the_daemon_stays(self):
        top = tempfile.mkdtemp(prefix="atoll-torchscript-")
        self.addCleanup(shutil.rmtree, top)
        make_classifier(top)
        numpy.save(f"{top}/data/more.npy", numpy.zeros(3))
        with Cluster(text=TORCHSCRIPT.format(top=top)) as cluster:
            wanted = "has 3 rows of more and 2000 of images; a row is a sample"
            wait_for("what is wrong", lambda: cluster.peers_json() and all(
                wanted in cluster.log(f"peer-{i}") for i in (1, 2, 3)))
            members = wait_for("three members", lambda: (cluster.status() or {}).get("peers"))
            self.assertEqual(3, len([one for one in members
                                     if one["member"]["peer"].startswith("peer-")]))
            os.remove(f"{top}/data/more.npy")  # mended: the next worker that is started trains
            self.assertTrue(equal_digests(cluster.finish()))


if __name__ == "__main__":
    unittest.main(verbosity=2)
