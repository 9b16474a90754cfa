"""Measures the lab's paths and puts what was configured beside it."""

import dataclasses
import json
import os
import subprocess
import sys

import network

MEASURE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "measure.py")

# Of an MTU's bytes a program gets this share; the rest is headers.
GOODPUT = (network.MTU - network.SEGMENT_HEADERS) / network.MTU
RATE_TOLERANCE = 0.10
RTT_TOLERANCE = 0.15
# What the kernels' own work and a scheduler add to any round trip, however short.
RTT_FLOOR = 0.0005


@dataclasses.dataclass
class Measured:
    source: str
    target: str
    limit: str      # the line that sets the rate
    rate: float     # configured, bits a second
    got: float      # a program's bits a second
    rtt: float      # seconds; 0 in the second direction of a pair
    got_rtt: float
    lossy: bool

    @property
    def rate_error(self):
        return self.got / (self.rate * GOODPUT) - 1

    @property
    def rtt_error(self):
        return self.got_rtt / self.rtt - 1 if self.rtt else 0.0

    @property
    def good(self):
        late = self.got_rtt - self.rtt
        return (self.lossy or abs(self.rate_error) <= RATE_TOLERANCE) and (
            not self.rtt or 0 <= late <= max(RTT_FLOOR, RTT_TOLERANCE * self.rtt))


def pairs(plan):
    """(prober, server) so that each node's line and each link is on one of the paths. One behind
    NAT probes; of a link the ends are the regions' fastest."""
    found = []
    reachable = {}
    for node in sorted(plan.nodes, key=lambda n: -min(n.up.rate, n.down.rate)):
        if not node.nat:
            reachable.setdefault(node.region, []).append(node)
    for node in plan.nodes:
        others = [one for one in reachable.get(node.region, []) if one is not node]
        if not others:
            others = [one for region in reachable.values() for one in region if one is not node]
        if others and not any(node.name in (a.name, b.name) for a, b in found):
            found.append((node, others[0]))
    for a, b in plan.links:
        if a < b and a in reachable and b in reachable:
            pair = (reachable[a][0], reachable[b][0])
            if pair not in found and pair[::-1] not in found:
                found.append(pair)
    return found


def measure_pair(lab, prober, server, seconds):
    plan = lab.topology
    rtt = plan.rtt(prober, server)
    # A stream is at its rate after the slow start's rounds and what its first losses cost.
    warm = 0.5 + 20 * rtt
    process = lab.start(server, [sys.executable, MEASURE, "serve"], stdout=subprocess.PIPE,
                        text=True)
    try:
        if process.stdout.readline().strip() != "ready":
            raise network.Broken(f"{server.name}: cannot listen")
        done = subprocess.run(
            lab.command(prober, [sys.executable, MEASURE, "probe", server.address,
                                 str(warm), str(seconds)]),
            capture_output=True, text=True, check=False)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    if done.returncode != 0:
        raise network.Broken(f"{prober.name} -> {server.name}: {done.stderr.strip()}")
    got = json.loads(done.stdout)
    for source, target, key in ((prober, server, "up"), (server, prober, "down")):
        path = plan.path(source, target)
        limit = min(path, key=lambda line: line.rate)
        first = key == "up"
        yield Measured(source.name, target.name, limit.name, limit.rate, 8 * got[key],
                       rtt if first else 0.0, got["rtt"] if first else 0.0,
                       any(line.loss for line in path))


def measure(lab, seconds=2.0):
    for prober, server in pairs(lab.topology):
        yield from measure_pair(lab, prober, server, seconds)


HEADER = (f"{'from':<14}{'to':<14}{'limited by':<18}{'rate':>10}{'stream':>10}{'share':>8}"
          f"{'rtt':>10}{'measured':>10}")


def row(one):
    text = (f"{one.source:<14}{one.target:<14}{one.limit:<18}{rate_text(one.rate):>10}"
            f"{rate_text(one.got):>10}{one.got / one.rate:>8.1%}")
    if one.rtt or one.got_rtt:
        text += f"{one.rtt * 1e3:>7.1f} ms{one.got_rtt * 1e3:>7.2f} ms"
    if one.lossy:
        return text + ("  lossy" if one.good else "  lossy, WRONG")
    return text + ("" if one.good else "  WRONG")


def rate_text(rate):
    for size, unit in ((1e9, "Gbit"), (1e6, "Mbit"), (1e3, "kbit")):
        if rate >= size:
            return f"{rate / size:.4g} {unit}"
    return f"{rate:.0f} bit"


def bytes_text(count):
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def plan_table(plan):
    """The lines as they are configured."""
    yield f"{'line':<22}{'rate':>12}{'delay':>10}{'queue':>10}{'loss':>8}"
    for line in plan.lines():
        yield (f"{line.name:<22}{rate_text(line.rate):>12}{line.delay * 1e3:>7.1f} ms"
               f"{bytes_text(line.rate / 8 * line.queue):>10}{line.loss:>8.2%}")
    for node in plan.nodes:
        nat = ", behind NAT" if node.nat else ""
        yield f"{node.name:<22}{node.address} in {node.region}{nat}"


def traffic_table(lab, seconds):
    """What each line has carried, and whether the machine kept up."""
    lines, figures = lab.stats()
    yield (f"{'line':<22}{'carried':>10}{'packets':>10}{'busy':>8}{'longest wait':>14}"
           f"{'queue full':>12}{'lost':>8}")
    for line in lab.topology.lines():
        one = lines[line.name]
        busy = one.bytes * 8 / line.rate / seconds
        yield (f"{line.name:<22}{bytes_text(one.bytes):>10}{one.packets:>10}{busy:>8.1%}"
               f"{one.longest_wait * 1e3:>11.1f} ms{one.dropped:>12}{one.lost:>8}")
    share = figures["late_wakes"] / max(1.0, figures["wakes"])
    yield (f"atoll-wan: {figures['cpu_seconds'] / seconds:.2f} cores of this machine; "
           f"{share:.2%} of its deliveries over 1 ms late, "
           f"the latest {figures['latest_seconds'] * 1e3:.1f} ms; "
           f"at most {bytes_text(int(figures['most_bytes_under_way']))} under way")
