"""Would fail if lines that swallow packets, where nothing breaks and nothing is refused, stopped a
run: a port that a firewall drops, a pair with no way between it, a line for small packets alone;
or if nobody were told whose line it is. Real processes, each in a network namespace of its own."""

import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "wan"))

import world  # noqa: E402  pylint: disable=wrong-import-position
from cluster import BIN, STUB_CONFIG, atoll, wait_for  # noqa: E402

TIMEOUT = 3  # seconds: failure_timeout
SLACK = 8  # seconds, of a machine that builds and tests beside it
COORDINATOR = "10.78.0.1"


def ip(command, namespace=None):
    words = ["ip", *(["-n", namespace] if namespace else []), *command.split()]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise world.Impossible(f"{' '.join(words)}: {done.stderr.strip()}")


def firewall(namespace, rules):
    """Drops in silence what matches: lines of nftables, "CHAIN: MATCH"."""
    text = "flush ruleset\ntable inet grey {\n"
    for chain in ("input", "output", "forward"):
        text += f"chain {chain} {{ type filter hook {chain} priority 0; policy accept;\n"
        for rule in rules:
            of, match = rule.split(": ", 1)
            text += f"{match} drop\n" if of == chain else ""
        text += "}\n"
    text += "}\n"
    done = subprocess.run(["ip", "netns", "exec", namespace, "nft", "-f", "-"], input=text,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def make_hosts(peers, behind):
    """The coordinator here, at the bridge "sw"; peer N at it, or behind the router that `behind`
    names. Returns each peer's address."""
    os.makedirs("/run/netns", exist_ok=True)
    for command in ("link set lo up", "link add sw type bridge",
                    f"addr add {COORDINATOR}/16 dev sw", "link set sw up"):
        ip(command)
    addresses = {}

    def host(name, bridge, address, gateway):
        end = f"v-{name}"
        where, at = (None, bridge) if bridge == "sw" else (bridge, "lan")
        ip(f"netns add {name}")
        ip(f"link add {end} type veth peer name eth0 netns {name}", where)
        ip(f"link set {end} master {at} up", where)
        ip("link set lo up", name)
        ip(f"addr add {address} dev eth0", name)
        ip("link set eth0 up", name)
        if gateway:
            ip(f"route add default via {gateway}", name)

    for number, router in enumerate(sorted(set(behind.values())), 1):
        host(router, "sw", f"10.78.0.{10 + number}/16", None)
        ip("link add lan type bridge", router)
        ip(f"addr add 10.{80 + number}.0.1/24 dev lan", router)
        ip("link set lan up", router)
        subprocess.run(["ip", "netns", "exec", router, "sh", "-c",
                        "echo 1 > /proc/sys/net/ipv4/ip_forward"], check=True)
        ip(f"route add 10.{80 + number}.0.0/24 via 10.78.0.{10 + number}")
        for other in range(1, number):
            ip(f"route add 10.{80 + number}.0.0/24 via 10.78.0.{10 + number}", f"router-{other}")
            ip(f"route add 10.{80 + other}.0.0/24 via 10.78.0.{10 + other}", router)
    for number in range(1, peers + 1):
        name = f"peer-{number}"
        router = behind.get(name)
        net = f"10.{80 + int(router[-1])}.0" if router else "10.78.1"
        addresses[name] = f"{net}.{number + 1}"
        host(name, router or "sw", addresses[name] + ("/24" if router else "/16"),
             f"{net}.1" if router else None)
    return addresses


class GreyNetworkTest(unittest.TestCase):

    def begin(self, peers, quorum, rounds, behind=None):
        self.processes = {}
        self.addCleanup(self.tidy, [f"peer-{number}" for number in range(1, peers + 1)],
                        sorted(set((behind or {}).values())))
        self.addresses = make_hosts(peers, behind or {})
        self.top = tempfile.mkdtemp(prefix="atoll-e2e-")
        self.addCleanup(shutil.rmtree, self.top, ignore_errors=True)
        self.whom = ["--coordinator", f"{COORDINATOR}:7070", "--identity",
                     f"{self.top}/coordinator/admin"]
        self.run_config = STUB_CONFIG.format(
            rounds=rounds, peers=peers, quorum=quorum, steps=4, parameters=300000,
            step_time="60ms", chunk_elements=16384, failure_timeout=f"{TIMEOUT}s",
            snapshot_every=50, donate=0)
        for name in self.addresses:
            done = atoll("identity", "issue", "--dir", f"{self.top}/coordinator", "--id", name,
                         "--out", f"{self.top}/{name}/identity")
            self.assertEqual(0, done.returncode, done.stderr)

    def tidy(self, names, routers):
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()
        for name in names + routers:  # a namespace takes its lines along, but only later
            for router in [None, *routers]:
                inside = ["-n", router] if router else []
                subprocess.run(["ip", *inside, "link", "del", f"v-{name}"], check=False,
                               capture_output=True)
        for name in names + routers:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", "sw"], check=False, capture_output=True)

    def start(self, name):
        sections = {"peer": {"id": name, "dir": f"{self.top}/{name}", "listen": "0.0.0.0:7100",
                             "advertise": f"{self.addresses.get(name)}:7100"},
                    "coordinator": {"address": f"{COORDINATOR}:7070"}}
        if name == "coordinator":
            sections = {"coordinator": {"address": f"{COORDINATOR}:7070",
                                        "dir": f"{self.top}/coordinator", "aggregator": "never",
                                        "exit_when_sealed": True}}
        text = self.run_config
        for section, values in sections.items():
            lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
            if f"[{section}]\n" not in text:
                text += f"[{section}]\n"
            text = text.replace(f"[{section}]\n", f"[{section}]\n{lines}")
        with open(f"{self.top}/{name}.toml", "w", encoding="utf-8") as out:
            out.write(text)
        role = "coordinator" if name == "coordinator" else "peer"
        inside = [] if name == "coordinator" else ["ip", "netns", "exec", name]
        with open(f"{self.top}/{name}.log", "w", encoding="utf-8") as log:
            self.processes[name] = subprocess.Popen(
                [*inside, os.path.join(BIN, "atolld"), role, "--config", f"{self.top}/{name}.toml"],
                stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def start_all(self):
        self.start("coordinator")
        for name in self.addresses:
            self.start(name)

    def log(self, name):
        with open(f"{self.top}/{name}.log", encoding="utf-8") as source:
            return source.read()

    def show(self):
        done = atoll("run", "show", *self.whom, "--json")
        return json.loads(done.stdout) if done.returncode == 0 else None

    def at_version(self, version, seconds=60):
        return wait_for(f"version {version}", lambda: (
            shown := self.show()) and shown["version"] >= version and shown, seconds)

    def why(self, shown, name):
        return next(peer["why"] for peer in shown["peers"] if peer["member"]["peer"] == name)

    def commits(self):
        """When each version was committed, in seconds."""
        return {int(version): datetime.datetime.fromisoformat(when).timestamp() for when, version
                in re.findall(r"(\S+)Z \w+ round (\d+): committed by", self.log("coordinator"))}

    def finish(self, rounds, names, since, timeouts=2):
        """The run ends; after version `since` no round has taken longer than so many time-outs, and
        what a busy machine adds."""
        code = self.processes["coordinator"].wait(timeout=120)
        self.assertEqual(0, code, self.log("coordinator")[-3000:])
        commits = self.commits()
        self.assertEqual(list(range(1, rounds + 1)), sorted(commits))
        longest = max(commits[version + 1] - commits[version] for version in range(since, rounds))
        self.assertLessEqual(longest, timeouts * TIMEOUT + SLACK, self.log("coordinator")[-9000:])
        digests = set()
        for name in names:
            self.assertEqual(0, self.processes[name].wait(timeout=60), self.log(name)[-3000:])
            done = atoll("log", "verify", "--dir", f"{self.top}/{name}", "--json")
            self.assertEqual(0, done.returncode, done.stderr)
            digests.add(json.loads(done.stdout)["state_digest"])
        self.assertEqual(1, len(digests))

    def test_a_port_that_a_firewall_drops(self):
        # Would fail if one volunteer's firewall stopped everybody, or kept version 0, which its
        # machine alone holds here, from the others.
        self.begin(peers=4, quorum=2, rounds=12)
        firewall("peer-3", ["input: tcp dport 7100"])
        self.start("coordinator")
        self.start("peer-3")
        wait_for("peer-3's worker", lambda: "its worker is ready" in self.log("coordinator"), 30)
        for name in ("peer-1", "peer-2", "peer-4"):
            self.start(name)
        shown = self.at_version(3)
        self.assertIn("others cannot dial 10.78.1.4:7100", self.why(shown, "peer-3"))
        self.assertEqual({"peer-3"}, {doubt["to"] for doubt in shown["doubts"]})
        listed = atoll("peer", "list", *self.whom)
        self.assertIn("a firewall?", listed.stdout)
        self.finish(12, list(self.addresses), since=3)
        self.assertIn("others cannot dial this peer at 10.78.1.4:7100: a firewall?",
                      self.log("peer-3"))
        full = re.findall(r"committed by peer-1, peer-2, peer-3, peer-4", self.log("coordinator"))
        self.assertGreaterEqual(len(full), 10, "it dials out, so it contributes")

    def test_a_pair_with_no_way_between_it_in_mid_run(self):
        # Would fail if two peers that do not see each other cost each round a deadline.
        self.begin(peers=4, quorum=2, rounds=30)
        self.start_all()
        self.at_version(4)
        firewall("peer-3", ["input: ip saddr 10.78.1.3", "output: ip daddr 10.78.1.3"])
        cut_at = self.at_version(5)["version"]
        named = wait_for("the pair in run show", lambda: (
            shown := self.show()) and shown["doubts"] and shown, 15)
        for doubt in named["doubts"]:
            self.assertEqual({"peer-2", "peer-3"}, {doubt["from"], doubt["to"]})
        self.finish(30, list(self.addresses), since=1)
        commits = self.commits()
        after = [commits[v + 1] - commits[v] for v in range(cut_at, 30)]
        self.assertLessEqual(sum(gap > TIMEOUT for gap in after), 1, "it is paid for once")

    def test_eight_behind_two_routers_that_are_broken_in_part(self):
        # Would fail if half of a run's machines, each way half broken, took the other half along:
        # one router drops what comes from outside, the other one, from version 4 on, what is large.
        behind = {f"peer-{n}": "router-1" if n <= 4 else "router-2" for n in range(1, 9)}
        self.begin(peers=8, quorum=3, rounds=24, behind=behind)
        firewall("router-1", ["forward: iifname eth0 tcp dport 7100"])
        self.start_all()
        self.at_version(4, 90)
        firewall("router-1", ["forward: iifname eth0 tcp dport 7100"])
        firewall("router-2", ["forward: meta length > 1300"])
        inside = [f"peer-{n}" for n in range(1, 5)]
        self.finish(24, inside, since=1, timeouts=4)  # as for all lines that let small packets pass
        log = self.log("coordinator")
        for number in range(5, 9):
            self.assertRegex(log, f"peer peer-{number}( died|: its session broke)")


if __name__ == "__main__":
    try:
        if os.geteuid() != 0:
            raise world.Impossible("needs root: it makes network namespaces")
        if shutil.which("nft") is None:
            raise world.Impossible("needs the program nft (Debian package nftables)")
        world.enter()
    except world.Impossible as reason:
        print(f"skipped: {reason}")
        sys.exit(world.SKIPPED)
    unittest.main()
