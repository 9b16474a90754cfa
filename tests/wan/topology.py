"""A topology file and what it means: nodes, lines and the path from each node to each other.

README.md has the format. Nothing here touches the machine. A file that means nothing is a Wrong
with one line that says where and what.
"""

import dataclasses
import difflib
import heapq
import re
import tomllib

# What a packet may wait before a line, unless the file says otherwise: enough for one TCP stream to
# fill a line of 230 ms round trip (cubic halves nothing, it falls to 70 % and needs 3/7 of it).
DEFAULT_QUEUE = 0.1

COORDINATOR = "coordinator"
NETWORK = "10.77"  # of nobody in the lab's namespaces but the lab

REGION_KEYS = ("peers", "rate", "up", "down", "rtt", "loss", "queue", "nat")
NODE_KEYS = ("rate", "up", "down", "rtt", "loss", "queue", "nat")
LINK_KEYS = ("rate", "rtt", "loss", "queue")


class Wrong(Exception):
    """The file is at fault."""


@dataclasses.dataclass
class Line:
    """One direction. Times in seconds."""
    name: str
    rate: float  # bits a second
    delay: float
    queue: float
    loss: float


@dataclasses.dataclass
class Node:
    name: str
    region: str
    address: str
    up: Line
    down: Line
    nat: bool = False

    @property
    def is_peer(self):
        return self.name != COORDINATOR


@dataclasses.dataclass
class Topology:
    seed: int
    nodes: list  # of Node, the coordinator first
    links: dict  # (region, region) -> Line, one entry a direction
    hops: dict   # (region, region) -> the regions after the first on the way

    def node(self, name):
        for node in self.nodes:
            if node.name == name:
                return node
        raise Wrong(f"there is no node '{name}'{meant(name, [n.name for n in self.nodes])}")

    def path(self, source, target):
        """The lines over which what `source` sends gets to `target`, in order."""
        lines = [source.up]
        here = source.region
        for region in self.hops[(source.region, target.region)]:
            lines.append(self.links[(here, region)])
            here = region
        return lines + [target.down]

    def rtt(self, a, b):
        return sum(line.delay for line in self.path(a, b) + self.path(b, a))

    def lines(self):
        return [line for node in self.nodes for line in (node.up, node.down)] + \
            list(self.links.values())

    def most_bytes_under_way(self):
        """What TCP needs as buffers: the most that may be between two nodes, queues included."""
        return max(min(line.rate for line in path) / 8 *
                   (self.rtt(a, b) + sum(line.queue for line in path))
                   for a in self.nodes for b in self.nodes if a is not b
                   for path in [self.path(a, b)])


def meant(name, names):
    near = difflib.get_close_matches(name, names, 1)
    return f"; did you mean '{near[0]}'?" if near else f"; known: {', '.join(names)}"


# -- values

def quantity(text, units, what):
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*", text) \
        if isinstance(text, str) else None
    if not found or found[2] not in units:
        raise Wrong(f"'{text}' is not a {what}: write a number and one of {', '.join(units)}")
    return float(found[1]) * units[found[2]]


def parse_rate(text):
    rate = quantity(text, {"kbit": 1e3, "Mbit": 1e6, "Gbit": 1e9}, "rate")
    if rate <= 0:
        raise Wrong(f"'{text}': a line carries something")
    return rate


def parse_time(text):
    return quantity(text, {"us": 1e-6, "ms": 1e-3, "s": 1.0}, "time")


def parse_loss(value):
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
        raise Wrong(f"'{value}' is not a loss: write a share, 0.01 for one packet in a hundred")
    return float(value)


def parse_flag(value):
    if not isinstance(value, bool):
        raise Wrong(f"'{value}' is neither true nor false")
    return value


def parse_count(value):
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 200:
        raise Wrong(f"'{value}' is not a number of peers from 0 to 200")
    return value


PARSERS = {"peers": parse_count, "rate": parse_rate, "up": parse_rate, "down": parse_rate,
           "rtt": parse_time, "queue": parse_time, "loss": parse_loss, "nat": parse_flag}


def read_table(where, table, keys):
    values = {}
    for key, value in table.items():
        if key not in keys:
            raise Wrong(f"{where}: there is no '{key}'{meant(key, keys)}")
        try:
            values[key] = PARSERS[key](value)
        except Wrong as wrong:
            raise Wrong(f"{where}.{key}: {wrong}") from None
    return values


def read_tables(document, section, keys):
    tables = document.get(section, {})
    if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
        raise Wrong(f"{section}: write [{section}.NAME]")
    return {name: read_table(f"{section}.{name}", table, keys) for name, table in tables.items()}


# -- meaning

def make_node(name, address, region, base, own):
    """`base` is what the region says, `own` what is said of this node alone."""
    where = f"peer.{name}" if name != COORDINATOR else COORDINATOR
    values = {**base, **own}
    if "rate" in own:  # nearer than the region's own up and down
        for key in ("up", "down"):
            values[key] = own.get(key, own["rate"])
    up, down = values.get("up", values.get("rate")), values.get("down", values.get("rate"))
    if up is None or down is None:
        raise Wrong(f"{where}: needs a rate (or up and down), of its own or of region.{region}")
    # A region's rtt is that between two of its peers, so each has half of it to the region's
    # middle; a node's own rtt is that to such a peer.
    half = base.get("rtt", 0.0) / 2
    to_middle = own["rtt"] - half if "rtt" in own else half
    if to_middle < 0:
        raise Wrong(f"{where}.rtt: shorter than what the other side has of region.{region}'s alone")
    line = {"delay": to_middle / 2, "queue": values.get("queue", DEFAULT_QUEUE),
            "loss": values.get("loss", 0.0)}
    return Node(name, region, address, Line(f"{name}.up", up, **line),
                Line(f"{name}.down", down, **line), values.get("nat", False))


def make_links(tables, regions):
    links = {}
    for name, values in tables.items():
        ends = name.split("-")
        if len(ends) != 2 or ends[0] == ends[1]:
            raise Wrong(f"link.{name}: is named by two regions, like [link.eu-us]")
        for end in ends:
            if end not in regions:
                raise Wrong(f"link.{name}: there is no region '{end}'{meant(end, list(regions))}")
        if "rate" not in values:
            raise Wrong(f"link.{name}: needs a rate")
        for a, b in (ends, ends[::-1]):
            if (a, b) in links:
                raise Wrong(f"link.{name}: there is another between these two")
            links[(a, b)] = Line(f"{a}>{b}", values["rate"], values.get("rtt", 0.0) / 2,
                                 values.get("queue", DEFAULT_QUEUE), values.get("loss", 0.0))
    return links


def shortest_ways(regions, links):
    """Between each two regions the way of the least delay; of equals, of the fewest links."""
    hops = {}
    for start in regions:
        reached, queue = {}, [(0.0, 0, start, ())]
        while queue:
            delay, count, here, way = heapq.heappop(queue)
            if here in reached:
                continue
            reached[here] = way
            for (a, b), line in links.items():
                if a == here and b not in reached:
                    heapq.heappush(queue, (delay + line.delay, count + 1, b, way + (b,)))
        for end in regions:
            if end not in reached:
                raise Wrong(f"no link leads from region '{start}' to region '{end}'")
            hops[(start, end)] = reached[end]
    return hops


def make(document):
    """The topology that a parsed TOML document describes."""
    sections = ("lab", "region", "link", "peer", COORDINATOR)
    for section in document:
        if section not in sections:
            raise Wrong(f"there is no section '{section}'{meant(section, sections)}")
    seed = document.get("lab", {}).get("seed", 1)
    unknown = set(document.get("lab", {})) - {"seed"}
    if unknown or not isinstance(seed, int) or isinstance(seed, bool):
        raise Wrong("[lab] holds a seed, a whole number, and nothing else")
    regions = read_tables(document, "region", REGION_KEYS)
    if not regions:
        raise Wrong("there is no region: write [region.NAME]")
    for name in regions:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            raise Wrong(f"region.{name}: a name is lower-case letters, digits and _")
    own = read_tables(document, "peer", NODE_KEYS)
    coordinator = dict(document.get(COORDINATOR, {}))
    home = coordinator.pop("region", next(iter(regions)))
    if home not in regions:
        raise Wrong(f"coordinator.region: there is no region '{home}'{meant(home, list(regions))}")
    coordinator = read_table(COORDINATOR, coordinator, NODE_KEYS)
    # Everybody has to reach it, whatever the peers of its region are.
    nodes = [make_node(COORDINATOR, f"{NETWORK}.0.1", home, regions[home],
                       {"nat": False, **coordinator})]
    if nodes[0].nat:
        raise Wrong("coordinator.nat: nobody could reach it")
    for index, (region, values) in enumerate(regions.items(), 1):
        for number in range(1, values.get("peers", 0) + 1):
            name = f"{region}-{number}"
            nodes.append(make_node(name, f"{NETWORK}.{index}.{number}", region, values,
                                   own.pop(name, {})))
    if own:
        name = next(iter(own))
        raise Wrong(f"peer.{name}: there is no such peer{meant(name, [n.name for n in nodes[1:]])}")
    links = make_links(read_tables(document, "link", LINK_KEYS), regions)
    return Topology(seed, nodes, links, shortest_ways(regions, links))


def load(path):
    try:
        with open(path, "rb") as source:
            return make(tomllib.load(source))
    except OSError as error:
        raise Wrong(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, Wrong) as error:
        raise Wrong(f"{path}: {error}") from None
