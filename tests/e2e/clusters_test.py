"""Would fail if configs/kubernetes were not what a cluster takes: not what kustomize renders or
Kubernetes' schemas allow, with a name, a port or a Secret that nothing has, a right that nobody
needs, or a config that a daemon refuses; or if the scripts around a daemon in a pod or a Slurm job
gave a key to others, let in the wrong peer, or took one that was told to end for one that is done.

No cluster is started. The manifests are rendered by kubectl; the schemas lie in build/kubernetes
(scripts/kubernetes-schemas puts them there), and what needs them skips without.
"""

import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import unittest

try:
    import jsonschema
    import yaml
except ImportError:
    print("skipped: needs the Debian packages python3-yaml and python3-jsonschema")
    sys.exit(77)
if shutil.which("kubectl") is None:
    print("skipped: needs kubectl (Debian: kubernetes-client)")
    sys.exit(77)

BIN = os.environ["ATOLL_BIN"]
SOURCE = os.environ["ATOLL_SOURCE"]
KUBERNETES = os.path.join(SOURCE, "configs", "kubernetes")
SLURM = os.path.join(SOURCE, "configs", "slurm")
SCHEMAS = os.path.join(SOURCE, "build", "kubernetes")

# Each is applied by itself, with what it builds on; the last one is all of it.
SETS = ("coordinators", "peers", "gpu-peers", "outside", "example")
WORKLOADS = ("StatefulSet", "Job")
# Of daemons and etcd; health and metrics of etcd, which any probe may read.
PORTS = {7070, 7071, 7080, 2379, 2380, 2381}


def read(path):
    with open(path, encoding="utf-8") as text:
        return text.read()


def write(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)
    os.chmod(path, mode)


def run(*words, **options):
    return subprocess.run(words, capture_output=True, text=True, check=False, **options)


def for_old_kustomize(folder):
    """Debian 12's kubectl has a kustomize that knows these things by their older names."""
    for path in glob.glob(os.path.join(folder, "*", "kustomization.yaml")):
        said = yaml.safe_load(read(path))
        bases = [one for one in said.get("resources", ()) if one.startswith("../")]
        said["resources"] = [one for one in said.get("resources", ()) if one not in bases]
        said["bases"] = bases
        said["patchesStrategicMerge"] = [one["path"] for one in said.pop("patches", ())]
        write(path, yaml.safe_dump(said))


def render(name):
    """The objects of a set, as the cluster would be told."""
    done = run("kubectl", "kustomize", os.path.join(KUBERNETES, name))
    if done.returncode != 0 and "v1.20." in run("kubectl", "version", "--client").stdout:
        with tempfile.TemporaryDirectory() as folder:
            copy = shutil.copytree(KUBERNETES, os.path.join(folder, "kubernetes"))
            for_old_kustomize(copy)
            done = run("kubectl", "kustomize", os.path.join(copy, name))
    if done.returncode != 0 or "Warning" in done.stderr:
        raise AssertionError(f"kubectl kustomize {name}: {done.stderr}")
    return [one for one in yaml.safe_load_all(done.stdout) if one]


class Objects:
    """What is rendered, once for all tests."""

    sets = {}

    @classmethod
    def of(cls, name):
        if name not in cls.sets:
            cls.sets[name] = render(name)
        return cls.sets[name]


def of_kind(objects, *kinds):
    return [one for one in objects if one["kind"] in kinds]


def pods(objects):
    """(workload, spec of its pods)"""
    return [(one, one["spec"]["template"]["spec"]) for one in of_kind(objects, *WORKLOADS)]


def containers(pod):
    return pod.get("initContainers", []) + pod["containers"]


def environment(container):
    return {one["name"]: one.get("value", "") for one in container.get("env", ())}


class Manifests(unittest.TestCase):
    schemas = {}  # of a release

    def each(self):
        return [(name, Objects.of(name)) for name in SETS]

    def wrong(self, release, one):
        """What the schemas of a release say against an object."""
        folder = os.path.join(SCHEMAS, release)
        group, _, version = one["apiVersion"].rpartition("/")
        if not os.path.isdir(folder):
            self.skipTest("no schemas: scripts/kubernetes-schemas build/kubernetes fetches them")
        if release not in self.schemas:
            self.schemas[release] = json.loads(read(os.path.join(folder, "_definitions.json")))
        schema = {"$defs": self.schemas[release]["$defs"], "$ref": "#/$defs/io.k8s.api." + ".".join(
            [group.split(".")[0] or "core", version, one["kind"]])}
        found = jsonschema.Draft202012Validator(schema).iter_errors(one)
        return [f"{release}: {one['kind']} {one['metadata']['name']}: "
                f"{'.'.join(str(part) for part in error.absolute_path)}: {error.message}"
                for error in found]

    def test_schemas(self):
        for release in ("oldest", "newest"):
            for _, objects in self.each():
                for one in objects:
                    self.assertEqual([], self.wrong(release, one))

    def test_the_schemas_find_what_is_wrong(self):
        # Would fail if the test above compared with nothing.
        job = json.loads(json.dumps(of_kind(Objects.of("gpu-peers"), "Job")[0]))
        job["spec"]["template"]["spec"]["containers"][0]["resources"]["claim"] = 1
        self.assertEqual(1, len(self.wrong("oldest", job)))

    def test_what_is_named_is_there(self):
        page = read(os.path.join(SOURCE, "docs", "kubernetes.md"))
        for name, objects in self.each():
            self.assertIn(f"configs/kubernetes/{name}", page)
            names = {(one["kind"], one["metadata"]["name"]) for one in objects}
            for workload, pod in pods(objects):
                for volume in pod["volumes"]:
                    if "configMap" in volume:
                        self.assertIn(("ConfigMap", volume["configMap"]["name"]), names)
                    for theirs in (volume.get("secret", {}).get("secretName"),
                                   volume.get("persistentVolumeClaim", {}).get("claimName")):
                        if theirs:  # made by whoever applies this: the page says how
                            self.assertIn(f"`{theirs}`", page)
                            self.assertNotIn(("Secret", theirs), names)
                own = {volume["name"] for volume in pod["volumes"]} | {
                    one["metadata"]["name"]
                    for one in workload["spec"].get("volumeClaimTemplates", ())}
                mounted = {mount["name"] for container in containers(pod)
                           for mount in container["volumeMounts"]}
                self.assertEqual(own, mounted)
                service = workload["spec"].get("serviceName", pod.get("subdomain"))
                self.assertIn(("Service", service), names)
                for container in containers(pod):
                    told = environment(container).get("ATOLL_SERVICE", service)
                    self.assertEqual(service, told)

    def test_selectors(self):
        everything = [one for name in SETS for one in Objects.of(name)]
        labels = [one["spec"]["template"]["metadata"]["labels"]
                  for one in of_kind(everything, *WORKLOADS)]
        labels += [{"statefulset.kubernetes.io/pod-name": f"coordinator-{index}"}
                   for index in range(2)]

        def selected(by):
            return [one for one in labels if set(by.items()) <= set(one.items())]

        for one in everything:
            spec = one.get("spec", {})
            if one["kind"] == "Service":
                self.assertTrue(selected(spec["selector"]), one["metadata"])
            if one["kind"] == "StatefulSet":
                self.assertEqual(spec["selector"]["matchLabels"],
                                 spec["template"]["metadata"]["labels"])
            if one["kind"] in ("PodDisruptionBudget", "NetworkPolicy"):
                by = spec["selector" if "selector" in spec else "podSelector"]["matchLabels"]
                self.assertTrue(selected(by), one["metadata"])
                for rule in spec.get("ingress", ()):
                    for source in rule.get("from", ()):
                        self.assertTrue(selected(source["podSelector"]["matchLabels"]))

    def test_ports(self):
        for _, objects in self.each():
            for one, pod in pods(objects):
                ports = {port["containerPort"]: port["name"] for container in pod["containers"]
                         for port in container["ports"]}
                self.assertLessEqual(set(ports), PORTS)
                for service in of_kind(objects, "Service"):
                    if service["spec"]["selector"] == one["spec"]["template"]["metadata"]["labels"]:
                        for port in service["spec"]["ports"]:
                            self.assertIn(port["port"], ports)
                for container in pod["containers"]:
                    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
                        probe = container.get(kind, {})
                        if "httpGet" in probe:
                            self.assertIn(probe["httpGet"]["port"], ports.values())
                        for address in re.findall(r"127\.0\.0\.1:(\d+)", str(probe)):
                            self.assertIn(int(address), ports)
            for service in of_kind(objects, "Service"):
                for port in service["spec"]["ports"]:
                    self.assertIn(port["port"], PORTS)

    def test_no_rights(self):
        for _, objects in self.each():
            for _, pod in pods(objects):
                self.assertTrue(pod["securityContext"]["runAsNonRoot"])
                self.assertEqual("RuntimeDefault", pod["securityContext"]["seccompProfile"]["type"])
                self.assertFalse(pod["automountServiceAccountToken"])
                dockerfile = read(os.path.join(SOURCE, "configs", "docker", "Dockerfile"))
                self.assertIn(f"--uid {pod['securityContext']['runAsUser']} atoll", dockerfile)
                for container in containers(pod):
                    security = container["securityContext"]
                    self.assertEqual(["ALL"], security["capabilities"]["drop"])
                    self.assertTrue(security["readOnlyRootFilesystem"])
                    self.assertFalse(security["allowPrivilegeEscalation"])
                    self.assertNotIn("cpu", container.get("resources", {}).get("limits", {}))
                for container in pod["containers"]:
                    self.assertIn("memory", container["resources"]["limits"])
                    self.assertIn("cpu", container["resources"]["requests"])

    def identity(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        done = run(os.path.join(BIN, "atoll"), "identity", "issue", "--dir", f"{folder.name}/keys",
                   "--run", "books", "--id", "x", "--out", f"{folder.name}/x")
        self.assertEqual(0, done.returncode, done.stderr)
        return f"{folder.name}/x"

    def test_probes_are_verbs_that_exist(self):
        calls = set()
        for _, objects in self.each():
            for _, pod in pods(objects):
                for container in pod["containers"]:
                    self.assertIn("startupProbe", container)
                    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
                        call = container.get(kind, {}).get("exec", {}).get("command")
                        if call:
                            calls.add(tuple(call))
                            self.assertGreater(container[kind]["timeoutSeconds"], 4)
        self.assertEqual(2, len(calls), "a coordinator's and a peer's")
        identity = self.identity()
        for program, verb, of, _, with_, _ in calls:
            # It is understood, and nobody is there.
            done = run(os.path.join(BIN, program), verb, of, "127.0.0.1:1", with_, identity)
            self.assertEqual(1, done.returncode, done.stderr)

    def test_as_many_as_there_are_names(self):
        for name in ("coordinators", "example"):
            objects = Objects.of(name)
            sets = {one["metadata"]["name"]: one for one in of_kind(objects, "StatefulSet")}
            config = tomllib.loads(self.config(objects, "coordinator.toml"))["coordinator"]
            addresses = [config["address"], *config["others"].split(",")]
            self.assertEqual([f"coordinator-{index}.coordinator:7070" for index in
                              range(sets["coordinator"]["spec"]["replicas"])], addresses)
            members = [f"etcd-{index}" for index in range(sets["etcd"]["spec"]["replicas"])]
            self.assertEqual(",".join(f"{one}.etcd:2379" for one in members), config["etcd"])
            call = sets["etcd"]["spec"]["template"]["spec"]["containers"][0]["command"]
            self.assertIn("--initial-cluster=" + ",".join(
                f"{one}=https://{one}.etcd:2380" for one in members), call)
            page = read(os.path.join(SOURCE, "docs", "kubernetes.md"))
            for one in members:
                self.assertIn(f"{one}.etcd", page, "the page's certificates are for other names")
        theirs = tomllib.loads(self.config(Objects.of("peers"), "peer.toml"))["coordinator"]
        self.assertEqual(addresses, [theirs["address"], *theirs["others"].split(",")])

    def test_configs(self):
        for name in ("coordinators", "example"):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "coordinator.toml")
                write(path, self.config(Objects.of(name), "coordinator.toml"))
                done = run(os.path.join(BIN, "atoll"), "config", "validate", "--for", "coordinator",
                           path)
                self.assertEqual(0, done.returncode, done.stderr)

    def config(self, objects, name):
        found = [one["data"][name] for one in of_kind(objects, "ConfigMap") if name in one["data"]]
        self.assertEqual(1, len(found))
        return found[0]

    def test_a_pod_is_told_to_end_in_time(self):
        # A peer drains for failure_timeout at most, and its worker ends.
        unit = read(os.path.join(SOURCE, "configs", "systemd", "atoll-peer.service"))
        seconds = int(re.search(r"TimeoutStopSec=(\d+)", unit).group(1))
        for name, kind in (("peers", "StatefulSet"), ("gpu-peers", "Job")):
            for workload, pod in pods(Objects.of(name)):
                self.assertEqual(kind, workload["kind"])
                self.assertEqual(seconds, pod["terminationGracePeriodSeconds"])
        job = of_kind(Objects.of("gpu-peers"), "Job")[0]["spec"]
        self.assertEqual(job["completions"], job["parallelism"])
        ignored = [rule["onExitCodes"]["values"] for rule in job["podFailurePolicy"]["rules"]
                   if rule["action"] == "Ignore" and "onExitCodes" in rule]
        self.assertEqual([[143]], ignored)


# Stands in for a daemon: writes how it was called and which signals came, and ends as it is told.
STAND_IN = """#!/usr/bin/python3
import os, signal, sys, time
log = os.open(os.environ["STAND_IN"] + "/calls", os.O_WRONLY | os.O_APPEND)
def say(text):
    os.write(log, (text + "\\n").encode())
def ended(number, _):
    say(signal.Signals(number).name)
    time.sleep(0.2)  # another signal would be seen
    os._exit(0)
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, ended)
say(" ".join([os.path.basename(sys.argv[0]), *sys.argv[1:]]))
plan = os.environ["STAND_IN"] + "/plan"
codes = open(plan).read().split()
open(plan, "w").write(" ".join(codes[1:]))
if codes[0] != "wait":
    os._exit(int(codes[0]))
say("waits")
signal.pause()
"""


class Scripts(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = folder.name

    def at(self, *names):
        return os.path.join(self.top, *names)

    def script(self, *words, code=0, **values):
        done = run(*words, env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", **values})
        self.assertEqual(code, done.returncode, done.stdout + done.stderr)
        return done.stderr

    def stand_in(self, *plan, programs=("atolld",)):
        for program in programs:
            write(self.at("bin", program), STAND_IN, 0o755)
        write(self.at("plan"), " ".join(plan))
        write(self.at("calls"), "")
        return {"PATH": f"{self.at('bin')}:{os.environ['PATH']}", "STAND_IN": self.top,
                "ATOLL_BIN": self.at("bin")}

    def calls(self):
        return read(self.at("calls")).splitlines()

    def wait_call(self, text, process):
        while text not in self.calls():
            self.assertIsNone(process.poll(), "it has ended already")

    def keys(self, *arguments):
        done = run(os.path.join(BIN, "atoll"), "identity", "issue", "--dir", self.at("keys"),
                   *arguments)
        self.assertEqual(0, done.returncode, done.stderr)

    def pack(self, folder, path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with tarfile.open(path, "w") as out:
            out.add(folder, ".")

    def check_private(self, *names):
        for name in names:
            self.assertEqual(0, os.stat(self.at(*name.split("/"))).st_mode & 0o077, name)

    def test_a_coordinator(self):
        self.keys("--run", "books", "--id", "x", "--out", self.at("x"))
        self.pack(self.at("keys"), self.at("secret", "keys.tar"))
        prepare = os.path.join(KUBERNETES, "coordinators", "prepare")
        values = {"ATOLL_CONFIG": os.path.join(KUBERNETES, "coordinators"),
                  "ATOLL_KEYS": self.at("secret"), "ATOLL_DATA": self.at("data")}
        addresses = []
        for pod in ("coordinator-0", "coordinator-1", "coordinator-1"):  # and once more
            self.script("sh", prepare, ATOLL_POD=pod, **values)
            config = tomllib.loads(read(self.at("data", "coordinator.toml")))["coordinator"]
            addresses.append((config["address"], config["others"]))
            done = run(os.path.join(BIN, "atoll"), "config", "validate", "--for", "coordinator",
                       self.at("data", "coordinator.toml"))
            self.assertEqual(0, done.returncode, done.stderr)
        names = [f"coordinator-{index}.coordinator:7070" for index in (0, 1)]
        self.assertEqual([(names[0], names[1]), (names[1], names[0]), (names[1], names[0])],
                         addresses)
        self.check_private("data/coordinator/authority/key.pem", "data/coordinator/admin/key.pem")
        told = self.script("sh", prepare, code=2, ATOLL_POD="coordinator-2", **values)
        self.assertIn("no address for coordinator-2", told)

    def peer_config(self):
        """The config with data that is there."""
        write(self.at("config", "peer.toml"),
              read(os.path.join(KUBERNETES, "peer", "peer.toml")).replace("/srv/data", SOURCE +
                                                                          "/LICENSE"))
        return {"ATOLL_CONFIG": self.at("config"), "ATOLL_DATA": self.at("data"),
                "ATOLL_ADMISSION": self.at("admission"), "ATOLL_SERVICE": "gpu-peer",
                "ATOLL_THREADS": "3", "ATOLL_POD": "gpu-peer-1"}

    def test_a_peer_with_an_identity(self):
        self.keys("--run", "books", "--id", "gpu-peer-1", "--out", self.at("identity"))
        values = self.peer_config()
        prepare = os.path.join(KUBERNETES, "peer", "prepare")
        told = self.script("sh", prepare, code=2, **values)
        self.assertIn("nothing for gpu-peer-1", told)
        self.pack(self.at("identity"), self.at("admission", "gpu-peer-1.tar"))
        self.script("sh", prepare, **values)
        self.check_private("data/peer/identity/key.pem")
        done = run(os.path.join(BIN, "atoll"), "config", "validate", "--for", "peer",
                   self.at("data", "peer.toml"))
        self.assertEqual(0, done.returncode, done.stderr)
        config = tomllib.loads(read(self.at("data", "peer.toml")))
        self.assertEqual("gpu-peer-1", config["peer"]["id"])
        self.assertEqual("gpu-peer-1.gpu-peer:7071", config["peer"]["advertise"])
        self.assertEqual(3, config["worker"]["threads"])

    def test_a_peer_with_a_token(self):
        values = self.peer_config()
        write(self.at("admission", "gpu-peer-1"), "token")
        os.makedirs(self.at("data"))
        stands = self.stand_in("0", "1")
        prepare = os.path.join(KUBERNETES, "peer", "prepare")
        self.script("sh", prepare, **{**values, **stands})
        self.assertEqual(1, len(self.calls()))
        self.assertIn("join --token-file - --enrol-only", self.calls()[0])
        self.assertIn("--advertise gpu-peer-1.gpu-peer:7071", self.calls()[0])
        # Refused: the pod's start fails, and is tried again.
        self.script("sh", prepare, code=1, **{**values, **stands})
        # Who is in asks no more.
        write(self.at("data", "peer", "identity", "certificate.pem"), "x")
        self.script("sh", prepare, **{**values, **stands})
        self.assertEqual(2, len(self.calls()))

    def test_a_peer_in_a_job(self):
        take_part = ("sh", os.path.join(KUBERNETES, "peer", "take-part"))
        for code in (0, 1, 2):
            self.script(*take_part, code=code, **self.stand_in(str(code)))
        process = subprocess.Popen(take_part, env={**os.environ, **self.stand_in("wait")})
        self.wait_call("waits", process)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(143, process.wait(20), "the Job would take it for done")
        self.assertEqual(["SIGTERM"], self.calls()[2:])

    # -- Slurm

    def slurm(self, rank, **values):
        text = read(os.path.join(SLURM, "peer.toml"))
        write(self.at("home", "peer.toml"), text.replace("/shared/text", SOURCE + "/LICENSE"))
        return {"ATOLL_HOME": self.at("home"), "SLURM_PROCID": str(rank), "SLURM_LOCALID": "1",
                "SLURM_CPUS_PER_TASK": "5", "ATOLL_PAUSE": "0", **values}

    def peer_of_slurm(self, *plan, rank=2, first="4"):
        values = {**self.slurm(rank, ATOLL_FIRST=first), **self.stand_in(*plan)}
        return ["bash", os.path.join(SLURM, "peer")], values

    def test_slurm_reads_it(self):
        for name in ("peer", "peers.sbatch"):
            self.assertEqual(0, run("bash", "-n", os.path.join(SLURM, name)).returncode)
        lines = read(os.path.join(SLURM, "peers.sbatch")).splitlines()
        body = next(i for i, line in enumerate(lines) if line and not line.startswith("#"))
        self.assertFalse([line for line in lines[body:] if line.startswith("#SBATCH")],
                         "sbatch reads no option below the first command")
        options = dict(re.match(r"#SBATCH --([a-z-]+)=?(.*)", line).groups()
                       for line in lines if line.startswith("#SBATCH"))
        self.assertIn("requeue", options)
        self.assertEqual("append", options["open-mode"])
        self.assertGreaterEqual(int(re.fullmatch(r"B:USR1@(\d+)", options["signal"]).group(1)), 60)

    def test_slurm_lets_in_by_rank(self):
        words, values = self.peer_of_slurm("0", "0")
        self.assertIn("no token", self.script(*words, code=2, **values))
        write(self.at("home", "tokens", "peer-6"), "token", 0o600)
        os.makedirs(self.at("home", "peers", "peer-6", "identity"))
        self.script(*words, **values)
        self.assertIn(f"--token-file {self.at('home')}/tokens/peer-6", self.calls()[0])
        done = run(os.path.join(BIN, "atoll"), "config", "validate", "--for", "peer",
                   self.at("home", "peers", "peer-6", "own.toml"))
        self.assertEqual(0, done.returncode, done.stderr)
        config = tomllib.loads(read(self.at("home", "peers", "peer-6", "own.toml")))
        self.assertEqual("peer-6", config["peer"]["id"])
        self.assertTrue(config["peer"]["advertise"].endswith(":7072"))
        self.assertEqual(self.at("home", "peers", "peer-6"), config["peer"]["dir"])
        self.assertEqual(5, config["worker"]["threads"])

    def test_slurm_keeps_it_running(self):
        write(self.at("home", "peers", "peer-6", "identity", "certificate.pem"), "x")
        words, values = self.peer_of_slurm("1", "1", "0")
        self.script(*words, **values)
        self.assertEqual(3, len(self.calls()))
        words, values = self.peer_of_slurm("1", "2")
        self.script(*words, code=2, **values)
        # Slurm's signals are for all processes of a task.
        for number in (signal.SIGINT, signal.SIGTERM):
            words, values = self.peer_of_slurm("wait", "0")
            process = subprocess.Popen(words, env={**os.environ, **values}, start_new_session=True)
            self.wait_call("waits", process)
            os.killpg(process.pid, number)
            self.assertEqual(143, process.wait(20))
            self.assertEqual([number.name], self.calls()[2:])

    def test_slurm_goes_on_with_a_job(self):
        def job(*plan):
            return {"SLURM_JOB_ID": "17", "SLURM_NTASKS": "2", "SLURM_SUBMIT_DIR": self.top,
                    **self.stand_in(*plan, programs=("srun", "scancel", "scontrol"))}

        script = ("bash", os.path.join(SLURM, "peers.sbatch"))
        for code in (0, 1):
            self.script(*script, code=code, **job(str(code)))
            self.assertEqual(1, len(self.calls()))
        # scancel is to end srun, as the peers' ends do: with 143, or 0 if the run is over.
        for ends, more in (("143", ["scontrol requeue 17"]), ("0", [])):
            values = job("wait", "0", "0")
            write(self.at("bin", "srun"), "#!/bin/sh\necho waits >> $STAND_IN/calls\n"
                  f"while [ ! -e $STAND_IN/over ]; do :; done\nexit {ends}\n", 0o755)
            write(self.at("bin", "scancel"), "#!/bin/sh\necho scancel $* >> $STAND_IN/calls\n"
                  "touch $STAND_IN/over\n", 0o755)
            write(self.at("plan"), "0")
            process = subprocess.Popen(script, env={**os.environ, **values},
                                       stdout=subprocess.DEVNULL)
            self.wait_call("waits", process)
            process.send_signal(signal.SIGUSR1)
            self.assertEqual(0, process.wait(20))
            self.assertEqual(["scancel --signal=INT 17", *more], self.calls()[1:])
            os.remove(self.at("over"))

    # -- etcd

    def test_certificates(self):
        make = os.path.join(SOURCE, "scripts", "etcd-certificates")
        out = self.at("etcd")
        self.script(make, out, "etcd-0.etcd", "10.0.0.7")
        authority = read(os.path.join(out, "authority", "certificate.pem"))
        first = read(os.path.join(out, "members", "key.pem"))
        self.script(make, out, "etcd-0.etcd", "10.0.0.7", "etcd-1.etcd")
        self.assertEqual(authority, read(os.path.join(out, "authority", "certificate.pem")))
        self.assertNotEqual(first, read(os.path.join(out, "members", "key.pem")))
        for kind, purpose in (("members", "sslserver"), ("members", "sslclient"),
                              ("coordinators", "sslclient")):
            folder = os.path.join(out, kind)
            self.assertEqual({"authority.pem", "certificate.pem", "key.pem"},
                             set(os.listdir(folder)))
            done = run("openssl", "verify", "-purpose", purpose, "-CAfile",
                       os.path.join(folder, "authority.pem"),
                       os.path.join(folder, "certificate.pem"))
            self.assertEqual(0, done.returncode, done.stderr)
            self.check_private(f"etcd/{kind}/key.pem")
        names = run("openssl", "x509", "-in", os.path.join(out, "members", "certificate.pem"),
                    "-noout", "-ext", "subjectAltName").stdout
        for name in ("DNS:etcd-0.etcd", "DNS:etcd-1.etcd", "IP Address:10.0.0.7"):
            self.assertIn(name, names)
        done = run("openssl", "verify", "-purpose", "sslserver", "-CAfile",
                   os.path.join(out, "authority", "certificate.pem"),
                   os.path.join(out, "coordinators", "certificate.pem"))
        self.assertNotEqual(0, done.returncode, "a coordinator could play a member")


if __name__ == "__main__":
    unittest.main(verbosity=2)
