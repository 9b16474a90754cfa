"""Would fail if a peer whose worker cannot train lost its place in the run, said so unclearly or
again and again, kept the others from committing, or did not come back when what is wrong is mended.
"""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

from cluster import (BIN, Cluster, atoll, equal_digests, token_file, wait_for,
                     write_corpus)
from safetensors import gpt_tensors, npy_bytes, replace, safetensors_bytes, sha256

HERE = os.path.dirname(os.path.abspath(__file__))
TOKENIZER = os.path.join(HERE, "..", "unit", "worker", "data", "vectors", "gpt2.json")
MAKE_FILE = os.environ.get("ATOLL_TORCHSCRIPT_FILE", "")

COMMON = """
[run]
rounds = 100000
peers = 3
quorum = 2
[inner]
steps = {steps}
batch = 4
warmup_steps = 0
learning_rate = 0.001
[exchange]
codec = "int8"
chunk_elements = 4096
[evaluation]
tokens = 1024
every_rounds = 0
[membership]
failure_timeout = "3s"
[log]
level = "debug"
"""

GPT = COMMON + """
[model]
kind = "gpt"
layers = 1
heads = 2
width = 64
context = 32
"""

# Of how many bytes a training peer of the run below keeps and sends, none is of the base.
RANK = 2
ADAPTERS = RANK * (64 + 3 * 64)

ADAPTED = GPT + """
lora_rank = {rank}
base = "{top}/base.safetensors"
base_digest = "{digest}"
[data]
path = "{top}/text.txt"
"""


class WorkerErrorsTest(unittest.TestCase):

    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="atoll-e2e-")
        self.addCleanup(shutil.rmtree, self.top)

    def at(self, name):
        return os.path.join(self.top, name)

    # -- what is seen of a peer

    def lines(self, cluster, name, text, level):
        pattern = re.compile(rf"^\S+Z {level} .*{re.escape(text)}")
        return [line for line in cluster.all_logs(name).splitlines() if pattern.search(line)]

    def contributed(self, cluster, name):
        return (cluster.peer(name) or {}).get("rounds_contributed", 0)

    def version_of(self, cluster, name):
        return (cluster.peer(name) or {"member": {"version": 0}})["member"]["version"]

    def stays_a_member(self, cluster, text, name="peer-3"):
        """Its worker fails for this reason: one line, and all but its training goes on."""
        wait_for(f"{name} says: {text}", lambda: self.lines(cluster, name, text, "warning"))
        wait_for("the same reason again", lambda: self.lines(cluster, name, text, "debug"))
        daemon = cluster.pid_of(name)
        before, others = self.contributed(cluster, name), self.contributed(cluster, "peer-1")
        held = self.version_of(cluster, name)
        wait_for(f"{name} follows the commits",
                 lambda: self.version_of(cluster, name) >= max(held, 1) + 4)
        self.assertGreaterEqual(self.contributed(cluster, "peer-1"), others + 3)
        # What it had trained before may still have been on its way.
        self.assertLessEqual(self.contributed(cluster, name), before + 1)
        listed = json.loads(atoll("peer", "list", "--dir", cluster.dir, "--json").stdout)
        self.assertEqual(["live"], [one["member"]["state"] for one in listed
                                    if one["member"]["peer"] == name])
        self.assertEqual(daemon, cluster.pid_of(name))
        # In the worker's own words or the daemon's.
        said = [line for level in ("info", "warning", "error")
                for line in self.lines(cluster, name, text.lstrip("("), level)]
        self.assertEqual(1, len(said), said)
        self.assertIn("the worker is gone (", said[0])
        for noise in ("Traceback", "Exception raised", "frame #", "\\n", "terminate called"):
            self.assertNotIn(noise, said[0])
        return said[0]

    def comes_back(self, cluster, name="peer-3"):
        before, daemon = self.contributed(cluster, name), cluster.pid_of(name)
        wait_for(f"{name} contributes again",
                 lambda: self.contributed(cluster, name) >= before + 2)
        self.assertEqual(daemon, cluster.pid_of(name))

    # -- what is done to it

    def set_key(self, cluster, key, value, name):
        path = os.path.join(cluster.process_of(name)["dir"], "config.toml")
        with open(path, encoding="utf-8") as source:
            lines = source.read().splitlines()
        section, word = key.split(".")
        at = next(i for i in range(lines.index(f"[{section}]"), len(lines))
                  if lines[i].startswith(f"{word} = "))
        lines[at] = f"{word} = {json.dumps(value)}"
        with open(path, "w", encoding="utf-8") as out:
            out.write("\n".join(lines) + "\n")

    def restart_with(self, cluster, keys, name="peer-3", wipe=False):
        """Its daemon is killed, and started with another config."""
        pid = cluster.kill(name)
        wait_for("its end", lambda: self.ended(pid))
        if wipe:
            cluster.wipe(name)
        for key, value in keys.items():
            self.set_key(cluster, key, value, name)
        cluster.restart(name)
        wait_for("its successor", lambda: self.daemon_pid(cluster, name) not in (None, pid))

    def daemon_pid(self, cluster, name):
        try:
            return cluster.pid_of(name)
        except (FileNotFoundError, ValueError):
            return None

    def ended(self, pid):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as source:
                return source.read().rpartition(")")[2].split()[0] == "Z"
        except (FileNotFoundError, ProcessLookupError):
            return True

    def kill_worker(self, cluster, name="peer-3"):
        os.kill(wait_for("a worker", lambda: cluster.worker_pid(name)), signal.SIGKILL)

    def end(self, cluster):
        """All that are there hold the same bits at the end."""
        done = atoll("run", "stop", "--dir", cluster.dir)
        self.assertEqual(0, done.returncode, done.stderr)
        report = cluster.finish()
        self.assertTrue(equal_digests(report), report)
        self.assertEqual(3, len(report["peers"]))
        return report

    # -- the tests

    def test_adapters_of_a_wrong_or_broken_base(self):
        base = safetensors_bytes(gpt_tensors(1, 64, 32))
        other = safetensors_bytes(gpt_tensors(1, 64, 32, seed=2))
        write_corpus(self.at("text.txt"))
        replace(self.at("base.safetensors"), base)
        own = self.at("own.safetensors")
        replace(own, other)
        text = ADAPTED.format(top=self.top, steps=10, rank=RANK, digest=sha256(base))
        with Cluster(text=text) as cluster:
            cluster.wait_version(2)
            # It joins anew, with the base of another run.
            self.restart_with(cluster, {"model.base": own}, wipe=True)
            self.stays_a_member(cluster, f"(base: {own} has SHA-256 {sha256(other)}; the run's "
                                         f"adapters are of {sha256(base)})")
            replace(own, base)
            self.comes_back(cluster)
            # The end of the file is lost.
            replace(own, base[:-1000])
            self.kill_worker(cluster)
            self.stays_a_member(cluster, f"(base: {own}: tensor ")
            replace(own, base)
            self.comes_back(cluster)
            report = self.end(cluster)
            self.only_adapters_travel(cluster, report, len(base))
            self.judged_with_their_base(cluster, report)

    def only_adapters_travel(self, cluster, report, base_bytes):
        self.assertEqual(ADAPTERS, report["parameters"])
        # Of three peers each sends its update to two and its means to two, at a byte a value and
        # what frames them; the base of 67,680 values has no part in it.
        self.assertGreater(report["bytes_sent_per_peer_per_round"], ADAPTERS)
        self.assertLess(report["bytes_sent_per_peer_per_round"], 4 * ADAPTERS)
        for peer in ("peer-1", "peer-2", "peer-3"):
            for place, _, files in os.walk(cluster.process_of(peer)["dir"]):
                for file in files:
                    size = os.path.getsize(os.path.join(place, file))
                    self.assertTrue(size < base_bytes / 4 or file == "log.txt" or
                                    place.endswith("log"), (place, file, size))

    def judged_with_their_base(self, cluster, report):
        base = ("--base", self.at("base.safetensors"))
        done = atoll("eval", "--dir", cluster.dir, "--json", *base)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertLess(abs(json.loads(done.stdout)["loss"] - report["final_val_loss"]), 0.2)
        done = atoll("generate", "--dir", cluster.dir, "--prompt", "the", "--tokens", "8",
                     "--json", *base)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertGreater(len(json.loads(done.stdout)["text"]), 3)
        for verb in (("eval",), ("generate", "--prompt", "the")):  # the peer's config names it
            done = atoll(*verb, "--dir", cluster.dir, "--json")
            self.assertEqual(0, done.returncode, done.stderr)

    def test_data_a_tokenizer_and_a_device_of_another_kind(self):
        write_corpus(self.at("text.txt"), 2000)
        done = atoll("data", "prepare", "--input", self.at("text.txt"), "--output",
                     self.at("tokens"), "--tokenizer", TOKENIZER, "--json")
        self.assertEqual(0, done.returncode, done.stderr)
        made = json.loads(done.stdout)
        self.assertEqual(2, made["width"])
        with open(self.at("tokens/train.bin"), "rb") as source:
            tokens = source.read()
        with open(TOKENIZER, "rb") as source:
            tokenizer = source.read()
        for path, data in ((self.at("all.bin"), tokens), (self.at("all.json"), tokenizer)):
            replace(path, data)
        text = GPT.format(steps=20) + f"vocabulary = {made['vocabulary']}\n" + (
            f"[data]\npath = \"{self.top}/all.bin\"\ntokenizer = \"{self.top}/all.json\"\n")
        with Cluster(text=text) as cluster:
            cluster.wait_version(2)
            self.another_kind_of_data(cluster, tokens, tokenizer)
            # Also where there are some: not so many.
            self.restart_with(cluster, {"worker.device": "cuda:99"})
            self.stays_a_member(cluster, '([worker] device is "cuda:99"')
            self.restart_with(cluster, {"worker.device": "cpu"})
            self.comes_back(cluster)
            self.end(cluster)

    def another_kind_of_data(self, cluster, tokens, tokenizer):
        own, own_tokenizer = self.at("own.bin"), self.at("own.json")
        replace(own, tokens + b"\0")
        replace(own_tokenizer, tokenizer)
        self.restart_with(cluster, {"data.path": own, "data.tokenizer": own_tokenizer})
        self.stays_a_member(cluster, f"(data: {own} ends in the middle of a token: "
                                     f"{len(tokens) + 1} bytes from byte 0 on, 2 a token)")
        replace(own, tokens)
        self.comes_back(cluster)
        # As many tokens, and two of them stand for each other's text.
        wrong = tokenizer.replace(b'"a"', b'"\xff"').replace(b'"b"', b'"a"').replace(
            b'"\xff"', b'"b"')
        self.assertNotEqual(wrong, tokenizer)
        replace(own_tokenizer, wrong)
        self.kill_worker(cluster)
        self.stays_a_member(cluster, f"(data: the tokenizer of {own} has SHA-256 ")
        replace(own_tokenizer, tokenizer)
        self.comes_back(cluster)

    def test_too_little_memory(self):
        write_corpus(self.at("text.txt"), 2000)
        limit, program = self.at("limit"), self.at("limited-worker")
        worker = os.path.join(os.environ["ATOLL_BIN"], "atoll-worker")
        with open(program, "w", encoding="utf-8") as script:
            script.write(f'#!/bin/sh\nulimit -v "$(cat {limit})"\nexec {worker} "$@"\n')
        os.chmod(program, 0o755)
        # The logits of a step are 36 MB; its activations together some hundreds.
        text = (GPT.format(steps=1).replace("batch = 4", "batch = 1100") +
                f'[data]\npath = "{self.top}/text.txt"\n')
        with Cluster(text=text) as cluster:
            cluster.wait_version(2)
            needed = self.address_space(cluster.worker_pid("peer-1"))
            replace(limit, str((needed - (200 << 20)) >> 10).encode())
            self.restart_with(cluster, {"worker.program": program})
            line = self.stays_a_member(cluster, ": out of memory; ")
            self.assertIn("step ", line)
            replace(limit, b"unlimited")
            self.comes_back(cluster)
            self.end(cluster)

    def address_space(self, pid):
        """Bytes, at the most so far."""
        with open(f"/proc/{pid}/status", encoding="utf-8") as source:
            return int(re.search(r"VmPeak:\s+(\d+) kB", source.read())[1]) << 10

    def test_a_broken_file_to_begin_with(self):
        whole = safetensors_bytes(gpt_tensors(1, 64, 32))
        write_corpus(self.at("text.txt"), 2000)
        own, good = self.at("own.safetensors"), self.at("good.safetensors")
        replace(own, whole[:500])
        replace(good, whole)
        text = GPT.format(steps=10) + (
            f'initial = "{own}"\n[data]\npath = "{self.top}/text.txt"\n')
        with Cluster(text=text) as cluster:
            wanted = f"(initial: {own}: its header is said to have "
            wait_for("somebody is asked for version 0", lambda: cluster.peers_json() and any(
                wanted in cluster.log(f"peer-{i}") for i in (1, 2, 3)))
            # The only one with a good file makes it.
            self.restart_with(cluster, {"model.initial": good}, "peer-1")
            # Once there is a version 0 nobody reads the file any more.
            self.comes_back(cluster)
            self.comes_back(cluster, "peer-2")
            for name in ("peer-1", "peer-2", "peer-3"):
                self.assertLessEqual(len(self.lines(cluster, name, wanted, "warning")), 1)
            self.assertIn("version 0 was made by peer peer-1", cluster.log("coordinator"))
            self.end(cluster)

    def torchscript_config(self, file):
        """Of files that are made here, with the data in one safetensors file."""
        images, labels = self.pictures()
        subprocess.run([MAKE_FILE, self.at("model.pt")], check=True, timeout=60)
        subprocess.run([MAKE_FILE, self.at("rows.pt"), "rows"], check=True, timeout=60)
        replace(self.at("batch.safetensors"),
                safetensors_bytes({"images": images, "labels": labels}))
        os.mkdir(self.at("arrays"))
        replace(self.at("arrays/images.npy"), npy_bytes(*images))
        replace(self.at("arrays/labels.npy"), npy_bytes(*labels))
        return COMMON.format(steps=20) + (
            f'[model]\nkind = "torchscript"\nfile = "{self.at(file)}"\n'
            f'[data]\npath = "{self.top}/batch.safetensors"\n')

    def test_a_torchscript_file_of_another_run_and_broken_arrays(self):
        text, own = self.torchscript_config("model.pt"), self.at("own.pt")
        shutil.copy(self.at("rows.pt"), own)
        with Cluster(text=text) as cluster:
            cluster.wait_version(2)
            digests = []
            for name in ("rows.pt", "model.pt"):
                with open(self.at(name), "rb") as source:
                    digests.append(sha256(source.read()))
            # The same arrays from numpy's files are the same data.
            self.restart_with(cluster, {"model.file": own, "data.path": self.at("arrays")})
            self.stays_a_member(cluster, f"(model: {own} has SHA-256 {digests[0]}; the run trains "
                                         f"{digests[1]})")
            shutil.copy(self.at("model.pt"), own)
            self.comes_back(cluster)
            # With the copy that it keeps, but not with data whose end is lost.
            os.remove(own)
            arrays = self.at("own.safetensors")
            with open(self.at("batch.safetensors"), "rb") as source:
                batch = source.read()
            replace(arrays, batch[:-9])
            self.restart_with(cluster, {"data.path": arrays})
            self.stays_a_member(cluster, f"(data: {arrays}: tensor labels: bytes ")
            replace(arrays, batch)
            self.comes_back(cluster)
            # One that joins trains with what the others give it.
            made = atoll("token", "create", "--dir", cluster.dir, "--peer", "late", "--json")
            with open(self.at("late.log"), "w", encoding="utf-8") as log:
                cluster.restarted.append(subprocess.Popen(
                    [os.path.join(BIN, "atolld"), "join", "--token-file",
                     token_file(self.at("late.token"), json.loads(made.stdout)["token"]),
                     "--dir", self.at("late"), "--data", self.at("arrays")],
                    stdout=log, stderr=subprocess.STDOUT))
            wait_for("the joiner trains", lambda: self.contributed(cluster, "late") > 0)
            self.end(cluster)

    def test_a_torchscript_file_that_gives_no_loss(self):
        """A run of it cannot begin: each says why, once, and stays."""
        with Cluster(text=self.torchscript_config("rows.pt")) as cluster:
            wanted = (f"(model: {self.at('rows.pt')}: forward gives a tensor of Float [4, 1]; it "
                      "must be a scalar loss)")
            for name in ("peer-1", "peer-2", "peer-3"):
                wait_for("the same reason again", lambda: cluster.peers_json() and
                         self.lines(cluster, name, wanted, "debug"))
                self.assertEqual(1, len(self.lines(cluster, name, wanted, "warning")))
            listed = json.loads(atoll("peer", "list", "--dir", cluster.dir, "--json").stdout)
            self.assertEqual(3, len([one for one in listed
                                     if one["member"]["peer"].startswith("peer-")]))

    def pictures(self):
        """Noisy images of four patterns, and which they are of."""
        draw = random.Random(3)
        patterns = [[draw.gauss(0, 1) for _ in range(36)] for _ in range(4)]
        labels = [draw.randrange(4) for _ in range(600)]
        values = [value + draw.gauss(0, 0.5) for label in labels for value in patterns[label]]
        return ("F32", [600, 6, 6], values), ("I64", [600], labels)


if __name__ == "__main__":
    unittest.main(verbosity=2)
