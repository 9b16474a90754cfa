"""Would fail if a command in the documentation, or an example in a program's help, did not run as
it is printed.

The commands of every page are typed into one shell, in order, in a home and a checkout that are
thrown away. What cannot be typed here stands in NOT_TYPED with the reason, and its options are
looked up in the program's help. What stands for something else is replaced as STANDS_FOR says.
"""

import fnmatch
import glob
import json
import os
import re
import socket
import subprocess
import unittest

import markdown
from cluster import BIN, free_port, wait_for
from documents_world import SOURCE, Shared, World, write
from shell import Shell

HELP = "help"  # the page of all examples in the programs' help
VOLUNTEERING = "docs/volunteering.md"

BUILDS = "it installs and builds for minutes: scripts/check runs it"
CONTAINERS = "needs a Docker engine"
MINUTES = "a measurement of minutes"
CHURN = "minutes: the ctest e2e_churn runs it for seconds"
LABORATORY = "needs root and a network of its own: the ctests wan_lab, wan_train, wan_exchange"
TOKEN = "needs somebody's token: README.md's is typed"
ELSEWHERE = "needs a run on other machines: the ctest e2e_branch asks one on loopback"
CTEST = "a ctest of many seconds by itself"
LOOP = "it builds, or tests what was built, for minutes: scripts/check does both"
CROSS = "fetches a compiler and libraries of another processor, and builds for many minutes"
SERVICE = "needs root and systemd: scripts/package-check types it in a Debian of its own"
SERVICE_OF_A_USER = "needs systemd with a user's manager"
CLUSTER = "needs a cluster: the ctest e2e_clusters checks what is applied"
ACCOUNTANT = "needs dp-accounting: the page's table is held to the program by a unit test"
WHEEL = "fetches PyTorch and builds for minutes"
HUB = "needs PyTorch and transformers: tests/bench/huggingface_check.py does it with them"
WHEEL = "needs a wheel and PyTorch: scripts/wheel-check types it in a system of its own"
RELEASE = "needs a release, and installs into the home folder: scripts/wheel-check does it"
WINDOWS = "needs Windows with WSL2"
RANKS = "needs PyTorch and two machines: tests/bench/sharding_check.py has two groups on loopback"

BENCHMARK = "ATOLL_BIN=build/release/bin python3 tests/bench/"

# Page, how the command begins, why it is not typed.
NOT_TYPED = (
    ("README.md", "git clone <this repository>", "fetches: the checkout is there already"),
    ("README.md", "scripts/quickstart   ", BUILDS),
    ("README.md", "scripts/check  ", BUILDS),
    ("README.md", "scripts/quickstart --data", BUILDS),
    ("README.md", "python3 -m venv", WHEEL),
    ("README.md", "pip install", WHEEL),
    ("README.md", "atoll-torch", WHEEL),
    ("README.md", "atoll-quickstart", WHEEL),
    ("README.md", "atoll bench churn", CHURN),
    ("README.md", "scripts/docker-base", "needs root and a Debian mirror"),
    ("README.md", "docker compose up", CONTAINERS),
    ("README.md", "scripts/check-docker", CONTAINERS),
    ("CONTRIBUTING.md", "scripts/install-packages", BUILDS),
    ("CONTRIBUTING.md", "cmake --preset", LOOP),
    ("CONTRIBUTING.md", "cmake --build", LOOP),
    ("CONTRIBUTING.md", "build/dev/tests/membership_test", LOOP),
    ("CONTRIBUTING.md", "ctest", LOOP),
    ("CONTRIBUTING.md", "ATOLL_PAGE=docs/data.md ctest", LOOP),
    ("CONTRIBUTING.md", "python3 tests/tidy/tidy.py", CTEST),
    ("CONTRIBUTING.md", "scripts/check", BUILDS),
    ("CONTRIBUTING.md", "atoll config print --markdown",
     "would write into the checkout itself: a unit test compares the page"),
    ("docs/workers.md", "python3 -m venv build/torch", WHEEL),
    ("docs/workers.md", "build/torch/bin/pip install", WHEEL),
    ("docs/workers.md", "cmake --preset release -DATOLL_TORCH", WHEEL),
    ("docs/workers.md", "cmake --build --preset release", WHEEL),
    ("docs/coordinators.md", "docker compose", CONTAINERS),
    ("docs/privacy.md", "python3 tests/bench/accountant_table.py", ACCOUNTANT),
    ("docs/experiments.md", "scripts/docker-base", "needs root and a Debian mirror"),
    ("docs/experiments.md", "docker compose up", CONTAINERS),
    ("docs/experiments.md", "docker compose build", CONTAINERS),
    ("docs/experiments.md", "atoll experiment run configs/experiments/links.toml --in lab",
     LABORATORY),
    ("docs/experiments.md", "atoll experiment run configs/experiments/links.toml --in compose",
     CONTAINERS),
    ("docs/experiments.md", "docker compose --profile", CONTAINERS),
    ("docs/experiments.md", "COMPOSE_PROFILES=privacy docker compose up", CONTAINERS),
    ("docs/experiments.md", "docker compose down", CONTAINERS),
    ("docs/experiments.md", "docker compose -f", CONTAINERS),
    ("docs/experiments.md", "scripts/check-docker", CONTAINERS),
    ("tests/wan/README.md", "atoll experiment run configs/experiments/links.toml", LABORATORY),
    ("docs/arm64.md", "scripts/arm64", CROSS),
    ("docs/arm64.md", "scripts/package --arm64", CROSS),
    ("docs/arm64.md", "scripts/wheel --arm64", CROSS),
    ("docs/benchmarks.md", "tests/wan/lab check", LABORATORY),
    ("docs/benchmarks.md", "atoll bench exchange --topology", LABORATORY),
    ("docs/benchmarks.md", "tests/wan/lab train", LABORATORY),
    ("docs/benchmarks.md", "atoll bench churn", CHURN),
    ("docs/benchmarks.md", "build/release/tests/sim_planted_test", CTEST),
    ("docs/benchmarks.md", "ATOLL_SIZE_PEERS=1000 build/release/tests/sim_size_test", CTEST),
    ("docs/benchmarks.md", f"{BENCHMARK}experts_benchmark.py", MINUTES),
    ("docs/benchmarks.md", f"{BENCHMARK}lora_ranks_benchmark.py", MINUTES),
    ("docs/benchmarks.md", f"{BENCHMARK}fp8_codecs.py",
     "trains, with a program that is built for it alone"),
    ("docs/benchmarks.md", "cmake --build --preset release --target fp8_codecs", LOOP),
    ("docs/benchmarks.md", f"{BENCHMARK}history_benchmark.py", MINUTES),
    ("docs/benchmarks.md", "git clone https://github.com/karpathy/nanoGPT", "fetches"),
    ("docs/benchmarks.md", f"{BENCHMARK}join_benchmark.py", MINUTES),
    ("docs/benchmarks.md", f"{BENCHMARK}cap_benchmark.py", MINUTES),
    ("docs/benchmarks.md", f"{BENCHMARK}modes_benchmark.py", MINUTES),
    ("docs/benchmarks.md", f"{BENCHMARK}data_parallel_benchmark.py", MINUTES),
    ("docs/benchmarks.md", f"{BENCHMARK}nanogpt_benchmark.py", MINUTES),
    ("docs/benchmarks.md", f"{BENCHMARK}flower_benchmark.py", "needs Flower and PyTorch"),
    ("docs/benchmarks.md", f"{BENCHMARK}step_benchmark.py", "needs PyTorch of its own"),
    ("docs/benchmarks.md", f"{BENCHMARK}devices_benchmark.py", MINUTES),
    ("docs/benchmarks.md", f"{BENCHMARK}equal_tokens_benchmark.py", MINUTES),
    ("docs/benchmarks.md", f"{BENCHMARK}liars_benchmark.py", MINUTES),
    ("docs/benchmarks.md", f"{BENCHMARK}flood_benchmark.py", MINUTES),
    ("docs/benchmarks.md", f"{BENCHMARK}session_load_benchmark.py", MINUTES),
    ("docs/benchmarks.md", f"{BENCHMARK}memory_benchmark.py", MINUTES),
    ("docs/benchmarks.md", "ATOLL_AUDIT_SEEDS=200 build/release/tests/sim_audit_test", CTEST),
    ("docs/experiments.md", "atoll experiment run configs/experiments/dirichlet.toml", MINUTES),
    ("docs/experiments.md", "atoll experiment report configs/experiments/dirichlet.toml",
     "needs what the line above makes: the ctest e2e_experiment makes one"),
    (HELP, "atoll experiment run configs/experiments/dirichlet.toml", MINUTES),
    (HELP, "atoll experiment report configs/experiments/dirichlet.toml",
     "needs what `experiment run` makes: the ctest e2e_experiment makes one"),
    ("docs/guarantees.md", "ATOLL_CRASH_SCENARIOS=20 build/release/tests/sim_crash_test", CTEST),
    ("docs/huggingface.md", "python3 -m venv", HUB),
    ("docs/huggingface.md", "~/atoll-python/bin/pip", HUB),
    ("docs/huggingface.md", "atoll export", HUB),
    ("docs/huggingface.md", "atoll-hf-worker export", HUB),
    ("docs/huggingface.md", "exec torchrun", RANKS),
    ("docs/huggingface.md", "while true", RANKS),
    ("docs/install.md", "python3 -m venv", WHEEL),
    ("docs/install.md", "pip install", WHEEL),
    ("docs/install.md", "atoll-torch", WHEEL),
    ("docs/install.md", "atoll-quickstart", WHEEL),
    ("docs/install.md", "sh install.sh", RELEASE),
    ("docs/install.md", "openssl pkey", RELEASE),
    ("docs/install.md", "atolld join", TOKEN),
    ("docs/install.md", "mkdir -p ~/.config/atoll", SERVICE_OF_A_USER),
    ("docs/install.md", "systemctl --user", SERVICE_OF_A_USER),
    ("docs/install.md", "loginctl", SERVICE_OF_A_USER),
    ("docs/install.md", "openssl genpkey", BUILDS),
    ("docs/install.md", "scripts/arm64", CROSS),
    ("docs/install.md", "scripts/release", BUILDS),
    ("docs/kubernetes.md", "docker build", CONTAINERS),
    ("docs/kubernetes.md", "kubectl", CLUSTER),
    ("docs/kubernetes.md", "for peer in peer-0 peer-1", CLUSTER),
    ("docs/operations.md", "sudo apt install", SERVICE),
    ("docs/operations.md", "sudo -u atoll atolld join", SERVICE),
    ("docs/operations.md", "sudo ln -s /var/lib/atoll", SERVICE),
    ("docs/operations.md", "sudo systemctl enable", SERVICE),
    ("docs/sizing.md", f"{BENCHMARK}worker_memory.py", MINUTES),
    ("docs/slurm.md", "for rank in 0 1", ELSEWHERE),
    ("docs/slurm.md", "cd ~/slurm && sbatch", CLUSTER),
    ("docs/training.md", f"{BENCHMARK}branch_benchmark.py", MINUTES),
    ("docs/training.md", f"{BENCHMARK}nanogpt_benchmark.py", MINUTES),
    ("docs/training.md", "atoll run branch --from coordinator.example", ELSEWHERE),
    ("docs/windows.md", "sudo apt update", WINDOWS),
    ("docs/windows.md", "cp /mnt/c/", WINDOWS),
    ("docs/windows.md", "python3 -m venv", WHEEL),
    ("docs/windows.md", "pip install", WHEEL),
    ("docs/windows.md", "atoll-torch", WHEEL),
    ("docs/windows.md", "atoll check --token-file", TOKEN),
    ("docs/windows.md", "atolld join", TOKEN),
    ("docs/windows.md", "atoll limits set", TOKEN),
    ("docs/windows.md", "atoll pause", TOKEN),
    (VOLUNTEERING, "atoll check --token-file", TOKEN),
    (VOLUNTEERING, "atolld join", TOKEN),
    ("tests/wan/README.md", "$LAB check", LABORATORY),
    ("tests/wan/README.md", "$LAB run", LABORATORY),
    ("tests/wan/README.md", "$LAB drive", LABORATORY),
    ("tests/wan/README.md", "$LAB shell", LABORATORY),
    ("tests/wan/README.md", "$LAB train", LABORATORY),
    ("tests/wan/README.md", "atoll bench exchange --topology", LABORATORY),
    (HELP, "atoll bench churn", CHURN),
    (HELP, "atoll store migrate", "needs etcd: the ctest e2e_migrate moves a run"),
)


# Page, language of a block: nobody types it here. What it says is from the pages that it names.
NOT_OURS = {
    ("docs/windows.md", "powershell"): WINDOWS,
    ("docs/windows.md", "ini"): "the settings of WSL2: the page names Microsoft's own",
}


def own_address():
    """One at which other machines could dial this one, or loopback where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return "127.0.0.1"
        return probe.getsockname()[0]


# Page (or *), what is printed, what is typed in its place: a text, or what a function makes. Sizes
# become smaller, and what only that reader's run, token, machine or folder knows is filled in.
STANDS_FOR = (
    ("README.md", "--peers 4 --rounds 100", "--peers 2 --rounds 3"),
    ("README.md", "--rounds 1000", "--rounds 1000000"),  # it must not end meanwhile
    ("README.md", "$MY_ADDRESS:7070", lambda reader: f"{own_address()}:{free_port()}"),
    ("docs/benchmarks.md", "--peers 3 \\", "--peers 1 \\"),
    ("*", "--elements 16777216", "--elements 65536"),
    ("docs/benchmarks.md", "--seeds=10000", "--seeds=2"),
    ("docs/benchmarks.md", "--seeds=1500", "--seeds=2"),
    ("docs/guarantees.md", "--seeds=1000", "--seeds=2"),
    ("docs/huggingface.md", '"cuda:all" ', '"cpu,cpu" '),
    ("docs/kubernetes.md", "127.0.0.1:7079", lambda reader: f"127.0.0.1:{free_port()}"),
    ("docs/models.md", "# ... what model.toml says, and",
     lambda reader: reader.read("gpt2-for-atoll/model.toml").replace("[model]", "")),
    ("docs/models.md", "# ... the base's shape as model.toml says, and",
     lambda reader: reader.read("llama-for-atoll/model.toml").replace("[model]", "")),
    ("docs/models.md", "# ... what adapters need, as above, and",
     lambda reader: reader.read("llama-for-atoll/model.toml").replace("[model]", "") +
     'base = "llama-for-atoll/model.safetensors"\n'
     f'base_digest = "{reader.found["digest"]}"'),
    ("docs/models.md", 'base_digest = "..."',
     lambda reader: f'base_digest = "{reader.found["digest"]}"'),
    ("docs/training.md", '"cuda:0,cuda:1"', '"cpu,cpu"'),
    ("tests/wan/README.md", "[link.eu-us]",
     '[region.us]\npeers = 1\nrate = "1Gbit"\n[link.eu-us]'),
)

# What commands print that later ones need.
KEPT = {"digest": re.compile(r"\b([0-9a-f]{64})\b")}

# Commands that go on until Ctrl-C. Each is typed in a terminal of its own, and the next command
# follows when this text is in the output.
GOES_ON = {
    "atoll run watch": "round",
    "atoll local --config configs/quickstart.toml --data ~/books --rounds 1000000": "round 2",
    "atolld coordinator": "listening on",
    "atolld peer": "newest version",
    "atolld join": "newest version",
}


# -- what the reader has before a page, and what happens beside a command

def before_readme(reader):
    reader.world.books()
    reader.world.llama_at_home()


def names_for_pids(reader):
    live = reader.world.live
    reader.shell.type(f"PID_OF_A_PEER={live.pid_of('peer-1')} "
                      f"PID_OF_THE_COORDINATOR={live.pid_of('coordinator')} "
                      f"PID_OF_A_WORKER={live.worker_pid('peer-2')}")


def anna_trains(reader):
    log = reader.world.in_home("shared/coordinator/log.txt")
    wait_for("a round with anna's update",
             lambda: re.search("committed by .*anna", text_of(log)), seconds=120)


def before_data(reader):
    reader.world.books()
    reader.world.texts()
    reader.world.tokenizer()


def before_models(reader):
    reader.world.gpt2_and_its_run()
    reader.keep(reader.world.llama_for_atoll())


def before_huggingface(reader):
    reader.world.hub_folder("Qwen3-0.6B")


def before_training(reader):
    reader.world.texts()
    reader.world.exported()
    reader.world.quickstart_has_ended()


def before_workers(reader):
    reader.world.own_trainer()
    reader.world.classifier()


def before_help(reader):
    # As after `atoll local --data docs --dir build/quickstart`, and while it goes on.
    reader.world.share_live(32)  # an example names a state


BEFORE_PAGE = {
    "README.md": before_readme,
    "docs/data.md": before_data,
    "docs/huggingface.md": before_huggingface,
    "docs/metrics.md": lambda reader: reader.world.quickstart_has_ended(),
    "docs/models.md": before_models,
    "docs/operations.md": lambda reader: reader.world.quickstart_has_ended(),
    "docs/training.md": before_training,
    "docs/verify.md": lambda reader: reader.world.quickstart_has_ended(),
    VOLUNTEERING: lambda reader: reader.world.share_live(),
    "docs/workers.md": before_workers,
    HELP: before_help,
}

# Page, how the command begins, what happens before it.
BEFORE_COMMAND = (
    ("README.md", "atoll log verify", lambda reader: reader.world.quickstart_has_ended()),
    ("README.md", "atoll run watch",
     lambda reader: reader.world.start_live(reader.world.in_home("books"))),
    ("README.md", "kill -9 $PID_OF_A_PEER", names_for_pids),
    ("README.md", "atoll run pause",
     lambda reader: reader.world.start_again("coordinator", "peer-1")),
    ("README.md", "atoll token list", anna_trains),
    (HELP, "atolld coordinator", lambda reader: reader.world.live.kill("coordinator")),
    (HELP, "atolld peer", lambda reader: reader.world.live.kill("peer-1")),
)

# Help is not in the order of a day's work. These come last, since the run ends with them.
LAST = ("atoll run stop",)


class Reader:
    """Somebody who types a page's commands."""

    def __init__(self, page, world):
        self.page = page
        self.world = world
        self.found = {}
        self.shell = Shell(world.checkout, world.environment)
        self.terminals = []
        self.stuck = False  # a command did not end: the shell hears no other
        self.used = set()

    def read(self, name):
        with open(self.world.at(name), encoding="utf-8") as source:
            return source.read()

    def keep(self, output):
        for name, pattern in KEPT.items():
            for text in pattern.findall(output):
                self.found[name] = text

    def prepare(self):
        if self.page in BEFORE_PAGE:
            BEFORE_PAGE[self.page](self)

    def typed(self, text):
        for entry in STANDS_FOR:
            page, printed, stands = entry
            if fnmatch.fnmatch(self.page, page) and printed in text:
                self.used.add(entry)
                text = text.replace(printed, stands(self) if callable(stands) else stands)
        return text

    def run(self, command):
        """Returns what is wrong, or None."""
        for entry in BEFORE_COMMAND:
            if entry not in self.used and entry[0] == self.page and begins(command, entry[1]):
                self.used.add(entry)
                entry[2](self)
        typed = self.typed(command.text)
        for begin, until in GOES_ON.items():
            if typed.startswith(begin) and "--backup" not in typed:
                self.used.add(begin)
                return self.run_beside(command, typed, until)
        try:
            code = self.shell.type(typed, seconds=100)
        except TimeoutError as error:
            code = error
            self.stuck = True
        self.keep(self.shell.output)
        if code != 0:
            return told(command, typed, f"ends with {code}", self.shell.output)
        if command.printed is not None and words(command.printed) != words(self.shell.output):
            return told(command, typed, f"does not print what the page has:\n{command.printed}",
                        self.shell.output)
        return None

    def run_beside(self, command, typed, until):
        terminal = Shell(self.world.checkout, self.world.environment)
        self.terminals.append((command, terminal))
        terminal.type("export PATH=$PWD/build/release/bin:$PATH")
        terminal.begin(typed)
        try:
            code = terminal.end(60, until=until)
        except TimeoutError as error:
            code = error
        if code is None:
            return None
        return told(command, typed, f"{code}, without '{until}'", terminal.output)

    def close(self):
        """Returns what is wrong with what still goes on: it ends at Ctrl-C."""
        wrong = []
        for command, terminal in reversed(self.terminals):  # who joined leaves before who leads
            terminal.interrupt()
            try:
                terminal.end(30)
            except TimeoutError as error:
                wrong.append(told(command, command.text, f"Ctrl-C: {error}", terminal.output))
            terminal.close()
        self.shell.close()
        return wrong


def begins(command, text):
    return f"{command.text} ".startswith(text)


def words(text):
    return text.split()


def told(command, typed, what, output=""):
    as_typed = "" if typed == command.text else f"\ntyped as\n  {typed}"
    return f"{command.page}:{command.line}: {what}\n  {command.text}{as_typed}\n{output}"


# -- the programs' help

class Help:
    """Verbs, options and examples of the programs, as they tell them."""

    def __init__(self):
        self.texts = {}  # of each verb, "atoll run show"
        for program in ("atoll", "atolld"):
            self.walk([program])

    def walk(self, call):
        """Takes the help of a verb or a group, and of what it lists."""
        path = " ".join(call)
        text = subprocess.run([os.path.join(BIN, call[0]), *call[1:], "--help"],
                              capture_output=True, text=True, check=True).stdout
        if path in self.texts or not re.search(rf"(?m)^Usage: {path}(\s|$)", text):
            return  # what was listed is no verb: an argument
        self.texts[path] = text
        for listed in re.findall(r"(?m)^  ([a-z][a-z-]*(?: [a-z][a-z-]*)*)(?:  +\S|$)", text):
            verbs = listed.split()
            if verbs[:len(call) - 1] == call[1:]:
                verbs = verbs[len(call) - 1:]  # listed by its whole path
            for length in range(len(verbs)):
                self.walk([*call, *verbs[:length + 1]])

    def is_group(self, verb):
        return any(other.startswith(f"{verb} ") for other in self.texts)

    def examples(self):
        """Of all verbs, as a page's commands."""
        found = []
        for verb, text in self.texts.items():
            after = re.search(r"(?m)^Examples?:?\n((?:  .*\n?)+)", text)
            lines = re.sub(r"(?m)^  ", "", after.group(1)) if after else ""
            block = markdown.Block(f"{verb} --help", 1, "sh", lines)
            found += markdown.commands(block)
        return found

    def wrong_call(self, text):
        """What a command has that no verb knows, or None. Words in capitals, [] and | may stand in
        it, as in a synopsis."""
        call, *rest = text.split()
        verbs = [call]
        while rest and any(f"{verbs[0]} {word}" in self.texts for word in rest[0].split("|")):
            first = verbs[0]
            verbs = [f"{first} {word}" for word in rest.pop(0).split("|")]
        for verb in verbs:
            if verb not in self.texts:
                return f"there is no `{verb}`"
            if self.is_group(verb) and rest and re.match(r"[a-z]", rest[0]):
                return f"there is no `{verb} {rest[0]}`"
            for option in re.findall(r"(?<!\S)\[?(--[a-z][a-z-]*)", " ".join(rest)):
                if option not in self.texts[verb] and option not in ("--help", "--version"):
                    return f"`{verb}` has no {option}"
        return None


def wrong_preset(text):
    """What a call of cmake or ctest names that the build has not: a preset, a target, a test."""
    kind = "testPresets" if text.startswith("ctest --preset") else "buildPresets"
    listed = json.loads(text_of("CMakePresets.json"))[kind]
    presets = {preset["name"] for preset in listed if not preset.get("hidden")}
    for name in re.findall(r"(?:--preset |--test-dir build/)(\S+)", text):
        if name not in presets:
            return f"there is no preset {name}"
    lists = "".join(text_of(path) for room in ("daemon", "worker", "tests") for path in glob.glob(
        os.path.join(SOURCE, room, "**", "CMakeLists.txt"), recursive=True))
    for name in re.findall(r"--target (\S+)", text):
        if f"({name}\n" not in lists and f"({name})" not in lists:
            return f"there is no target {name}"
    for name in re.findall(r"-R e2e_(\w+)", text):
        if not os.path.exists(os.path.join(SOURCE, "tests", "e2e", f"{name}_test.py")):
            return f"there is no test e2e_{name}"
    return None


def wrong_options(command, known):
    """What is wrong with a command that is not typed: its program or one of its options."""
    text = re.sub(r"\s#.*", "", command.text).replace("\\\n", " ")
    call = [word for word in text.split() if not re.match(r"[A-Z_]+=", word)]
    if call[0] == "sudo":
        call = call[3:] if call[1] == "-u" else call[1:]
    if call[0] in ("atoll", "atolld"):
        return known.wrong_call(" ".join(call))
    if call[0] in ("for", "kubectl"):  # what is called in a loop, or in a pod
        called = re.findall(r"(?:^|\n| -- )\s*(atolld? [^>\n]*)", text)
        return next(filter(None, map(known.wrong_call, called)), None)
    if call[0] in ("cmake", "ctest"):
        return wrong_preset(text)
    if call[0] in ("git", "docker", "apt", "cp", "ln", "systemctl", "loginctl", "atoll-hf-worker",
                   "cd", "exec", "while", "mkdir", "pip", "openssl"):
        return None
    if call[:2] == ["python3", "-m"] or call[0].endswith("/bin/pip"):
        return None
    if call[0] == "$LAB":
        call[0] = "tests/wan/lab"
    if call[0] in ("atoll-torch", "atoll-quickstart"):  # that a wheel has
        call[0] = {"atoll-torch": "scripts/bundle/fetch_torch.py",
                   "atoll-quickstart": "scripts/bundle/atoll-quickstart"}[call[0]]
    if call[:2] == ["sh", "install.sh"]:
        call[:2] = ["scripts/bundle/install.sh"]
    program = call[1] if call[0] == "python3" else call[0]
    if program.startswith("build/"):  # of whichever preset
        program = os.path.join(os.path.dirname(BIN), *program.split("/")[2:])
    path = os.path.join(SOURCE, program)
    if not os.path.exists(path):
        return f"there is no {program}"
    options = re.findall(r"(?<!\S)--[a-z][a-z-]+", " ".join(call).split(" -- ")[0])
    if not options:
        return None
    before = ["python3", path] if call[0] == "python3" else [path]
    verb = call[1:2] if program.endswith("lab") else []
    told_help = subprocess.run([*before, *verb, "--help"], capture_output=True, text=True,
                               check=True).stdout
    missing = [option for option in options if option not in told_help]
    return f"{program} has no {missing[0]}" if missing else None


# -- the test

def pages():
    found = {os.path.relpath(path, SOURCE)
             for path in glob.glob(os.path.join(SOURCE, "**", "*.md"), recursive=True)}
    first, last = "README.md", VOLUNTEERING  # its run is the help's too
    return [first, *sorted(page for page in found - {first, last}
                           if not page.startswith("build")), last]


def text_of(page):
    with open(os.path.join(SOURCE, page), encoding="utf-8") as source:
        return source.read()


class DocumentsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.shared = Shared()
        cls.addClassCleanup(cls.shared.close)
        cls.help = Help()
        cls.used = set()

    def check(self, wrong):
        if wrong:
            self.fail("\n\n" + "\n\n".join(wrong))

    def listed(self, page, command):
        """Why it is not typed, or None."""
        for entry in NOT_TYPED:
            if entry[0] == page and begins(command, entry[1]):
                self.used.add(entry)
                return entry[2]
        return None

    def type_page(self, page, steps):
        world = World(self.shared)
        self.addCleanup(world.close)
        reader = Reader(page, world)
        wrong = []
        try:
            if page != "README.md":  # "all pages assume it"
                reader.shell.type("export PATH=$PWD/build/release/bin:$PATH")
            reader.prepare()
            for step in steps:
                try:
                    found = self.take(reader, step)
                except (AssertionError, KeyError, SyntaxError) as error:
                    found = f"{page}:{step.line}: before it can be typed: {error!r}"
                if found is not None:
                    wrong.append(found)
                if reader.stuck:
                    break
        finally:
            wrong += reader.close()
            self.used |= reader.used
        self.check(wrong)

    def take(self, reader, step):
        if isinstance(step, markdown.Command):
            if self.listed(reader.page, step):
                wrong = wrong_options(step, self.help)
                return told(step, step.text, wrong) if wrong else None
            return reader.run(step)
        if step.language == "python":
            compile(step.text, f"{step.page}:{step.line}", "exec")
            return None
        write(reader.world.at("of-the-page.toml"), reader.typed(step.text))
        check = "atoll config validate of-the-page.toml"
        if step.page.startswith("tests/wan/"):
            check = "tests/wan/lab show of-the-page.toml"
        if re.search(r"(?m)^\[experiment\]", step.text):
            # A sketch of all that the file may hold; tests read the files of configs/experiments.
            check = "python3 -c 'import tomllib; tomllib.load(open(\"of-the-page.toml\", \"rb\"))'"
        return reader.run(markdown.Command(step.page, step.line, check, None))

    def steps(self, page):
        """Commands and configs of a page, in order."""
        found = []
        for block in markdown.blocks(page, text_of(page)):
            if block.language in ("sh", "console"):
                found += markdown.commands(block)
            elif block.language in ("toml", "python"):
                found.append(block)
        return found

    def examples(self):
        """Of the programs' help, as the last page's steps."""
        found = self.help.examples()
        last = [one for one in found if one.text.startswith(LAST)]
        return [one for one in found if one not in last] + last

    def test_the_pages(self):
        chosen = os.environ.get("ATOLL_PAGE", "*")  # while one writes a page: this one alone
        for page in [*pages(), HELP]:
            steps = self.examples() if page == HELP else self.steps(page)
            if steps and fnmatch.fnmatch(page, chosen):
                with self.subTest(page):
                    self.type_page(page, steps)
        with self.subTest("the tables"):
            # Would fail if an exception outlived what it was made for.
            entries = {*NOT_TYPED, *STANDS_FOR, *BEFORE_COMMAND, *GOES_ON}
            self.check([f"no page needs the entry {entry}"
                        for entry in entries - self.used if chosen == "*"])

    def test_commands_stand_in_blocks_that_are_typed(self):
        # Would fail if a command were added in a block that no test reads.
        wrong, seen = [], set()
        for page in pages():
            for block in markdown.blocks(page, text_of(page)):
                lines = block.text.splitlines()
                if block.language in ("", None, "text"):
                    wrong += [f"{page}:{number}: begin the block with ```sh: {line}"
                              for number, line in enumerate(lines, block.line)
                              if markdown.TYPED.match(line)]
                elif (page, block.language) in NOT_OURS:
                    seen.add((page, block.language))
                elif block.language not in ("sh", "console", "toml", "python"):
                    wrong.append(f"{page}:{block.line}: nobody checks ```{block.language}")
        wrong += [f"no page needs the entry {entry}" for entry in set(NOT_OURS) - seen]
        self.check(wrong)

    def test_what_a_page_has_is_found(self):
        # Would fail if a command went unseen: the other tests see only what is found here.
        page = ("```sh\n# first\nA=1 atoll local \\\n  --peers 3   # three\n\nfor x in 1 2; do\n"
                "  echo $x\ndone\n```\nText `atoll run\nshow --dir DIR`.\n\n    atoll plan\n\n"
                "```console\n$ echo two\ntwo\n```\n")
        blocks = markdown.blocks("page", page)
        self.assertEqual([("sh", 2), (None, 13), ("console", 16)],
                         [(block.language, block.line) for block in blocks])
        found = [one for at in (0, 2) for one in markdown.commands(blocks[at])]
        self.assertEqual(
            [("A=1 atoll local \\\n  --peers 3   # three", 3, None),
             ("for x in 1 2; do\n  echo $x\ndone", 6, None), ("echo two", 16, "two")],
            [(one.text, one.line, one.printed) for one in found])
        self.assertTrue(markdown.TYPED.match(blocks[1].text))
        self.assertEqual(["atoll run show --dir DIR"],
                         [one.text for one in markdown.spans("page", page)])

    def test_calls_in_the_text_are_of_verbs_and_options_that_exist(self):
        wrong = []
        for page in pages():
            for command in markdown.spans(page, text_of(page)):
                if re.match(r"atolld? ", command.text):
                    found = self.help.wrong_call(command.text)
                    if found:
                        wrong.append(told(command, command.text, found))
        self.check(wrong)

    def test_every_verb_is_on_a_page(self):
        # Would fail if a verb were made that only its own help tells of.
        told_of = " ".join(" ".join(text_of(page).split()) for page in pages())
        verbs = {" ".join(verb.split()[1:]) for verb in self.help.texts
                 if " " in verb and not self.help.is_group(verb)}
        self.check([f"no page has `{verb}`" for verb in sorted(verbs)
                    if not re.search(rf"\batolld? {verb}\b", told_of)])

    def test_every_verb_has_an_example(self):
        without = [verb for verb, text in self.help.texts.items()
                   if not self.help.is_group(verb) and "\nExample" not in text]
        self.check([f"{verb} --help has no example" for verb in without])


if __name__ == "__main__":
    unittest.main()
