"""A real run in the lab: `atolld coordinator` and `atolld peer`s, each on its node.

The config is that of any run (configs/churn.toml); what belongs to a process alone (addresses,
folders, region) is put in here. It ends when the run is sealed.
"""

import glob
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
import tomllib

import check
import network
import topology

PREFIX = "atoll-wan-"
COORDINATOR_PORT = 7070
PEER_PORT = 7071
# Until a coordinator answers, on a machine that is busy otherwise.
PATIENCE = 120.0
LAST_LINES = 10.0
BETWEEN_LOOKS = 0.1


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as out:
        json.dump(value, out, indent=2)
        out.write("\n")


def toml_value(value):
    # Basic TOML strings, numbers, booleans and flat lists are written as in JSON.
    return json.dumps(value, ensure_ascii=False)


def write_toml(path, sections):
    with open(path, "w", encoding="utf-8") as out:
        for section, values in sections.items():
            out.write(f"[{section}]\n")
            for key, value in values.items():
                out.write(f"{key} = {toml_value(value)}\n")


def remove_leftovers():
    """What labs that were killed have left: their folders, named by the process of each."""
    for path in glob.glob(os.path.join(tempfile.gettempdir(), PREFIX + "*-*")):
        owner = os.path.basename(path)[len(PREFIX):].split("-")[0]
        if owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
            shutil.rmtree(path, ignore_errors=True)


def prepare(plan, options, binary):
    """Reads the config and finds the programs before anything is made."""
    try:
        with open(options.config, "rb") as source:
            config = tomllib.load(source)
    except OSError as error:
        raise topology.Wrong(f"{options.config}: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise topology.Wrong(f"{options.config}: {error}") from None
    data = config.get("data", {})
    if data.get("path"):
        here = os.path.dirname(os.path.abspath(options.config))
        data["path"] = os.path.join(here, data["path"])
    if options.dir and os.path.exists(options.dir) and os.listdir(options.dir):
        raise topology.Wrong(f"{options.dir} is not empty; give another --dir")
    # The daemon starts it; without it every peer would look for it until the lab gives up.
    binary("atoll-stub-worker" if config.get("model", {}).get("kind") == "stub" else "atoll-worker")
    remove_leftovers()
    return Run(plan, config, options, binary("atolld"), binary("atoll"))


class Run:
    def __init__(self, plan, config, options, atolld, atoll):
        self.plan = plan
        self.config = config
        self.rounds = options.rounds
        self.json = os.path.abspath(options.json) if options.json else None
        self.kill = parse_kill(options.kill, plan)
        self.kept = os.path.abspath(options.dir) if options.dir else None
        self.atolld = atolld
        self.atoll = atoll
        self.prefix = f"{PREFIX}{os.getpid()}-"  # of the process that is there outside the lab
        self.dir = None
        self.processes = {}  # by node
        self.killed = None

    def start(self, lab):
        self.dir = self.kept or tempfile.mkdtemp(prefix=self.prefix)
        try:
            return self._run(lab)
        finally:
            for process in self.processes.values():
                process.terminate()
            for process in self.processes.values():
                process.wait()
            if not self.kept:
                shutil.rmtree(self.dir, ignore_errors=True)

    def _config_of(self, node):
        coordinator = self.plan.node(topology.COORDINATOR)
        sections = {name: dict(values) for name, values in self.config.items()}
        peers = sum(one.is_peer for one in self.plan.nodes)
        sections.setdefault("run", {}).update(peers=peers, rounds=self.rounds)
        if not sections["run"].get("id"):
            sections["run"]["id"] = "wan"
        sections.setdefault("coordinator", {}).update(
            address=f"{coordinator.address}:{COORDINATOR_PORT}")
        if node.is_peer:
            own = f"{node.address}:{PEER_PORT}"
            sections.setdefault("peer", {}).update(
                id=node.name, dir=self._dir(node), region=node.region,
                listen=own, advertise="none" if node.nat else own)
        else:
            sections["coordinator"]["dir"] = self._dir(node)
        return sections

    def _dir(self, node):
        return os.path.join(self.dir, node.name)

    def _issue(self, node):
        """The peer's certificate, of the authority that lies in the coordinator's folder."""
        subprocess.run([self.atoll, "identity", "issue", "--dir", self._coordinator_dir(),
                        "--run", self.config.get("run", {}).get("id") or "wan", "--id", node.name,
                        "--out", os.path.join(self._dir(node), "identity")],
                       check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)

    def _coordinator_dir(self):
        return self._dir(self.plan.node(topology.COORDINATOR))

    def _start(self, lab, node):
        config = os.path.join(self._dir(node), "config.toml")
        write_toml(config, self._config_of(node))
        role = "peer" if node.is_peer else "coordinator"
        with open(os.path.join(self._dir(node), "output.txt"), "w", encoding="utf-8") as output:
            self.processes[node.name] = lab.start(
                node, [self.atolld, role, "--config", config], stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT)

    def _output(self, node):
        with open(os.path.join(self._dir(node), "output.txt"), encoding="utf-8",
                  errors="replace") as source:
            return source.read().splitlines()

    def _run(self, lab):
        begin = time.monotonic()
        for node in self.plan.nodes:  # the first one makes the authority: before a coordinator does
            os.makedirs(self._dir(node), exist_ok=True)
            if node.is_peer:
                self._issue(node)
        for node in self.plan.nodes:
            self._start(lab, node)
        self._wait(lab, lambda status: int(status["parameters"] or 0) > 0)
        print(f"{len(self.processes) - 1} peers, {self.rounds} rounds; each round's seconds:")
        print(ROUND_HEADER, flush=True)
        self._watch(lab)
        last = self._status(lab)
        seconds = time.monotonic() - begin
        if last is None or last["phase"] != "sealed" or int(last["version"]) < self.rounds:
            self._print_outputs()
            raise network.Broken("the run did not come to its end")
        return self._report(lab, last, seconds)

    def _ask(self, lab, *words, **options):
        """Runs `atoll run ...` where the coordinator is."""
        node = self.plan.node(topology.COORDINATOR)
        address = f"{node.address}:{COORDINATOR_PORT}"
        admin = os.path.join(self._coordinator_dir(), "admin")
        return lab.start(node, [self.atoll, "run", *words, "--json", "--coordinator", address,
                                "--identity", admin],
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, **options)

    def _status(self, lab):
        with self._ask(lab, "show", stderr=subprocess.DEVNULL) as show:
            text = show.stdout.read()
        return json.loads(text) if show.returncode == 0 else None

    def _ended(self):
        """The first process that has ended although the run goes on, with how it stands."""
        return next((name for name, one in self.processes.items()
                     if one.poll() is not None and name != self.killed), None)

    def _look(self, status):
        """At what the watch tells, for the moment in which a peer is to be killed."""
        if not self.kill or self.killed or status.get("phase") != "exchanging":
            return
        name, version = self.kill
        # A short exchange may pass between two looks: then it is a later one.
        if int(status["version"]) >= version - 1:
            self.killed = name
            self.processes[name].kill()
            print(f"{name} is killed in the exchange of round {int(status['version']) + 1}",
                  flush=True)

    def _wait(self, lab, condition):
        """For a status that is so; fails if a process ends first, or PATIENCE."""
        end = time.monotonic() + PATIENCE
        while True:
            status = self._status(lab)
            if status is not None and condition(status):
                return
            ended = self._ended()
            if ended or time.monotonic() > end:
                self._print_outputs()
                raise network.Broken(f"{ended} has ended early" if ended else
                                     f"the run did not begin within {PATIENCE:.0f} s")
            time.sleep(BETWEEN_LOOKS)

    def _print_outputs(self):
        for name in self.processes:
            print(f"--- {name}", *self._output(self.plan.node(name))[-15:], sep="\n")

    def _watch(self, lab):
        """Prints rounds as they come, until the run is sealed or one of its processes ends."""
        watch = self._ask(lab, "watch", stderr=subprocess.DEVNULL)
        reader = threading.Thread(target=print_rounds, args=(watch.stdout, self._look))
        reader.start()
        try:
            while watch.poll() is None:
                try:
                    ended = self._ended()
                    # At the seal its processes end too: then there is a last line to read.
                    watch.wait(LAST_LINES if ended else BETWEEN_LOOKS)
                except subprocess.TimeoutExpired:
                    if ended:
                        print(f"{ended} has ended, and the run is not sealed")
                        return
        finally:
            watch.kill()
            watch.wait()
            reader.join()
            watch.stdout.close()

    def _report(self, lab, last, seconds):
        lines, figures = lab.stats()
        rounds = last["rounds"]
        # Beside them there may be the coordinator's aggregator.
        trainers = [peer for peer in last["peers"] if peer["member"]["peer"] in self.processes]
        sent = {peer["member"]["peer"]: int(peer["progress"]["exchange_bytes_sent"])
                for peer in last["peers"]}
        mean_sent = statistics.mean(sent[peer["member"]["peer"]] for peer in trainers)
        digests = {peer["state_digest"] for peer in last["peers"]
                   if int(peer["state_version"]) == int(last["version"])}
        report = {
            "rounds": len(rounds), "peers": len(trainers), "killed": self.killed,
            "contributors": [one["contributors"] for one in rounds],
            "parameters": int(last["parameters"]),
            "exchange_seconds_median": statistics.median(r["exchange_seconds"] for r in rounds),
            "train_seconds_median": statistics.median(r["train_seconds"] for r in rounds),
            "exchange_bytes_per_peer_per_round": mean_sent / max(1, len(rounds)),
            "exchange_bytes_sent": sent,
            "exchanges": [{key: r[key] for key in ("version", "exchange_seconds",
                                                   "predicted_seconds", "audit_seconds",
                                                   "plan")} for r in rounds],
            "wall_seconds": seconds, "equal_digests": len(digests) == 1,
            "lines": {name: vars(counts) for name, counts in lines.items()},
            "late_share": figures["late_wakes"] / max(1.0, figures["wakes"])}
        print()
        for line in check.traffic_table(lab, seconds):
            print(line)
        print()
        print(f"exchange          {report['exchange_seconds_median']:.3f} s median of "
              f"{len(rounds)} rounds, train {report['train_seconds_median']:.3f} s")
        sent_text = check.bytes_text(int(report["exchange_bytes_per_peer_per_round"]))
        print(f"sent              {sent_text} a peer a round, of {report['parameters']:,} "
              "parameters")
        print(f"time              {seconds:.1f} s, from the first process to the seal")
        print("replicas          " + ("equal" if report["equal_digests"] else "DIFFER"))
        if self.json:
            write_json(self.json, report)
        return 0 if report["equal_digests"] else 1


def parse_kill(text, plan):
    """NODE@ROUND as both; None: nobody is killed."""
    if not text:
        return None
    name, at, version = text.partition("@")
    if not at or not version.isdigit() or int(version) == 0:
        raise topology.Wrong(f"--kill: '{text}' is not NODE@ROUND")
    if not plan.node(name).is_peer:
        raise topology.Wrong(f"--kill: {name} is no peer")
    return name, int(version)


def print_rounds(stream, look):
    seen = set()
    for line in stream:
        status = json.loads(line)
        look(status)
        for one in status.get("rounds", []):
            if one["version"] not in seen:
                print(round_row(one), flush=True)
            seen.add(one["version"])


ROUND_HEADER = (f"{'round':>6}{'train':>10}{'exchange':>10}{'predicted':>11}{'audit':>10}"
                f"{'peers':>7}{'revisions':>11}  plan")


def round_row(one):
    predicted = one["predicted_seconds"]
    shown = "-" if predicted is None else f"{predicted:.3f} s"
    return (f"{int(one['version']):>6}{one['train_seconds']:>8.3f} s"
            f"{one['exchange_seconds']:>8.3f} s{shown:>11}{one['audit_seconds']:>8.3f} s"
            f"{one['contributors']:>7}{int(one.get('revisions', 0)):>11}  {one['plan']}")
