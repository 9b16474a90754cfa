"""Would fail if some socket of a run did something for somebody who has no right to it, if
connections alone shut everybody out, or if an evicted peer's streams went on."""

import glob
import os
import re
import resource
import signal
import socket
import stat
import subprocess
import time
import unittest
import urllib.parse

from cluster import BIN, Cluster, atoll, wait_for
from identity_test import STUB, order, token_fields, write_folder
from lone_coordinator import LoneCoordinator

PROTO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "proto")
FRONT_DOOR = os.path.join(BIN, "..", "tests", "front_door")
DAY = 24 * 3600

# What a call ends with that has no effect. Not among them: UNIMPLEMENTED, which is what a method
# without a rule in the table would get, and INVALID_ARGUMENT, which is said by whoever has read it.
HANDSHAKE = {"UNAVAILABLE"}
REFUSED = {"PERMISSION_DENIED"}


def proto_files():
    return sorted(os.path.relpath(path, PROTO)
                  for path in glob.glob(os.path.join(PROTO, "atoll", "v1", "*.proto")))


def methods_in_protos():
    """Counted in the text, so that a method that the probe does not know is missed."""
    count = 0
    for path in proto_files():
        with open(os.path.join(PROTO, path), encoding="utf-8") as source:
            count += len(re.findall(r"^\s*rpc\s+\w+", source.read(), re.MULTILINE))
    return count


def family(pid):
    """The process and all that it has started."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8") as source:
                    parents[int(entry)] = int(source.read().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                pass
    found = {pid}
    while True:
        more = {child for child, parent in parents.items() if parent in found} - found
        if not more:
            return found
        found |= more


def listening(pid):
    """The sockets on which a process listens: ("tcp", "127.0.0.1:7") or ("unix", path)."""
    inodes = set()
    for descriptor in glob.glob(f"/proc/{pid}/fd/*"):
        try:
            inodes.update(re.findall(r"^socket:\[(\d+)\]$", os.readlink(descriptor)))
        except FileNotFoundError:
            pass
    sockets = set()
    for name in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{name}", encoding="utf-8") as source:
            for line in source.read().splitlines()[1:]:
                fields = line.split()
                if fields[3] != "0A" or fields[9] not in inodes:
                    continue
                host, port = fields[1].split(":")
                if name == "tcp":
                    host = ".".join(str(byte) for byte in reversed(bytes.fromhex(host)))
                sockets.add(("tcp", f"{host}:{int(port, 16)}"))
    for name in ("udp", "udp6"):
        with open(f"/proc/{pid}/net/{name}", encoding="utf-8") as source:
            for line in source.read().splitlines()[1:]:
                if line.split()[9] in inodes:
                    sockets.add((name, line.split()[1]))
    with open(f"/proc/{pid}/net/unix", encoding="utf-8") as source:
        for line in source.read().splitlines()[1:]:
            fields = line.split()
            if fields[6] in inodes and int(fields[3], 16) & 0x10000:  # __SO_ACCEPTCON
                sockets.add(("unix", fields[7] if len(fields) > 7 else ""))
    return sockets


def knock(address, *arguments):
    """{method: (code, message)} of every method of every service."""
    done = subprocess.run([FRONT_DOOR, "probe", "--address", address, *arguments, *proto_files()],
                          capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    answers = {}
    for line in done.stdout.splitlines():
        method, code, message = line.split("\t", 2)
        answers[method] = (code, message)
    return answers


class Visitors:
    """Credentials of everybody who should be let in nowhere."""

    def __init__(self, cluster):
        self.top = cluster.top
        self.coordinator = cluster.process_of("coordinator")["dir"]
        token = order(cluster, "token", "create", "--peer", "guest")["token"]
        fields = token_fields(token)
        self.foreign = self.issue(os.path.join(self.top, "foreign"), "stranger", 0, 90 * DAY,
                                  found="foreign")
        own = os.path.join(self.coordinator, "authority")
        self.expired = self.issue(own, "peer-1", -100 * DAY, 90 * DAY)
        self.early = self.issue(own, "peer-1", 2 * DAY, 90 * DAY)
        self.joiner = write_folder(os.path.join(self.top, "joiner"), fields[2], fields[3],
                                   fields[4])

    def issue(self, authority, name, start, life, found=None):
        out = os.path.join(self.top, f"visitor-{os.path.basename(authority)}-{name}-{start}")
        if found:  # makes an authority of its own
            done = atoll("identity", "issue", "--dir", authority, "--id", name, "--out", out)
        else:
            done = subprocess.run(
                [FRONT_DOOR, "issue", "--authority", authority, "--id", name, "--from", str(start),
                 "--life", str(life), "--out", out], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return out


def standing(cluster):
    """All of the run that a call could have changed, while it is paused."""
    status = cluster.status()
    peers = {one["member"]["peer"]: {key: one["member"].get(key) for key in
                                     ("state", "address", "version", "pid", "role")}
             for one in status["peers"]}
    return {"version": status.get("version"), "phase": status.get("phase"), "peers": peers,
            "stopping": status.get("stopping"), "epoch": status.get("epoch"),
            "tokens": order(cluster, "token", "list")}


class FrontDoorTest(unittest.TestCase):

    def find_sockets(self, cluster):
        """{address: process} of the sockets that speak gRPC; all others are explained here."""
        doors, workers = {}, []
        for entry in cluster.peers_json():
            for pid in family(cluster.pid_of(entry["id"])):
                for kind, where in listening(pid):
                    if kind == "tcp":
                        doors[where] = entry["id"]
                    elif kind == "unix" and where.endswith(("/worker.sock", "/machine.sock")):
                        # The worker's and the owner's, which only the user of the daemon can open.
                        self.assertEqual(0o600, stat.S_IMODE(os.stat(where).st_mode), where)
                        workers.append(where)
                    else:
                        self.fail(f"{entry['id']} listens on {kind} {where}: who may speak there?")
        # Three workers, and the owners of three peers and of the coordinator's aggregator.
        self.assertEqual(3 + 4, len(workers), workers)
        known = {one["member"]["address"]: one["member"]["peer"]
                 for one in cluster.status()["peers"]}
        known[cluster.process_of("coordinator")["address"]] = "coordinator"
        # The dashboard's port speaks HTTP and no gRPC: what it serves, dashboard_test.py sees.
        with open(os.path.join(cluster.process_of("coordinator")["dir"], "http"),
                  encoding="utf-8") as file:
            dashboard = urllib.parse.urlparse(file.read().strip()).netloc
        self.assertEqual("coordinator", doors.pop(dashboard), dashboard)
        self.assertTrue(dashboard.startswith("127.0.0.1:"), dashboard)
        self.assertEqual(set(known), set(doors), "a socket that nobody is told of, or none")
        return known

    def assert_refused(self, answers, allowed, what, but=()):
        self.assertEqual(methods_in_protos(), len(answers))
        for method, (code, message) in answers.items():
            if method not in but:
                self.assertIn(code, allowed, f"{what}: {method}: {message}")

    def test_no_socket_does_anything_for_a_stranger(self):
        self.assertGreaterEqual(methods_in_protos(), 20)
        with Cluster(rounds=5000, steps=4, stub=STUB,
                     extra='[coordinator]\naggregator = "always"\n') as cluster:
            cluster.wait_version(2)
            wait_for("the aggregator is a member", lambda: len(
                [1 for one in (cluster.status() or {}).get("peers", [])
                 if one["member"]["state"] == "live"]) == 4)
            visitors = Visitors(cluster)
            # Evicted, so that its certificate is revoked; it had been let in everywhere.
            peer3 = cluster.process_of("peer-3")
            order(cluster, "peer", "evict", "peer-3")
            wait_for("peer-3 ends", lambda: "was evicted" in cluster.log("peer-3"))
            order(cluster, "peer", "evict", "peer-3", "--undo")
            cluster.restart("peer-3")
            wait_for("peer-3 is back",
                     lambda: (cluster.peer("peer-3") or {"member": {}})["member"].get(
                         "state") == "live")
            doors = self.find_sockets(cluster)
            self.assertEqual(5, len(doors), doors)
            order(cluster, "peer", "evict", "peer-3")
            wait_for("peer-3 ends", lambda: cluster.restarted[-1].poll() is not None)
            revoked = os.path.join(peer3["dir"], "identity")
            doors = {address: name for address, name in doors.items() if name != "peer-3"}
            order(cluster, "run", "pause")
            wait_for("the run rests", lambda: cluster.status().get("phase") == "paused")
            before = standing(cluster)
            strangers = {"no certificate": [], "plain text": ["--plaintext"],
                         "another authority": ["--folder", visitors.foreign],
                         "an expired certificate": ["--folder", visitors.expired],
                         "an early certificate": ["--folder", visitors.early]}
            for address, name in doors.items():
                for what, arguments in strangers.items():
                    self.assert_refused(knock(address, *arguments), HANDSHAKE, f"{name}, {what}")
                self.assert_refused(knock(address, "--folder", revoked, "--name", "peer-3"),
                                    REFUSED, f"{name}, a revoked certificate")
                answers = knock(address, "--folder", visitors.joiner, "--name", "guest")
                enrol = "/atolld.v1.Membership/Enrol"
                if name == "coordinator":
                    # It may ask, with what is no request; the token stays open.
                    self.assertEqual("INVALID_ARGUMENT", answers[enrol][0], answers[enrol])
                    self.assertIn("signing request", answers[enrol][1])
                    # It may ask what it would join, too.
                    describe = "/atolld.v1.Membership/Describe"
                    self.assertEqual("OK", answers[describe][0], answers[describe])
                    # And how fast its line to there is, with what is no measure.
                    measure = "/atolld.v1.Membership/Measure"
                    self.assertEqual("INVALID_ARGUMENT", answers[measure][0], answers[measure])
                    self.assert_refused(answers, REFUSED, f"{name}, a token",
                                        but=[enrol, describe, measure])
                else:
                    self.assert_refused(answers, REFUSED, f"{name}, a token")
            self.assertEqual(before, standing(cluster))
            # The probe would be heard if it had the right to it: else all of this shows nothing.
            coordinator = cluster.process_of("coordinator")
            heard = knock(coordinator["address"], "--folder",
                          os.path.join(coordinator["dir"], "admin"))
            self.assertEqual("OK", heard["/atolld.v1.Admin/ShowRun"][0])
            self.assertEqual("OK", heard["/atolld.v1.Admin/EvictPeer"][0])
            self.assertEqual("evicted", cluster.peer("peer-1")["member"]["state"])


class ConnectionTest(LoneCoordinator):

    def test_a_flood_of_connections_closes_the_door_for_nobody(self):
        # Strangers that open what the system will give, and say nothing.
        def few_descriptors():
            resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
        coordinator = self.start_coordinator(few_descriptors)
        host, port = self.address.rsplit(":", 1)
        strangers = []
        try:
            for _ in range(600):
                strangers.append(socket.create_connection((host, int(port)), timeout=10))
            held = len(os.listdir(f"/proc/{coordinator.pid}/fd"))
            self.assertLess(held, 256, "it has left none for its own files")
            # They stay, and are put out all the same when they have not shaken hands in time.
            wait_for("the operator is heard", lambda: self.order("run", "show"), 60)
            self.assertIsNone(coordinator.poll())
        finally:
            for stranger in strangers:
                stranger.close()
        wait_for("the operator is heard", lambda: self.order("run", "show"), 20)


class EvictionTest(unittest.TestCase):

    def test_streams_with_an_evicted_peer_end_within_a_second(self):
        # A peer that hears of nothing any more, in the middle of an exchange with all others. What
        # time alone would do about it takes far longer than the test looks.
        stub = {"parameters": 30_000_000, "step_time": "20ms", "chunk_elements": 65536,
                "failure_timeout": "30s"}
        with Cluster(rounds=5000, peers=4, quorum=3, steps=4, stub=stub) as cluster:
            cluster.wait_version(2)

            def caught():
                cluster.wait_phase("exchanging")
                cluster.signal("peer-4", signal.SIGSTOP)
                seen = cluster.version()
                try:
                    wait_for("the exchange ends without it", lambda: cluster.version() > seen or
                             cluster.status().get("phase") != "exchanging", 2)
                except AssertionError:
                    return True
                cluster.signal("peer-4", signal.SIGCONT)
                return False
            wait_for("peer-4 is stopped in an exchange", caught, 60)
            version = cluster.version()
            order(cluster, "peer", "evict", "peer-4")
            answered = time.monotonic()
            cut = {}
            for name in ("peer-1", "peer-2", "peer-3"):
                line = wait_for(f"{name} cuts its streams", lambda: re.search(
                    r"cut (\d+) calls? from peers that were put out and (\d+) to them",
                    cluster.log(name)),
                    max(0.05, 1 - (time.monotonic() - answered)))
                cut[name] = (int(line.group(1)), int(line.group(2)))
            print(f"within {time.monotonic() - answered:.2f} s: {cut} calls (from, to) were cut")
            self.assertGreater(sum(one[0] for one in cut.values()), 0, "from it")
            # Those to it went a moment before, with the exchange's new plan, or are counted.
            self.assertEqual("evicted", cluster.peer("peer-4")["member"]["state"])
            wait_for("the exchange goes on without it", lambda: cluster.version() > version, 10)
            # It wakes up, finds its Session gone, and is refused.
            cluster.signal("peer-4", signal.SIGCONT)
            wait_for("it is told", lambda: re.search("was (evicted|revoked)",
                                                     cluster.log("peer-4")), 10)


if __name__ == "__main__":
    unittest.main(verbosity=2)
