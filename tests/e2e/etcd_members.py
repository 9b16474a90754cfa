"""Members of etcd on loopback, for tests and benchmarks of several coordinators."""

import os
import shutil
import signal
import subprocess
import urllib.request

from ports import free_port

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def etcd_program():
    """ATOLL_ETCD, build/etcd/etcd of the source tree (scripts/etcd puts it there), or in PATH;
    None without."""
    for place in (os.environ.get("ATOLL_ETCD", ""), os.path.join(SOURCE, "build", "etcd", "etcd"),
                  shutil.which("etcd") or ""):
        if place and os.access(place, os.X_OK):
            return place
    return None


class EtcdMembers:
    """So many members; each can be killed and started again. `options` are etcd's own."""

    def __init__(self, top, count, options=()):
        self.top = top
        self.options = options
        self.clients = [f"127.0.0.1:{free_port()}" for _ in range(count)]
        self.peers = [f"http://127.0.0.1:{free_port()}" for _ in range(count)]
        self.processes = [None] * count
        for number in range(count):
            self.start(number)

    @property
    def endpoints(self):
        return ",".join(self.clients)

    def start(self, number):
        client = f"http://{self.clients[number]}"
        cluster = ",".join(f"m{i}={peer}" for i, peer in enumerate(self.peers))
        with open(os.path.join(self.top, f"etcd-{number}.log"), "a", encoding="utf-8") as log:
            self.processes[number] = subprocess.Popen(
                [etcd_program(), f"--name=m{number}",
                 f"--data-dir={os.path.join(self.top, f'etcd-{number}')}",
                 f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
                 f"--listen-peer-urls={self.peers[number]}",
                 f"--initial-advertise-peer-urls={self.peers[number]}",
                 f"--initial-cluster={cluster}", *self.options],
                stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def says(self, number, line):
        """Whether that member's metrics have this line."""
        try:
            with urllib.request.urlopen(f"http://{self.clients[number]}/metrics", timeout=2) as told:
                return line in told.read().decode().splitlines()
        except OSError:
            return False

    def leader(self):
        """None while they elect one."""
        leading = [number for number in range(len(self.clients))
                   if self.says(number, "etcd_server_is_leader 1")]
        return leading[0] if len(leading) == 1 else None

    def whole(self):
        """Every member is there and knows who leads."""
        return all(self.says(number, "etcd_server_has_leader 1")
                   for number in range(len(self.clients)))

    def kill(self, number):
        self.processes[number].send_signal(signal.SIGKILL)
        self.processes[number].wait()

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
