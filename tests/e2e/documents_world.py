"""What a reader of the documentation has before typing its commands: a home, a checkout in which
everything is built, texts, and runs that have ended or still go on.

Everything is small: what counts is that a command does what its page says, not for how long.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile

from cluster import BIN, Cluster, atoll, wait_for, write_corpus
from safetensors import npy_bytes, replace

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
TOKENIZER = os.path.join(SOURCE, "tests", "unit", "worker", "data", "vectors", "gpt2.json")
TORCHSCRIPT_FILE = os.environ.get("ATOLL_TORCHSCRIPT_FILE", "")

# The folder that `atoll local` would make by itself, as pages and help call it.
RUN = "atoll-run-20250131-142501"

# What the checkout's configs/quickstart.toml has instead, to train for a second or two: most of
# what a run costs here is that its workers start.
SMALLER = {"rounds": 4, "peers": 1, "layers": 1, "heads": 2, "width": 32, "steps": 1, "batch": 2,
           "tokens": 2048}

HUB = """
[run]
rounds = 2
[model]
kind = "{kind}"
layers = 1
heads = 2
width = 32
context = 32
{more}
[data]
path = "{data}"
[inner]
steps = 2
batch = 2
[evaluation]
tokens = 2048
"""


def quickstart_config(**more):
    """The text of the small one, with other values for some keys."""
    with open(os.path.join(SOURCE, "configs", "quickstart.toml"), encoding="utf-8") as source:
        text = source.read()
    for key, value in {**SMALLER, **more}.items():
        text, found = re.subn(rf"(?m)^{key} = \S+", f"{key} = {json.dumps(value)}", text)
        assert found == 1, f"configs/quickstart.toml has {found} lines with the key {key}"
    return text


def write(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)
    os.chmod(path, mode)


def run_atoll(*arguments):
    done = atoll(*arguments, timeout=120)
    assert done.returncode == 0, f"atoll {' '.join(arguments)}: {done.stdout}{done.stderr}"
    return done.stdout


def add_entries(path):
    """A dictionary's, as scripts/gcide makes them: a partition by subject needs some."""
    subjects = "Anat. Arch. Astron. Biol. Bot. Chem. Geol. Law Math. Med. Min. Mus. Zool.".split()
    with open(path, "a", encoding="utf-8") as out:
        out.write("\n")
        for number in range(3900):
            subject = subjects[number % len(subjects)]
            out.write(f"Word{number} \\Word\\, n. ({subject})\n   What it means.\n\n")


class Shared:
    """What costs seconds to make and is only read: made when the first page needs it."""

    def __init__(self):
        self.top = tempfile.mkdtemp(prefix="atoll-e2e-")
        self.text = os.path.join(self.top, "text.txt")
        write_corpus(self.text)
        add_entries(self.text)
        self.finished = None
        self.live = None
        self.hub = {}

    def finished_run(self):
        """The folder of a quickstart that has ended; the pages name states up to 30."""
        if self.finished is None:
            self.finished = Cluster(text=quickstart_config(path=self.text, rounds=32), peers=2)
            self.finished.finish()
        return self.finished.dir

    def live_run(self):
        """A run on the docs that does not end by itself, and keeps all its states."""
        if self.live is None:
            self.live = Cluster(text=quickstart_config(path=os.path.join(SOURCE, "docs"),
                                                       rounds=1000000, keep_snapshots=1000))
        return self.live

    def hub_model(self, kind, tokenizer):
        """A model of this kind as Hugging Face has it, and the run that made it."""
        if kind not in self.hub:
            top = os.path.join(self.top, kind)
            data, more = self.text, ""
            if tokenizer != "bytes":
                data = os.path.join(top, "tokens")
                run_atoll("data", "prepare", "--input", self.text, "--tokenizer", tokenizer,
                          "--output", data)
            config = os.path.join(top, "run.toml")
            write(config, HUB.format(kind=kind, data=data, more=more))
            run_atoll("local", "--config", config, "--dir", os.path.join(top, "run"))
            run_atoll("export", "--dir", os.path.join(top, "run"), "--output",
                      os.path.join(top, "model"), "--tokenizer", tokenizer)
            self.hub[kind] = (os.path.join(top, "model"), os.path.join(top, "run"))
        return self.hub[kind]

    def close(self):
        for cluster in (self.finished, self.live):
            if cluster is not None:
                cluster.close()
        shutil.rmtree(self.top, ignore_errors=True)


class World:
    """One page's reader. `home` and `checkout` are thrown away after the page."""

    def __init__(self, shared):
        self.shared = shared
        self.top = tempfile.mkdtemp(prefix="atoll-e2e-")
        self.home = os.path.join(self.top, "home")
        self.checkout = os.path.join(self.top, "atoll")
        self.live = None
        os.makedirs(self.home)
        self.make_checkout()
        self.environment = {"HOME": self.home, "PATH": os.environ["PATH"], "TMPDIR": self.top,
                            "TERM": "dumb", "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}

    def make_checkout(self):
        """Links to the sources, but a `configs` of its own, whose relative paths must lead here."""
        os.makedirs(os.path.join(self.checkout, "build", "data"))
        for name in os.listdir(SOURCE):
            if name not in ("build", "configs") and not name.startswith("."):
                os.symlink(os.path.join(SOURCE, name), self.at(name))
        shutil.copytree(os.path.join(SOURCE, "configs"), self.at("configs"))
        write(self.at("configs/quickstart.toml"), quickstart_config())
        os.symlink(os.path.dirname(BIN), self.at("build/release"))
        shutil.copy(self.shared.text, self.at("build/data/gcide.txt"))

    def at(self, name):
        return os.path.join(self.checkout, name)

    def in_home(self, name):
        return os.path.join(self.home, name)

    def point(self, name, folder):
        """Makes `name` in the checkout lead to a run's folder, whatever it led to before."""
        if os.path.islink(self.at(name)):
            os.remove(self.at(name))
        os.symlink(folder, self.at(name))

    # -- what a page's reader has

    def books(self):
        for place in (self.in_home("books"), self.at("books")):
            os.makedirs(place)
            shutil.copy(self.shared.text, os.path.join(place, "one.txt"))
            write(os.path.join(place, "two.txt"), "A second book, and a short one.\n" * 200)

    def texts(self):
        for name in ("my-text.txt", "books.txt"):
            shutil.copy(self.shared.text, self.at(name))

    def tokenizer(self):
        shutil.copy(TOKENIZER, self.at("tokenizer.json"))

    def llama_at_home(self):
        shutil.copytree(self.shared.hub_model("llama", "bytes")[0], self.in_home("llama"))

    def hub_folder(self, name):
        shutil.copytree(self.shared.hub_model("llama", "bytes")[0], self.at(name))

    def gpt2_and_its_run(self):
        model, run = self.shared.hub_model("gpt2", TOKENIZER)
        shutil.copytree(model, self.at("gpt2"))
        self.point(RUN, run)

    def llama_for_atoll(self):
        """Imported, in the checkout; returns the digest that `atoll import` prints."""
        model = self.shared.hub_model("llama", "bytes")[0]
        return run_atoll("import", "--input", model, "--output", self.at("llama-for-atoll"))

    def exported(self):
        """A run and a model made of it, with its tokenizer."""
        self.point(RUN, self.shared.finished_run())
        run_atoll("export", "--dir", self.at(RUN), "--output", self.at("my-model"),
                  "--tokenizer", "bytes")

    def own_trainer(self):
        shutil.copy(os.path.join(SOURCE, "worker", "python", "examples", "linear_numpy.py"),
                    self.at("train.py"))
        os.makedirs(self.at("my-data"))
        shutil.copy(self.shared.text, self.at("my-data"))

    def classifier(self):
        """A TorchScript file and its data."""
        subprocess.run([TORCHSCRIPT_FILE, self.at("model.pt")], check=True)
        os.makedirs(self.at("data"))
        rows = 400
        replace(self.at("data/images.npy"),
                npy_bytes("F32", [rows, 6, 6], [n % 7 / 7 for n in range(36 * rows)]))
        replace(self.at("data/labels.npy"),
                npy_bytes("I64", [rows], [n % 4 for n in range(rows)]))

    def quickstart_has_ended(self):
        """What scripts/quickstart leaves in build/quickstart."""
        self.point("build/quickstart", self.shared.finished_run())

    # -- a run that goes on

    def start_live(self, data):
        """A run on this text in build/quickstart, which does not end by itself."""
        self.live = Cluster(text=quickstart_config(path=data, rounds=1000000))
        self.live.wait_version(2)
        self.point("build/quickstart", self.live.dir)

    def share_live(self, version=2):
        """The same, of which other pages have seen this reader's orders, or will."""
        self.live = self.shared.live_run()
        self.live.wait_version(version)
        self.point("build/quickstart", self.live.dir)

    def start_again(self, *names):
        """Starts what was killed, by the commands in peers.json."""
        for name in names:
            self.live.restart(name)
        wait_for("a coordinator that answers", self.live.status)

    def close(self):
        if self.live is not None and self.live is not self.shared.live:
            self.live.close()
        shutil.rmtree(self.top, ignore_errors=True)
