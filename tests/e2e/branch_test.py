"""Would fail if a branch began at another state than its parent's, forgot its parent, trained again
on what the parent has spent, or could not go on; or if a run whose processes were all killed, whose
folder was moved, or whose `atoll local` alone was killed did not go on with the command that it
names.
"""

import json
import os
import re
import signal
import subprocess
import tempfile
import unittest

from cluster import BIN, Cluster, atoll, wait_for

WSD = """
[inner]
steps = 2
batch = 4
learning_rate = 5e-4
warmup_steps = 4
schedule = "wsd"
"""


def told(*words):
    done = atoll(*words)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return json.loads(done.stdout)


class Local:
    """`atoll local` in a folder of its own, without a config but the one that lies there."""

    def __init__(self, folder, *words):
        self.folder = folder
        self.output = tempfile.TemporaryFile(mode="w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [os.path.join(BIN, "atoll"), "local", "--dir", folder, *words], stdout=self.output,
            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def text(self):
        self.output.seek(0)
        return self.output.read()

    def end(self, code, *signals):
        for number in signals:
            self.process.send_signal(number)
        found = self.process.wait(timeout=100)
        text = self.text()
        assert found == code, (found, text)
        self.output.close()
        return text


def pids_of(folder):
    found = []
    for name in os.listdir(folder):
        try:
            with open(os.path.join(folder, name, "pid"), encoding="utf-8") as source:
                found.append(int(source.read()))
        except (FileNotFoundError, NotADirectoryError):
            continue
    return found


def runs(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as source:
            return source.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class BranchTest(unittest.TestCase):

    def test_a_sealed_run_and_a_version_in_the_middle_go_on_in_branches(self):
        with Cluster(rounds=6, peers=2, steps=2, width=32) as cluster:
            parent = cluster.finish()
            more = os.path.join(cluster.top, "more")
            config = self.config(cluster, "more.toml", WSD)
            made = told("run", "branch", "--from", cluster.dir, "--config", config, "--rounds", "3",
                        "--dir", more, "--json")
            self.assertEqual(parent["state_digest"], made["state_digest"])
            self.assertEqual(6, made["version"])
            self.assertEqual(parent["tokens"], made["tokens"])
            self.assertTrue(made["buffers"] and made["whole_log"])
            # What they contributed, two peers' 6 rounds of 2 steps of 4 samples.
            self.assertGreaterEqual(made["next_sample"], 6 * 2 * 2 * 4)
            said = Local(more).end(0)
            self.assertIn("The model goes on from", said)
            self.what_the_branch_says(more, made)
            self.branch_in_the_middle(cluster, parent)
            # A branch of the branch, with the config that lies there.
            third = told("run", "branch", "--from", more, "--dir", more + "-2", "--json")
            self.assertEqual([parent["run_id"]], [one["run_id"] for one in third["earlier"]])
            self.assertGreater(third["next_sample"], made["next_sample"])

    def config(self, cluster, name, inner):
        with open(cluster.config, encoding="utf-8") as source:
            text = source.read()
        text = re.sub(r"(?s)\[inner\].*?(?=\[outer\])", inner.lstrip(), text)
        path = os.path.join(cluster.top, name)
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        return path

    def what_the_branch_says(self, folder, made):
        shown = told("run", "show", "--dir", folder, "--json")
        self.assertEqual(3, shown["version"])
        self.assertNotEqual(made["run_id"], shown["run_id"])
        for key in ("run_id", "version", "state_digest", "header_digest", "next_sample", "buffers"):
            self.assertEqual(made[key], shown["parent"][key], key)
        text = atoll("run", "show", "--dir", folder).stdout
        self.assertIn(f"branch of  version 6 of run {made['run_id']}", re.sub(" {3,}", "  ", text))
        verified = told("log", "verify", "--dir", folder)
        self.assertEqual(made["run_id"], verified["parent"]["run_id"])
        headers = atoll("log", "list", "--dir", folder).stdout
        self.assertIn("version 6 of run " + made["run_id"], headers)
        # Its samples begin behind its parent's.
        with open(os.path.join(folder, "coordinator", "log.txt"), encoding="utf-8") as source:
            self.assertIn("version 0 was made by peer ", source.read())
        with open(os.path.join(folder, "peer-1", "log.txt"), encoding="utf-8") as source:
            logged = source.read()
        with open(os.path.join(folder, "peer-2", "log.txt"), encoding="utf-8") as source:
            logged += source.read()
        self.assertIn(f"its corpus goes on at sample {made['next_sample']}", logged)

    def branch_in_the_middle(self, cluster, parent):
        file = os.path.join(cluster.top, "of-3")
        done = atoll("run", "branch", "--from", cluster.dir + "@3", "--out", file)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn(f"version 3 of run {parent['run_id']}", done.stdout)
        # One file, several runs; whose config differs from the model's shape is refused.
        for rate, rule in (("1e-4", "nesterov"), ("1e-3", "average")):
            with open(cluster.config, encoding="utf-8") as source:
                text = source.read()
            text = text.replace("[run]\n", f'[run]\nbranch = "{file}"\nid = "of-3-{rule}"\n')
            text = text.replace("rounds = 6", "rounds = 1")
            text = text.replace("[inner]\n", f"[inner]\nlearning_rate = {rate}\n")
            text = text.replace('"nesterov"', f'"{rule}"')
            config = os.path.join(cluster.top, rule + ".toml")
            with open(config, "w", encoding="utf-8") as out:
                out.write(text)
            folder = os.path.join(cluster.top, "run-" + rule)
            Local(folder, "--config", config).end(0)
            shown = told("run", "show", "--dir", folder, "--json")
            lineage = tuple(shown["parent"][key] for key in ("run_id", "version", "buffers"))
            self.assertEqual((parent["run_id"], 3, rule == "nesterov"), lineage)
        wide = os.path.join(cluster.top, "wide.toml")
        with open(wide, "w", encoding="utf-8") as out:
            out.write(text.replace("width = 32", "width = 64"))
        refused = atoll("run", "branch", "--from", cluster.dir, "--config", wide, "--dir",
                        os.path.join(cluster.top, "wide"))
        self.assertEqual(2, refused.returncode, refused.stdout)
        self.assertIn("width: 32 -> 64", refused.stderr)
        self.the_worker_names_the_tensor(os.path.join(cluster.top, "wide"), wide)

    def the_worker_names_the_tensor(self, folder, config):
        run = Local(folder, "--config", config)
        log = os.path.join(folder, "peer-1", "log.txt")

        def named():
            with open(log, encoding="utf-8") as source:
                return "in the config's model" in source.read()
        wait_for("the tensor's name", lambda: os.path.exists(log) and named())
        run.end(1, signal.SIGINT)

    def test_the_calls_that_cannot_be_right(self):
        with Cluster(rounds=2, peers=1, quorum=1, stub={"parameters": 1000}) as cluster:
            cluster.finish()
            out = os.path.join(cluster.top, "file")
            for words, part in (
                    (("--from", cluster.dir), "give either --dir DIR"),
                    (("--from", cluster.dir, "--out", out, "--dir", out), "give either --dir DIR"),
                    (("--from", "127.0.0.1:7070", "--out", out), "--identity COORDINATOR_DIR"),
                    (("--from", cluster.dir, "--out", out, "--plaintext"), "a --from that is"),
                    (("--from", "127.0.0.1:7070", "--dir", out, "--plaintext"), "give --config"),
                    (("--from", "/none/such", "--out", out), "is not a folder")):
                done = atoll("run", "branch", *words)
                self.assertEqual(2, done.returncode, done.stderr)
                self.assertIn(part, done.stderr)
            done = atoll("run", "branch", "--from", cluster.dir + "@9", "--out", out)
            self.assertEqual(2, done.returncode, done.stderr)
            self.assertIn("cover versions 0 to 2", done.stderr)
            self.assertFalse(os.path.exists(out))


class FromAfarTest(unittest.TestCase):

    def test_peers_of_a_live_run_give_an_administrator_what_their_folders_hold(self):
        # Would fail if peers refused it, or if anything in the branch hung on where it was made.
        stub = {"parameters": 300000, "step_time": "1ms", "snapshot_every": 4}
        with Cluster(rounds=100000, peers=2, quorum=2, steps=1, stub=stub) as cluster:
            cluster.wait_version(14)
            told("run", "pause", "--dir", cluster.dir, "--json")
            wait_for("the pause", lambda: cluster.status()["phase"] == "paused")
            newest = cluster.version()
            coordinator = cluster.process_of("coordinator")
            admin = ("--identity", os.path.join(coordinator["dir"], "admin"))

            def made(name, source, *words):
                out = os.path.join(cluster.top, name)
                found = told("run", "branch", "--from", source, "--out", out, "--json", *words)
                self.assertTrue(found["whole_log"])
                with open(out, "rb") as file:
                    return found["version"], file.read()
            here = made("here", cluster.dir)
            self.assertEqual(newest, here[0])
            self.assertEqual(here, made("afar", coordinator["address"], *admin))
            before = f"@{newest - 1}"
            self.assertEqual(made("here-before", cluster.dir + before),
                             made("afar-before", coordinator["address"] + before, *admin))
            out = os.path.join(cluster.top, "file")
            os.mkdir(out + ".fetch-k1ll3d")  # as a killed one leaves it
            self.refused(("--from", coordinator["address"] + "@1", "--out", out, *admin),
                         f"to {newest} are available")
            for name in ("peer-1", "peer-2"):
                cluster.kill(name)
            self.refused(("--from", coordinator["address"], "--out", out, *admin),
                         "run this where a peer works")
            self.assertEqual([], [name for name in os.listdir(cluster.top) if "fetch" in name])

    def refused(self, words, part):
        done = atoll("run", "branch", *words)
        self.assertNotEqual(0, done.returncode, done.stdout)
        self.assertIn(part, done.stderr)


class GoOnTest(unittest.TestCase):

    def test_what_was_killed_and_moved_goes_on_with_the_command_that_is_named(self):
        with Cluster(rounds=100000, peers=2, quorum=2, stub={"parameters": 1000}) as cluster:
            cluster.wait_version(2)
            workers = [cluster.worker_pid(name) for name in ("peer-1", "peer-2")]
            pids = [cluster.process.pid, *pids_of(cluster.dir)]
            self.assertEqual(4, len(pids))
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            cluster.process.wait()
            wait_for("nothing is left", lambda: not any(runs(pid) for pid in pids + workers), 20)
            shown = told("run", "show", "--dir", cluster.dir, "--json")
            reached = shown["version"]
            before = told("log", "verify", "--dir", cluster.dir)
            self.assertIn("go on with: atoll local --dir " + cluster.dir, shown["reason"])
            moved = os.path.join(cluster.top, "elsewhere")
            os.rename(cluster.dir, moved)
            cluster.dir = moved
            run = Local(moved)
            cluster.wait_version(reached + 1)
            text = run.end(1, signal.SIGINT)
            self.assertIn("Go on with: atoll local --dir " + moved, text)
            after = told("log", "verify", "--dir", moved)
            self.assertGreater(after["versions"], before["versions"])
            replayed = told("log", "replay", "--dir", moved, "--json")
            self.assertIn(before["state_digest"], [one["state_digest"] for one in replayed])

    def test_a_killed_atoll_local_leaves_only_what_was_started_by_hand_which_is_taken_up(self):
        with Cluster(rounds=100000, peers=2, quorum=2, stub={"parameters": 1000}) as cluster:
            cluster.wait_version(1)
            cluster.kill("peer-2")
            wait_for("peer-2 is gone", lambda: not runs(cluster.pid_of("peer-2")), 20)
            by_hand = cluster.restart("peer-2")
            wait_for("peer-2 is back", lambda: "peer-2 is back" in cluster.text())
            children = {name: cluster.pid_of(name) for name in ("coordinator", "peer-1")}
            # It ends late: the run goes on at once, and finds it still.
            os.kill(children["peer-1"], signal.SIGSTOP)
            cluster.process.kill()
            cluster.process.wait()
            run = Local(cluster.dir)
            # Said when the new coordinator has answered, as the peers have their turn.
            wait_for("the peers' turn", lambda: "dashboard: " in run.text())
            os.kill(children["peer-1"], signal.SIGCONT)
            wait_for("the others are new", lambda: all(
                runs(cluster.pid_of(name)) and cluster.pid_of(name) != pid
                for name, pid in children.items()))
            self.assertFalse([pid for pid in children.values() if runs(pid)])
            version = wait_for("the coordinator answers", lambda: max(cluster.version(), 0))
            cluster.wait_version(version + 1)
            self.assertIsNone(by_hand.poll())
            self.assertEqual(by_hand.pid, cluster.pid_of("peer-2"))
            pids = pids_of(cluster.dir)
            self.assertEqual(3, len(set(pids)))
            run.end(1, signal.SIGINT)
            self.assertFalse([pid for pid in pids if runs(pid)])


if __name__ == "__main__":
    unittest.main()
