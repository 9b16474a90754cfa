"""A run with several coordinators that share one etcd, and peers that joined with tokens."""

import json
import os
import shutil
import signal
import subprocess
import tempfile

from cluster import BIN, atoll, free_port, token_file, wait_for
from etcd_members import EtcdMembers

CONFIG = """
[run]
id = "shared"
rounds = 1000000
peers = {peers}
quorum = 2
[model]
kind = "stub"
parameters = 20000
[inner]
steps = 5
step_time = "20ms"
[evaluation]
every_rounds = 0
[membership]
failure_timeout = "2s"
[http]
listen = "off"
[coordinator]
address = "{address}"
others = "{others}"
dir = "{dir}"
aggregator = "never"
store = "etcd"
etcd = "{etcd}"
etcd_lease = "2s"
"""


class Coordinators:
    """They run from the first line on; peers join when they are told to."""

    def __init__(self, coordinators=2, members=3, peers=3, etcd_options=()):
        self.top = tempfile.mkdtemp(prefix="atoll-failover-")
        self.etcd = EtcdMembers(self.top, members, etcd_options)
        self.addresses = [f"127.0.0.1:{free_port()}" for _ in range(coordinators)]
        self.processes = {}
        for number, address in enumerate(self.addresses):
            others = ",".join(other for other in self.addresses if other != address)
            with open(self.config(number), "w", encoding="utf-8") as out:
                out.write(CONFIG.format(peers=peers, address=address, others=others,
                                        dir=self.folder(number), etcd=self.etcd.endpoints))
        # The first makes the keys; the others get a copy, as an operator gives them.
        self.start(0)
        wait_for("the first coordinator leads", lambda: "listening on" in self.log(0))
        for number in range(1, coordinators):
            done = subprocess.run([os.path.join(BIN, "atolld"), "coordinator", "--config",
                                   self.config(0), "--backup", self.folder(number)],
                                  capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            self.start(number)
            wait_for("the next one waits", lambda n=number: "leads; waiting" in self.log(n))
        self.peers = [f"peer-{number}" for number in range(1, peers + 1)]
        for peer in self.peers:
            self.join(peer)

    def folder(self, number):
        return os.path.join(self.top, f"coordinator-{number}")

    def config(self, number):
        return os.path.join(self.top, f"coordinator-{number}.toml")

    def log_path(self, name):
        return os.path.join(self.top, f"{name}.log")

    def log(self, number):
        with open(self.log_path(number), encoding="utf-8") as source:
            return source.read()

    def run(self, name, *command):
        with open(self.log_path(name), "a", encoding="utf-8") as out:
            self.processes[name] = subprocess.Popen(
                [os.path.join(BIN, "atolld"), *command], stdout=out, stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL)

    def start(self, number):
        self.run(number, "coordinator", "--config", self.config(number))

    def join(self, peer):
        """With all addresses in its token."""
        token = json.loads(self.order("token", "create", "--peer", peer, "--json").stdout)["token"]
        path = token_file(os.path.join(self.top, f"{peer}.token"), token)
        self.run(peer, "join", "--token-file", path, "--dir", os.path.join(self.top, peer),
                 "--advertise", f"127.0.0.1:{free_port()}")

    def order(self, *words):
        done = atoll(*words, "--coordinator", ",".join(self.addresses), "--identity",
                     os.path.join(self.folder(0), "admin"))
        assert done.returncode == 0, done.stderr
        return done

    def version(self):
        return int(json.loads(self.order("run", "show", "--json").stdout).get("version", 0))

    def digests(self):
        """Of the peers' final states, once the run is stopped and all have left."""
        self.order("run", "stop")
        for peer in self.peers:
            code = self.processes[peer].wait(timeout=60)
            assert code == 0, f"{peer} ended with {code}"
        digests = set()
        for peer in self.peers:
            done = atoll("log", "verify", "--dir", os.path.join(self.top, peer), "--json")
            assert done.returncode == 0, done.stderr
            digests.add(json.loads(done.stdout)["state_digest"])
        return digests

    def wait_version(self, version, seconds=60):
        return wait_for(f"version {version}", lambda: self.version() >= version, seconds)

    def headers(self):
        """Of all versions, as the coordinator that leads has them."""
        lines = self.order("log", "list", "--json").stdout
        return json.loads(lines)

    def leader(self):
        """By what they say last: leads, or not."""
        leading = []
        for number in range(len(self.addresses)):
            log = self.log(number)
            if self.processes[number].poll() is None and \
                    log.rfind("this coordinator leads, ") > log.rfind("leads no longer"):
                leading.append(number)
        return leading[0] if len(leading) == 1 else None

    def wait_leader(self, number):
        wait_for(f"coordinator {number} leads", lambda: self.log(number).rfind(
            "listening on") > self.log(number).rfind("leads; waiting"), 30)

    def signal(self, name, number):
        self.processes[name].send_signal(number)
        if number == signal.SIGKILL:
            self.processes[name].wait()

    def close(self):
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()
        self.etcd.close()
        shutil.rmtree(self.top, ignore_errors=True)

    def tails(self):
        """The end of every log, for whoever looks into a failure."""
        text = ""
        for name in self.processes:
            with open(self.log_path(name), encoding="utf-8") as source:
                text += f"--- {name}\n" + "".join(source.readlines()[-40:])
        return text
