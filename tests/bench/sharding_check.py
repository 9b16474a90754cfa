"""Trains one tiny model on one device and on several that hold it together, and compares them.

    PATH=build/release/bin:$PATH PYTHON -m pip install './worker/python[hf]'
    PYTHON tests/bench/sharding_check.py --bin build/release/bin [--ranks 2] [--only NAME,NAME]

PYTHON is one that has PyTorch 2.6 or newer, transformers, PEFT and atoll_worker. The ranks are
processes on CPUs, and nothing is downloaded. Each line is a run of one peer with several ranks
beside the same run with one: all losses of training and validation must be equal to 1e-5 in fp32
and to 2e-2 in bf16. On some lines a rank or the peer is killed, or the peer is stopped, and the run
must go on with the optimiser's state and come as far. With torchrun two groups of one rank play two
machines. Each model is exported, and transformers must say the run's loss of it. `memory` is a line
of its own, of a larger model: what each process has in memory, beside the same with the tiny model,
which is Python and PyTorch themselves. The exit status is the number of lines that failed.
"""

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))

CLOSE = {"fp32": 1e-5, "bf16": 2e-2}
AFTER_A_DEATH = 0.1  # steps are done again, with moments of a little earlier
EXPORTED = 1e-4
PATIENCE = 300       # seconds: interpreters read PyTorch on a small machine
ROUNDS, STEPS, CONTEXT, HELD_OUT = 10, 4, 32, 0.1

CONFIG = """
[run]
rounds = {rounds}
peers = 1
quorum = 1
[model]
kind = "huggingface"
path = "{model}"
context = {context}
{more}
[data]
path = "{data}"
validation_fraction = {held_out}
[inner]
precision = "{precision}"
steps = {steps}
batch = 6
accumulation = 2
learning_rate = 0.005
warmup_steps = 2
[outer]
rule = "average"
[exchange]
codec = "fp32"
chunk_elements = 65536
[evaluation]
tokens = {evaluated}
every_rounds = 1
[membership]
failure_timeout = "10s"
[worker]
program = "{program}"
device = "{device}"
[log]
level = "debug"
"""

LINES = {
    "fp32": {},
    "rank-killed": {"kill": "rank"},
    "peer-killed": {"kill": "peer"},
    "peer-stopped": {"kill": "stop"},
    "bf16": {"precision": "bf16"},
    "lora": {"more": "lora_rank = 4"},
    "lora-bf16": {"more": "lora_rank = 4", "precision": "bf16"},
    "torchrun": {"machines": 2},
    "torchrun-killed": {"machines": 2, "kill": "rank"},
}
LARGER = {"vocab_size": 4096, "hidden_size": 768, "num_hidden_layers": 8,
          "num_attention_heads": 12, "intermediate_size": 2048, "num_key_value_heads": 12,
          "max_position_embeddings": 128}


def library():
    """The modules of the tests beside this one. They want ATOLL_BIN, and their own safetensors.py
    is not the library's."""
    sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
    import cluster
    sys.path.pop(0)
    import huggingface_check
    return cluster, huggingface_check


def ranks_of(worker):
    """The processes of a worker: itself, and the ranks that it has started."""
    found = [worker]
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8") as source:
                parent = int(source.read().rpartition(")")[2].split()[1])
            with open(f"/proc/{entry}/cmdline", encoding="utf-8") as source:
                if parent == worker and "--helper" in source.read():
                    found.append(int(entry))
        except (OSError, ValueError, IndexError):
            continue
    return sorted(found)


class Check:
    """The folders that all lines use, and the runs."""

    def __init__(self, options, top):
        import transformers
        self.transformers, self.top = transformers, top
        self.cluster, self.families = library()
        self.corpus = os.path.join(top, "text.txt")
        self.cluster.write_corpus(self.corpus, sentences=400)
        self.model = self.make("model", self.families.LLAMA)
        self.program = self.families.make_program(top)
        self.several = ",".join(["cpu"] * options.ranks)
        self.port = self.cluster.free_port()
        self.alone = {}  # what one device has given, by what was changed

    def make(self, name, config):
        folder = os.path.join(self.top, name)
        model = self.transformers.AutoModelForCausalLM.from_config(
            self.transformers.LlamaConfig(**config))
        model.save_pretrained(folder)
        self.families.make_tokenizer(self.transformers, self.corpus, folder)
        return folder

    def torchrun(self, node):
        """The command of one of two machines, with a rank each, as a user writes it; here both are
        this one."""
        return (f"{sys.executable} -m torch.distributed.run --nnodes 2 --node-rank {node} "
                f"--nproc-per-node 1 --master-addr 127.0.0.1 --master-port {self.port} "
                "-m atoll_worker.huggingface --sharding full")

    def make_first(self):
        """What the peer of two machines has as [worker] program."""
        path = os.path.join(self.top, "first-machine")
        with open(path, "w", encoding="utf-8") as out:
            out.write(f"#!/bin/sh\nexec {self.torchrun(0)} \"$@\"\n")
        os.chmod(path, 0o755)
        return path

    @contextlib.contextmanager
    def second_machine(self):
        """The other one, whose command is begun again each time that it ends."""
        group = subprocess.Popen(
            ["sh", "-c", f"while true; do {self.torchrun(1)}; sleep 1; done"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            yield
        finally:
            os.killpg(group.pid, signal.SIGTERM)
            group.wait()

    def config(self, device, **changes):
        return CONFIG.format(**{
            "rounds": ROUNDS, "steps": STEPS, "context": CONTEXT, "held_out": HELD_OUT,
            "model": self.model, "data": self.corpus, "program": self.program, "device": device,
            "precision": "fp32", "more": "", "evaluated": 0, **changes})

    def run(self, device, kill=None, **changes):
        """All losses that the run has recorded, and the folder to which it was exported."""
        with self.cluster.Cluster(peers=1, text=self.config(device, **changes)) as run:
            if kill:
                self.kill(run, kill)
            report = run.finish(seconds=PATIENCE)
            assert self.cluster.equal_digests(report), "the digests differ"
            with open(os.path.join(run.dir, "metrics.jsonl"), encoding="utf-8") as source:
                told = [json.loads(line) for line in source]
            losses = [one[key] for one in told for key in ("train/loss", "validation/loss")
                      if one[key] is not None]
            output = os.path.join(self.top, f"exported-{time.monotonic_ns()}")
            done = subprocess.run(
                [os.path.join(self.cluster.BIN, "atoll"), "export", "--dir", run.dir, "--output",
                 output, "--worker", self.program, "--base", self.model],
                capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            return losses, output

    def kill(self, run, what):
        """In the middle of the run, and sees to it that it goes on with the optimiser's state."""
        peer = "peer-1"
        self.cluster.wait_for("version 3", lambda: run.process.poll() is not None or
                              run.version() >= 3, PATIENCE)
        assert run.process.poll() is None, "the run ended too early:\n" + run.text()
        if what == "rank":
            launched = self.ranks_by_torchrun()
            ranks = launched or ranks_of(run.worker_pid(peer))
            os.kill(ranks[-1], signal.SIGKILL)
            said = "a rank of the 2 that torchrun started is gone" if launched else \
                rf"process {ranks[-1]}\) was killed by signal 9 \(SIGKILL\)"
            self.cluster.wait_for("what the worker says of it",
                                  lambda: re.search(said, run.log(peer)))
        else:
            run.signal(peer, signal.SIGKILL if what == "peer" else signal.SIGTERM)
            pid = run.pid_of(peer)
            self.cluster.wait_for("the end of the peer",
                                  lambda: not os.path.exists(f"/proc/{pid}"))
            run.restart(peer)
        self.cluster.wait_for("the worker with its optimiser's state", lambda: (
            "the optimiser goes on where it was" in run.all_logs(peer)), PATIENCE)

    def ranks_by_torchrun(self):
        """Processes, in the order of their ranks."""
        found = {}
        for entry in os.listdir("/proc"):
            try:
                with open(f"/proc/{entry}/environ", encoding="utf-8", errors="replace") as source:
                    told = dict(one.partition("=")[::2] for one in source.read().split("\0"))
            except OSError:
                continue
            if told.get("MASTER_PORT") == str(self.port):
                found[int(told["RANK"])] = int(entry)
        return [found[rank] for rank in sorted(found)]

    def line(self, name, kill=None, machines=1, **changes):
        """The columns of its line. AssertionError: what is not as it must be."""
        began, precision = time.monotonic(), changes.get("precision", "fp32")
        key = json.dumps(changes)
        if key not in self.alone:
            self.alone[key] = self.run("cpu", **changes)
        one, _ = self.alone[key]
        if machines > 1:
            with self.second_machine():
                several, output = self.run("cpu", kill, **changes, program=self.make_first())
        else:
            several, output = self.run(self.several, kill, **changes)
        gap = max(abs(first - second) for first, second in zip(one, several))
        if kill:
            gap = abs(one[-1] - several[-1])
        limit = AFTER_A_DEATH if kill else CLOSE[precision]
        options = {"lora_rank": 4} if "lora" in name else {}
        theirs = self.families.own_loss(self.transformers, output, self.corpus, options)
        assert len(one) == len(several) == 2 * ROUNDS + 1, (len(one), len(several))
        assert gap <= limit, f"the losses are {gap:.1e} apart: {one}, {several}"
        assert several[-1] < several[0] - 0.02, several
        exported = abs(theirs - several[-1])
        # Exported beside an fp32 base, and transformers computes in fp32.
        assert exported <= (EXPORTED if precision == "fp32" else CLOSE["bf16"]), \
            f"the run's loss {several[-1]}, transformers' {theirs}"
        return [name, f"{several[0]:.4f}", f"{one[-1]:.6f}", f"{several[-1]:.6f}", f"{gap:.1e}",
                f"{exported:.1e}", f"{time.monotonic() - began:.0f} s"]

    def peak(self, device, model):
        """Of each process, in MiB: the most that was resident while it trained, all of it and what
        is in no file."""
        changes = {"model": model, "rounds": 4, "steps": 2, "evaluated": 320}
        most, ended = {}, threading.Event()
        with self.cluster.Cluster(peers=1, text=self.config(device, **changes)) as run:
            self.cluster.wait_for("version 1", lambda: run.version() >= 1, PATIENCE)
            ranks = ranks_of(run.worker_pid("peer-1"))

            def look():
                while not ended.is_set():
                    for number, pid in enumerate(ranks):
                        here = memory_of(pid)
                        most[number] = [max(pair) for pair in zip(most.get(number, here), here)]
                    time.sleep(0.02)
            looker = threading.Thread(target=look)
            looker.start()
            try:
                run.finish(seconds=PATIENCE)
            finally:
                ended.set()
                looker.join()
        return [most[number] for number in sorted(most)]

    def memory(self):
        """Lines of a larger model beside the tiny one, which is PyTorch itself."""
        larger = self.make("larger", LARGER)
        values = sum(one.numel() for one in self.transformers.AutoModelForCausalLM.from_pretrained(
            larger).parameters())
        rows = []
        for device in ("cpu", self.several):
            small, large = self.peak(device, self.model), self.peak(device, larger)
            for rank, (less, more) in enumerate(zip(small, large)):
                rows.append([device, str(rank), f"{more[0]:.0f}", f"{less[0]:.0f}", *(
                    f"{(more[kind] - less[kind]) * 2**20 / values:.1f}" for kind in (0, 1))])
        return values, rows


def memory_of(pid):
    """Resident MiB: all, and what is in no file and shared with nobody. Zeros: it has ended."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as source:
            told = dict(re.findall(r"^(\w+):\s+(\d+) kB$", source.read(), re.MULTILINE))
    except OSError:
        return [0.0, 0.0]
    return [int(told.get(key, 0)) / 1024 for key in ("VmRSS", "RssAnon")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default=os.environ.get("ATOLL_BIN"), required="ATOLL_BIN" not in
                        os.environ, help="the folder of atoll and atolld")
    parser.add_argument("--only", help="names of lines with commas between them, and memory")
    parser.add_argument("--ranks", type=int, default=2)
    options = parser.parse_args()
    os.environ.update(ATOLL_BIN=os.path.abspath(options.bin), ATOLL_HF_SHARDING="full")
    try:
        import transformers
    except ImportError as missing:
        sys.exit(f"{missing}: call this with a Python that has PyTorch, transformers and PEFT")
    transformers.utils.logging.disable_progress_bar()
    wanted = options.only.split(",") if options.only else [*LINES, "memory"]
    failed = 0
    with tempfile.TemporaryDirectory(prefix="atoll-sharding-") as top:
        check = Check(options, top)
        print(" | ".join(["line", "loss at first", "1 rank at the end",
                          f"{options.ranks} ranks at the end", "most apart", "transformers apart",
                          "time"]), flush=True)
        for name, changes in LINES.items():
            if name not in wanted:
                continue
            try:
                print(" | ".join(check.line(name, **changes)), flush=True)
            except AssertionError as wrong:
                failed += 1
                print(f"{name} | FAILED: {wrong}", flush=True)
        if "memory" in wanted:
            values, rows = check.memory()
            print(f"\nmemory with {values} parameters, MiB and bytes a parameter")
            print(" | ".join(["devices", "rank", "resident", "with a tiny model",
                              "bytes a parameter", "in no file"]))
            for row in rows:
                print(" | ".join(row), flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
