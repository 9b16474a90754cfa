"""Would fail if a run did not train, did not end with equal replicas, or could not be replayed."""

import glob
import json
import math
import os
import unittest

from cluster import Cluster, atoll, equal_digests, wait_for

KEYS = {"run_id", "rounds", "peers_started", "initial_val_loss", "final_val_loss", "loss_unit",
        "tokens", "wall_seconds", "compute_utilization", "least_busy", "parameters", "inner_steps",
        "codec", "bytes_sent_per_peer_per_round", "fp32_bytes_per_peer_per_round",
        "gradient_noise_scale", "state_digest", "peers"}
PEER_KEYS = {"id", "pid", "rounds_contributed", "tokens", "version", "state_digest", "exit"}


def worker_environment(cluster, name):
    """As its worker has it, or None while there is none."""
    try:
        with open(f"/proc/{cluster.worker_pid(name)}/environ", encoding="utf-8") as source:
            return source.read().split("\0")[:-1]
    except (AssertionError, OSError):
        return None


class RunTest(unittest.TestCase):

    def test_trains_seals_and_replays(self):
        with Cluster(rounds=30) as cluster:
            report = cluster.finish()
            self.assertEqual(KEYS, set(report))
            for peer in report["peers"]:
                self.assertEqual(PEER_KEYS, set(peer))
                self.assertEqual(0, peer["exit"])
                self.assertEqual(30, peer["version"])
                # A machine that stalls may leave a peer out of a round: legal, and rare.
                self.assertGreaterEqual(peer["rounds_contributed"], 25)
                self.assertEqual(peer["rounds_contributed"] * 5 * 4 * 32, peer["tokens"])
            self.assertTrue(equal_digests(report), report)
            # A byte-level model knows nothing at first (ln 256 = 5.55) and has learned at the end.
            self.assertGreater(report["initial_val_loss"], 5.0)
            self.assertLess(report["final_val_loss"], report["initial_val_loss"] - 1.0)
            self.assertEqual(sum(peer["tokens"] for peer in report["peers"]), report["tokens"])
            self.assertLessEqual(report["bytes_sent_per_peer_per_round"],
                                 0.27 * report["fp32_bytes_per_peer_per_round"])
            self.assertTrue(math.isclose(report["fp32_bytes_per_peer_per_round"],
                                         2 * 2 / 3 * 4 * report["parameters"], rel_tol=1e-6))
            self.assertEqual("int8", report["codec"])
            # Three peers of one corpus have much in common, and differ: both are seen.
            self.assertGreater(report["gradient_noise_scale"], 1)
            self.assertTrue(os.path.exists(os.path.join(cluster.dir, "model.safetensors")))

            peer_dir = cluster.process_of("peer-1")["dir"]
            verified = atoll("log", "verify", "--dir", peer_dir, "--json")
            self.assertEqual(0, verified.returncode, verified.stderr)
            answer = json.loads(verified.stdout)
            self.assertEqual("ok", answer["chain"])
            self.assertEqual(report["state_digest"], answer["state_digest"])

            listed = atoll("log", "list", "--dir", peer_dir)
            self.assertEqual(0, listed.returncode, listed.stderr)

            generated = atoll("generate", "--dir", cluster.dir, "--prompt", "the ",
                              "--tokens", "20")
            self.assertEqual(0, generated.returncode, generated.stderr)
            self.assertIn("the ", generated.stdout)

            stopped = atoll("generate", "--dir", cluster.dir, "--prompt", "the ",
                            "--tokens", "200", "--top-p", "0.9", "--stop", " ", "--stop", "e")
            self.assertEqual(0, stopped.returncode, stopped.stderr)
            self.assertTrue(stopped.stdout.startswith("the "), stopped.stdout)
            self.assertNotIn(" ", stopped.stdout[4:])
            self.assertNotIn("e", stopped.stdout[4:])

            evaluated = [atoll("eval", "--dir", folder, "--json")
                         for folder in (cluster.dir, peer_dir)]
            self.assertEqual(0, evaluated[0].returncode, evaluated[0].stderr)
            self.assertEqual(evaluated[0].stdout, evaluated[1].stdout)
            quality = json.loads(evaluated[0].stdout)
            self.assertAlmostEqual(report["final_val_loss"], quality["loss"], delta=0.1)
            self.assertGreater(quality["tokens"], 2048)  # the whole split, not the run's sample

            # One byte of one entry's payload: the entry is named, the exit code is 1.
            payload = sorted(glob.glob(os.path.join(peer_dir, "log", "*.payload")))[-3]
            with open(payload, "r+b") as file:
                file.seek(1000)
                byte = file.read(1)[0]
                file.seek(1000)
                file.write(bytes([byte ^ 1]))
            broken = atoll("log", "verify", "--dir", peer_dir)
            self.assertEqual(1, broken.returncode, broken.stdout)
            number = str(int(os.path.basename(payload).split(".")[0]))
            self.assertIn("entry " + number, broken.stdout + broken.stderr)

    def test_error_feedback_run_ends_equal(self):
        with Cluster(rounds=8, error_feedback=True) as cluster:
            self.assertTrue(equal_digests(cluster.finish()))

    def test_a_worker_divides_its_steps_among_devices(self):
        devices = "cpu,cpu,cpu"  # a step's four sequences are one, one and two
        with Cluster(rounds=10, extra=f'[worker]\ndevice = "{devices}"\n') as cluster:
            # Its threads sleep while they wait, or they would take the processors from each other.
            environment = wait_for("a worker", lambda: worker_environment(cluster, "peer-1"))
            self.assertIn("OMP_WAIT_POLICY=PASSIVE", environment)
            report = cluster.finish()
            self.assertTrue(equal_digests(report), report)
            self.assertLess(report["final_val_loss"], report["initial_val_loss"] - 0.3)
            for peer in report["peers"]:
                self.assertEqual((0, 10), (peer["exit"], peer["version"]))
                self.assertEqual(peer["rounds_contributed"] * 5 * 4 * 32, peer["tokens"])
                self.assertIn(f"on {devices},", cluster.all_logs(peer["id"]))


if __name__ == "__main__":
    unittest.main(verbosity=2)
