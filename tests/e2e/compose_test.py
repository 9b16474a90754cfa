"""Would break: docker-compose.yml, what configs/docker/failover.yml lays over it, or a file that
`atoll experiment compose` writes, is none that docker compose takes; the containers' configs are
none that the daemons take; a peer has a config of its own; a secret or a right that it does not
need; the written file and ours drift apart; or the image lacks a source that its build needs, or
compiles it again after an edit of what is not compiled.

Nothing is started: scripts/check-docker does that. Where docker-compose is there it judges, else
the structure alone is looked at.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest

try:
    import yaml
except ImportError:
    print("skipped: needs the Debian package python3-yaml")
    sys.exit(77)

BIN = os.environ["ATOLL_BIN"]
SOURCE = os.environ["ATOLL_SOURCE"]
CONFIGS = os.path.join(SOURCE, "configs", "docker")

EXPERIMENT = """
[experiment]
name = "a town's letters"
seeds = [3]
parties = 4

[data]
path = "letters$1.txt"

[partition]
scheme = "dirichlet"
alpha = 0.5
label = "first_letter"
min_samples = 1

[model]
kind = "gpt"
layers = 1
heads = 1
width = 16
context = 16

[run]
rounds = 3

[links]
default = {up = "100Mbit", down = "100Mbit", delay = "5ms"}
"party-2" = {up = "2Mbit", down = "8Mbit", delay = "40ms", loss = 0.5}
"""


# Of a peer's config: what the entrypoint replaces by that peer's own.
PLACES = ('id = "peer-0"', 'advertise = "HOST:', 'region = "REGION"', 'path = "/parties/PARTY"')


def atoll(*words, code=0):
    done = subprocess.run([os.path.join(BIN, "atoll"), *words], capture_output=True, text=True,
                          check=False)
    if done.returncode != code:
        raise AssertionError(f"atoll {' '.join(words)}: {done.returncode}\n{done.stdout}"
                             f"{done.stderr}")
    return done.stdout + done.stderr


def read(path):
    with open(path, encoding="utf-8") as text:
        return text.read()


def write(path, text):
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)


def loaded(path):
    return yaml.safe_load(read(path))


def judge(test, path, *laid_over):
    """By the program itself, with and without profiles."""
    if shutil.which("docker-compose") is None:
        return
    more = [word for one in laid_over for word in ("-f", one)]
    for profiles in ((), ("--profile", "chaos", "--profile", "metrics", "--profile", "privacy")):
        done = subprocess.run(["docker-compose", "-f", path, *more, *profiles, "config"],
                              capture_output=True, text=True, check=False,
                              env={**os.environ, "ATOLL_DASHBOARD": "0",
                                   "ATOLL_DASHBOARD_2": "0"})
        test.assertEqual(done.returncode, 0, done.stderr)
        test.assertIn("peer", yaml.safe_load(done.stdout)["services"])


class Composed(unittest.TestCase):
    def check_structure(self, path):
        file = loaded(path)
        services, volumes = file["services"], set(file["volumes"])
        self.assertEqual(len([name for name in services if name.startswith("peer")]), 1,
                         "one service is all peers")
        networks = set(file["networks"])
        self.assertTrue(file["networks"]["run"]["internal"])
        for name, service in services.items():
            self.assertIn("image", service, name)
            self.assertEqual(service["cap_drop"], ["ALL"], name)
            for port in service.get("ports", ()):
                self.assertTrue(port.startswith("127.0.0.1:"), f"{name} publishes {port} to all")
            for mount in service.get("volumes", ()):
                if isinstance(mount, dict):
                    self.assertTrue(mount["read_only"], f"{name} may write {mount}")
                elif not mount.startswith("/"):
                    self.assertIn(mount.split(":")[0], volumes, name)
            self.assertLessEqual(set(service.get("networks", ())), networks, name)
            self.assertFalse(service.get("privileged", False))
            self.assertNotIn("docker.sock", str(service))
        peer = services["peer"]
        self.assertNotIn("container_name", peer, "it could not be scaled")
        self.assertEqual(peer["depends_on"], {"coordinator": {"condition": "service_healthy"}})
        self.assertEqual(set(peer["networks"]), {"run"})
        # A named volume would be one for all peers.
        self.assertIn("/data", peer["volumes"])
        self.assertNotIn("cap_add", services["coordinator"])
        return services

    def test_ours(self):
        path = os.path.join(SOURCE, "docker-compose.yml")
        services = self.check_structure(path)
        judge(self, path)
        lines = services["peer"]["environment"]["ATOLL_LINES"].split()
        self.assertEqual(len({line.split(":")[0] for line in lines}), 2, "two regions")
        with tempfile.TemporaryDirectory() as folder:
            coordinator = os.path.join(folder, "coordinator.toml")
            for added in ("", read(os.path.join(CONFIGS, "privacy.toml"))):
                write(coordinator, read(os.path.join(CONFIGS, "coordinator.toml")) + added)
                atoll("config", "validate", "--for", "coordinator", coordinator)
            printed = atoll("config", "print", coordinator)
            self.assertIn(f"peers = {services['peer']['scale']}\n", printed)
        # What the entrypoint puts its own in the place of.
        for word in PLACES:
            self.assertIn(word, read(os.path.join(CONFIGS, "peer.toml")))

    def test_failover(self):
        """What configs/docker/failover.yml lays over ours: etcd, and a second coordinator."""
        base = loaded(os.path.join(SOURCE, "docker-compose.yml"))
        path = os.path.join(CONFIGS, "failover.yml")
        over = loaded(path)
        judge(self, os.path.join(SOURCE, "docker-compose.yml"), path)
        services = over["services"]
        volumes = set(over["volumes"]) | set(base["volumes"])
        told = {tuple(sorted((key, value) for key, value in service["environment"].items()
                             if key in ("ATOLL_COORDINATORS", "ATOLL_ETCD")))
                for service in services.values()}
        self.assertEqual(1, len(told), "they are told different names")
        names = dict(told.pop())
        coordinators = names["ATOLL_COORDINATORS"].split()
        members = names["ATOLL_ETCD"].split()
        self.assertEqual(set(services), {*coordinators, *members, "etcd-keys", "peer"})
        disks = []
        for name, service in services.items():
            if name not in base["services"]:
                self.assertIn("image", service, name)
                self.assertEqual(service["cap_drop"], ["ALL"], name)
                self.assertEqual(service["security_opt"], ["no-new-privileges"], name)
                self.assertFalse(set(service.get("networks", ())) - set(base["networks"]), name)
            if name in coordinators + members:
                self.assertEqual(service["hostname"], name)
                self.assertEqual(service["depends_on"]["etcd-keys"]["condition"],
                                 "service_completed_successfully")
                self.assertIn("etcd-keys:/etcd:ro", service["volumes"])
                disks += [one for one in service["volumes"] if one.endswith(":/data")]
            for port in service.get("ports", ()):
                self.assertTrue(port.startswith("127.0.0.1:"), f"{name} publishes {port} to all")
            for mount in service.get("volumes", ()):
                self.assertIn(mount.split(":")[0], volumes, name)
        self.assertEqual(len(set(disks)), len(members) + len(coordinators) - 1)  # one is ours
        first, second = (services[name] for name in coordinators)
        ours = base["services"]["coordinator"]
        for key in ("image", "command", "restart", "healthcheck", "cap_drop", "stop_grace_period"):
            self.assertEqual(ours[key], second[key], key)
        # Keys go from the first to the others.
        self.assertIn("keys:/keys", first["volumes"])
        self.assertIn("keys:/keys:ro", second["volumes"])
        environment = {**os.environ, **names, "ATOLL_SETTINGS": CONFIGS}
        addresses = [f"{name}:7070" for name in coordinators]
        with tempfile.TemporaryDirectory() as folder:
            for number, name in enumerate(coordinators):
                text = self.entrypoint(environment, "coordinator-config", name)
                config = tomllib.loads(text)["coordinator"]
                self.assertEqual(config["address"], addresses[number])
                self.assertEqual(config["others"], addresses[1 - number])
                self.assertEqual(config["etcd"], ",".join(f"{one}:2379" for one in members))
                written = os.path.join(folder, "coordinator.toml")
                write(written, text)
                atoll("config", "validate", "--for", "coordinator", written)
            peer = tomllib.loads(self.entrypoint(environment, "config", "3", __file__))
            self.assertEqual([peer["coordinator"]["address"], peer["coordinator"]["others"]],
                             addresses)
        self.assertEqual(self.entrypoint({**os.environ, "ATOLL_SETTINGS": CONFIGS},
                                         "coordinator-config", "coordinator"),
                         read(os.path.join(CONFIGS, "coordinator.toml")))

    def entrypoint(self, environment, *words):
        done = subprocess.run(["sh", os.path.join(CONFIGS, "entrypoint"), *words],
                              capture_output=True, text=True, check=False, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_written(self):
        ours = loaded(os.path.join(SOURCE, "docker-compose.yml"))
        with tempfile.TemporaryDirectory() as folder:
            experiment = os.path.join(folder, "letters.toml")
            write(experiment, EXPERIMENT)
            out = os.path.join(folder, "made", "town.yml")
            refused = atoll("experiment", "compose", experiment, "--out", out, code=2)
            self.assertIn("letters$1.txt", refused)
            write(os.path.join(folder, "letters$1.txt"), "dear all\n" * 400)
            atoll("experiment", "compose", experiment, "--out", out)
            # Again it is the same, and what somebody has changed is not overwritten.
            atoll("experiment", "compose", experiment, "--out", out)
            services = self.check_structure(out)
            judge(self, out)
            self.compare(ours["services"], services)
            self.assertEqual(services["peer"]["scale"], 4)
            lines = services["peer"]["environment"]["ATOLL_LINES"].split()
            self.assertEqual(lines[0], ":100Mbit:100Mbit:5ms")
            self.assertEqual(lines[1], ":2Mbit:8Mbit:40ms:0.005")
            self.assertEqual(len(lines), 4)
            mounts = [mount for mount in services["coordinator"]["volumes"]
                      if isinstance(mount, dict)]
            self.assertIn("letters$$1.txt", str(mounts), "Compose would look for a variable")
            self.assertNotIn("letters", str(services["peer"]["volumes"]),
                             "a peer sees the others' data")
            configs = os.path.join(folder, "made", "town")
            self.assertEqual(sorted(os.listdir(configs)),
                             ["coordinator.toml", "experiment.toml", "peer.toml"])
            atoll("config", "validate", "--for", "coordinator",
                  os.path.join(configs, "coordinator.toml"))
            for word in PLACES:
                self.assertIn(word, read(os.path.join(configs, "peer.toml")))
            self.check_own_configs(configs, hosted="", firsts=[1, 1, 1])
            write(experiment, EXPERIMENT.replace("parties = 4", "parties = 12\nhosts = 3"))
            hosting = os.path.join(folder, "made", "hosting.yml")
            atoll("experiment", "compose", experiment, "--out", hosting)
            hosted = loaded(hosting)["services"]["peer"]["environment"]["ATOLL_HOSTED"]
            self.check_own_configs(os.path.join(folder, "made", "hosting"), hosted, [1, 5, 9])
            write(experiment, EXPERIMENT)
            with open(out, "a", encoding="utf-8") as changed:
                changed.write("# mine\n")
            refused = atoll("experiment", "compose", experiment, "--out", out, code=2)
            self.assertIn("remove it, or name another --out", refused)

    def check_own_configs(self, configs, hosted, firsts):
        """Each container makes a config of the common one that the daemon takes, and hosts number
        their parties through."""
        for index, first in enumerate(firsts, 1):
            done = subprocess.run(
                ["sh", os.path.join(CONFIGS, "entrypoint"), "config", str(index), configs],
                capture_output=True, text=True, check=False,
                env={**os.environ, "ATOLL_SETTINGS": configs, "ATOLL_HOSTED": hosted,
                     "ATOLL_LINES": "north:::"})
            self.assertEqual(done.returncode, 0, done.stderr)
            path = os.path.join(configs, "own.toml")
            # The coordinator's container makes that one.
            write(path, done.stdout.replace("/parties/data/validation.txt", __file__))
            atoll("config", "validate", "--for", "peer", path)
            os.remove(path)
            self.assertIn(f'id = "peer-{index}"', done.stdout)
            self.assertIn(f"\nfirst = {first} ", done.stdout)

    def test_values_go_to_their_keys_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            common = read(os.path.join(CONFIGS, "peer.toml"))
            write(os.path.join(folder, "peer.toml"), common.replace(
                "/parties/data/validation.txt", "/parties/HOST/REGION/peer-0/kept.txt"))
            done = subprocess.run(
                ["sh", os.path.join(CONFIGS, "entrypoint"), "config", "3", "/parties/R&D|x.txt"],
                capture_output=True, text=True, check=True,
                env={**os.environ, "ATOLL_SETTINGS": folder, "ATOLL_LINES": "R&D|east:::"})
            for line in ('validation = "/parties/HOST/REGION/peer-0/kept.txt"', 'id = "peer-3"',
                         'path = "/parties/R&D|x.txt"', 'region = "R&D|east"'):
                self.assertIn(f"\n{line}", done.stdout)

    def test_nobody_opens_another_ones_token(self):
        def entrypoint(root, *words, code=0, **more):
            done = subprocess.run(["sh", os.path.join(CONFIGS, "entrypoint"), *words],
                                  capture_output=True, text=True, check=False,
                                  env={**os.environ, "ATOLL_ROOT": root}, **more)
            self.assertEqual(done.returncode, code, done.stderr)
            return done.stdout if code == 0 else done.stderr
        with tempfile.TemporaryDirectory() as folder:
            shared = os.path.join(folder, "invitations")
            os.mkdir(shared)
            roots = [os.path.join(folder, name) for name in ("one", "two")]
            for root in roots:
                for place in ("data", "run/atoll"):
                    os.makedirs(os.path.join(root, place))
                os.symlink(shared, os.path.join(root, "invitations"))
            numbers = [entrypoint(root, "claim").strip() for root in roots]
            self.assertEqual(numbers, ["1", "2"])
            self.assertEqual(entrypoint(roots[0], "claim").strip(), "1", "for ever after")
            sealed = entrypoint(roots[0], "seal", "1", input="atoll-join-secret")
            self.assertNotIn("secret", sealed)
            write(os.path.join(shared, "1", "token"), sealed)
            self.assertEqual(entrypoint(roots[0], "open", "1"), "atoll-join-secret")
            self.assertIn("is not sealed for this container",
                          entrypoint(roots[1], "open", "1", code=1))

    def test_what_containers_cannot_do(self):
        with tempfile.TemporaryDirectory() as folder:
            experiment = os.path.join(folder, "letters.toml")
            write(os.path.join(folder, "letters$1.txt"), "dear all\n" * 400)
            write(experiment, EXPERIMENT.replace("parties = 4", 'parties = 4\nramp = "2:3"'))
            refused = atoll("experiment", "compose", experiment, "--out",
                            os.path.join(folder, "a.yml"), code=2)
            self.assertIn("ramp", refused)
            write(experiment, EXPERIMENT)
            refused = atoll("experiment", "compose", experiment, "--out",
                            os.path.join(folder, "a.txt"), code=2)
            self.assertIn(".yml", refused)
            refused = atoll("experiment", "compose", experiment, "--setting", "a town's leters",
                            "--out", os.path.join(folder, "a.yml"), code=2)
            self.assertIn("a town's letters", refused)

    def compare(self, ours, theirs):
        """But for what is an experiment's own they are the same."""
        own = {"build", "volumes", "environment", "scale", "profiles"}
        self.assertEqual(set(ours) - {"privacy"}, set(theirs))
        for name, service in theirs.items():
            for key in set(ours[name]) | set(service):
                if key not in own:
                    self.assertEqual(ours[name].get(key), service.get(key), f"{name}: {key}")
            shared = [mount for mount in service.get("volumes", ()) if isinstance(mount, str)]
            self.assertEqual(ours[name].get("volumes", []), shared, name)


class Image(unittest.TestCase):
    """The stage of the Dockerfile that compiles: (word, rest of the line) of each instruction."""

    def setUp(self):
        text = read(os.path.join(CONFIGS, "Dockerfile")).replace("\\\n", " ")
        stage = re.search(r"(?ms)^FROM \S+ AS build$(.*?)^FROM ", text).group(1)
        self.steps = [tuple(line.split(None, 1)) for line in stage.splitlines()
                      if line and not line.startswith("#")]
        # The first that builds: what stands before it is what a compilation hangs on.
        self.compiles = next(i for i, (word, rest) in enumerate(self.steps)
                             if word == "RUN" and "cmake --build" in rest)

    def copied(self, steps):
        """The sources of COPY, without a slash behind them."""
        return {source.rstrip("/") for word, rest in steps if word == "COPY"
                for source in rest.split()[:-1]}

    def rooms(self):
        """The folders that the build goes into."""
        text = read(os.path.join(SOURCE, "CMakeLists.txt"))
        return set(re.findall(r"add_subdirectory\((\w+)\)", text))

    def test_only_what_is_compiled_stands_before_the_compiler(self):
        before = self.copied(self.steps[:self.compiles])
        scripts = {f"scripts/{name}" for name in ("common.sh", "install-packages", "packages.txt")}
        self.assertEqual(before, scripts | (self.rooms() - {"tests"}) |
                         {"CMakeLists.txt", "CMakePresets.json", "cmake/*.cmake"})
        self.assertIn("-DATOLL_BUILD_TESTS=OFF", self.steps[self.compiles][1])

    def test_nothing_that_is_compiled_is_copied_again(self):
        copies = [source for word, rest in self.steps if word == "COPY"
                  for source in rest.split()[:-1]]
        self.assertEqual(len(copies), len(set(copies)))
        for source in copies:
            self.assertNotIn(source, (".", "./", "cmake", "cmake/", "scripts", "scripts/"))

    def test_all_that_is_packaged_is_there(self):
        copied = self.copied(self.steps)
        self.assertLessEqual(self.rooms(), copied)
        wanted = set()
        for name in ("AtollInstall.cmake", "AtollPackages.cmake"):
            text = read(os.path.join(SOURCE, "cmake", name))
            wanted |= set(re.findall(r"\$\{PROJECT_SOURCE_DIR\}/([\w./-]+)", text))
        self.assertIn("configs/systemd", wanted)
        # And the files of ours that the stage's own commands name.
        for word, rest in self.steps:
            if word == "RUN":
                wanted |= set(re.findall(r"(?<![\w/])(?:scripts|configs)/[\w./-]+", rest))
        for path in wanted:
            path = path.rstrip("/")
            self.assertTrue(os.path.exists(os.path.join(SOURCE, path)), path)
            self.assertTrue(any(path == one or path.startswith(one + "/") for one in copied),
                            f"{path} is not copied")
        for source in copied - {"cmake/*.cmake"}:
            self.assertTrue(os.path.exists(os.path.join(SOURCE, source)), source)


if __name__ == "__main__":
    unittest.main(verbosity=2)
