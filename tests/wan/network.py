"""The lab's network on this machine: a network namespace a node, and one process for all lines.

A node has one interface, `wan0`, whose other end is the process atoll-wan, which passes packets
with the rates, delays and losses of the topology. A node behind NAT has `eth0` instead, a veth to a
router of its own, whose namespace has the `wan0` and masquerades: others cannot dial it. Call
everything after world.enter(); with the world all of it is gone.
"""

import dataclasses
import os
import subprocess

import world

MTU = 1500
SEGMENT_HEADERS = 52  # IP, TCP and its time stamps, of each MTU
DEVICE_QUEUE = 10000  # frames between the kernel and atoll-wan: none is lost while that one sleeps

MOST_BUFFERS = 1 << 30  # the kernel's figure is an int, and no stream here has more under way

HOME = "192.168.1"  # of a node behind NAT and its router; each pair is alone in its namespaces
NAT_RULES = """
table ip home {
  chain leaving {
    type nat hook postrouting priority srcnat
    oifname "wan0" masquerade
  }
  chain passing {
    type filter hook forward priority filter; policy drop
    iifname "lan0" accept
    ct state established,related accept
  }
}
"""


class Broken(Exception):
    """The lab could not be made, or fell apart."""


@dataclasses.dataclass
class LineCounts:
    packets: int
    bytes: int
    dropped: int
    lost: int
    longest_wait: float


def run(command, text=None):
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = done.stderr.strip() or f"exit {done.returncode}"
        raise Broken(f"{' '.join(command)}: {reason}")


def ip(namespace, *commands):
    run(["ip", "-n", namespace, "-batch", "-"], "".join(one + "\n" for one in commands))


class Network:
    def __init__(self, topology, program):
        self.topology = topology
        self.program = program
        self.wan = None

    def __enter__(self):
        os.makedirs("/run/netns", exist_ok=True)
        for node in self.topology.nodes:
            run(["ip", "netns", "add", node.name])
            if node.nat:
                run(["ip", "netns", "add", self._router(node)])
        self._start_wan()
        for node in self.topology.nodes:
            self._connect(node)
        return self

    def __exit__(self, *_):
        if self.wan is not None:
            self.wan.stdin.close()
            self.wan.wait()

    def command(self, node, command):
        """The command as it runs on the node."""
        return ["ip", "netns", "exec", node.name, *command]

    def start(self, node, command, **options):
        return subprocess.Popen(self.command(node, command), **options)

    def stats(self):
        """What each line has carried so far, by name, and the figures of atoll-wan itself."""
        self._tell("stats\n")
        lines, figures = {}, {}
        while True:
            words = self.wan.stdout.readline().split()
            if not words:
                raise Broken("atoll-wan has ended")
            if words == ["end"]:
                return lines, figures
            if words[0] == "line":
                lines[words[1]] = LineCounts(*map(int, words[2:6]), float(words[6]))
            else:
                figures[words[0]] = float(words[1])

    # -- making

    @staticmethod
    def _router(node):
        """The namespace that has the node's wan0."""
        return f"{node.name}.router" if node.nat else node.name

    def _tell(self, text):
        try:
            self.wan.stdin.write(text)
            self.wan.stdin.flush()
        except BrokenPipeError:
            raise Broken("atoll-wan has ended") from None

    def _plan(self):
        topology = self.topology
        yield f"seed {topology.seed}"
        for node in topology.nodes:
            yield f"node {node.name} /run/netns/{self._router(node)} wan0 {node.address}"
        for line in topology.lines():
            yield (f"line {line.name} {line.rate:.0f} {line.delay * 1e6:.3f}us "
                   f"{line.queue * 1e6:.3f}us {line.loss!r}")
        for a in topology.nodes:
            for b in topology.nodes:
                if a is not b:
                    yield f"path {a.name} {b.name} " + \
                        " ".join(line.name for line in topology.path(a, b))
        yield "go"

    def _start_wan(self):
        try:
            self.wan = subprocess.Popen([self.program], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        except OSError as error:
            raise Broken(f"{self.program}: {error.strerror}") from None
        self._tell("".join(line + "\n" for line in self._plan()))
        answer = self.wan.stdout.readline().strip()
        if answer.startswith("impossible: "):
            raise world.Impossible(answer.partition(" ")[2])
        if answer != "ready":
            raise Broken(f"atoll-wan: {answer or 'ended at once'}")

    def _connect(self, node):
        router = self._router(node)
        ip(router, "link set lo up", f"addr add {node.address}/32 dev wan0",
           f"link set wan0 mtu {MTU} txqueuelen {DEVICE_QUEUE} up",
           "route add default dev wan0")
        if node.nat:
            ip(node.name, f"link add eth0 type veth peer name lan0 netns {router}",
               "link set lo up", f"addr add {HOME}.2/24 dev eth0", "link set eth0 up")
            ip(router, f"addr add {HOME}.1/24 dev lan0", "link set lan0 up")
            ip(node.name, f"route add default via {HOME}.1")
            self._set(router, {"net/ipv4/ip_forward": "1"})
            try:
                run(["ip", "netns", "exec", router, "nft", "-f", "-"], NAT_RULES)
            except Broken as broken:
                raise world.Impossible(f"the kernel takes no rules for NAT: {broken}") from None
        # Twice what may be under way: the kernel counts its own overhead against these too.
        wanted = int(2 * self.topology.most_bytes_under_way())
        buffers = min(max(4 << 20, wanted), MOST_BUFFERS)
        self._set(node.name, {"net/ipv4/tcp_rmem": f"4096 131072 {buffers}",
                              "net/ipv4/tcp_wmem": f"4096 65536 {buffers}",
                              # One transfer's end must not be the next one's start.
                              "net/ipv4/tcp_no_metrics_save": "1"})

    @staticmethod
    def _set(namespace, settings):
        script = "".join(f"echo '{value}' > /proc/sys/{key}\n" for key, value in settings.items())
        run(["ip", "netns", "exec", namespace, "sh", "-e", "-c", script])
