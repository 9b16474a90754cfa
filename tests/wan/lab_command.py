"""The verbs of tests/wan/lab."""

import argparse
import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time

import check
import network
import topology
import train
import world

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def binary(name):
    folder = os.environ.get("ATOLL_BIN") or os.path.join(ROOT, "build", "release", "bin")
    path = os.path.abspath(os.path.join(folder, name))
    if not os.access(path, os.X_OK):
        raise network.Broken(f"needs {path}: build the target {name}, or set ATOLL_BIN")
    return path


def in_the_lab(plan, action):
    """Makes the network in a world of its own, calls action(network), and returns its exit code."""
    programs = {"ip": "iproute2", "mount": "mount"}
    if any(node.nat for node in plan.nodes):
        programs["nft"] = "nftables"
    world.check_machine(programs)
    program = binary("atoll-wan")
    world.enter()
    with network.Network(plan, program) as lab:
        return action(lab)


# -- check

def run_check(lab, options):
    begin = time.monotonic()
    results = []
    print(check.HEADER)
    for one in check.measure(lab, options.seconds):
        results.append(one)
        print(check.row(one), flush=True)
    print()
    for line in check.traffic_table(lab, time.monotonic() - begin):
        print(line)
    if options.json:
        rows = [{**dataclasses.asdict(one), "good": one.good} for one in results]
        train.write_json(options.json, rows)
    wrong = sum(not one.good for one in results)
    print(f"\n{len(results)} paths measured, {wrong} of them not as configured "
          f"(rate within {check.RATE_TOLERANCE:.0%}, rtt within {check.RTT_TOLERANCE:.0%})")
    return 1 if wrong else 0


# -- run

def environment(lab, node):
    coordinator = lab.topology.node(topology.COORDINATOR)
    return {**os.environ, "ATOLL_NODE": node.name, "ATOLL_REGION": node.region,
            "ATOLL_ADDRESS": node.address, "ATOLL_COORDINATOR": coordinator.address}


def pass_on(name, width, stream):
    for line in stream:
        print(f"{name:<{width}} | {line}", end="" if line.endswith("\n") else "\n", flush=True)


def run_command(lab, options):
    nodes = [lab.topology.node(name) for name in options.on] or lab.topology.nodes
    width = max(len(node.name) for node in nodes)
    begin = time.monotonic()
    started = []
    for node in nodes:
        process = lab.start(node, options.command, env=environment(lab, node),
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, errors="replace")
        reader = threading.Thread(target=pass_on, args=(node.name, width, process.stdout),
                                  daemon=True)  # the end of the lab does not wait for it
        reader.start()
        started.append((node, process, reader))
    failed = 0
    for node, process, reader in started:
        code = process.wait()
        reader.join()
        if code != 0:
            failed += 1
            print(f"{node.name:<{width}} | exit {code}")
    print()
    for line in check.traffic_table(lab, time.monotonic() - begin):
        print(line)
    return 1 if failed else 0


def run_drive(lab, options):
    """A command once, beside the nodes: it enters them itself, by `ip netns exec NODE`."""
    nodes = " ".join(f"{node.name}={node.address}" for node in lab.topology.nodes)
    begin = time.monotonic()
    process = subprocess.Popen(options.command, env={**os.environ, "ATOLL_LAB_NODES": nodes})
    # It ends in order, and the lab after it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: process.send_signal(number))
    code = process.wait()
    # The command's own output may be read by a program.
    if not options.quiet:
        print(file=sys.stderr)
        for line in check.traffic_table(lab, time.monotonic() - begin):
            print(line, file=sys.stderr)
    return code if code >= 0 else 128 - code


def run_shell(lab, options):
    node = lab.topology.node(options.node)
    shell = os.environ.get("SHELL") or "/bin/sh"
    return subprocess.call(lab.command(node, [shell]), env=environment(lab, node))


# -- the call

def parse(documentation, arguments):
    parser = argparse.ArgumentParser(prog="lab", description=documentation,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)

    def verb(name):
        one = verbs.add_parser(name)
        one.add_argument("topology")
        return one

    verb("show")
    one = verb("check")
    one.add_argument("--seconds", type=float, default=2.0, help="of each stream that is measured")
    one.add_argument("--json")
    one = verb("run")
    one.add_argument("--on", action="append", default=[], metavar="NODE")
    one.add_argument("command", nargs="+")
    one = verb("drive")
    one.add_argument("--quiet", action="store_true", help="no traffic of the lines at the end")
    one.add_argument("command", nargs="+")
    verb("shell").add_argument("node")
    one = verb("train")
    one.add_argument("--config", required=True)
    one.add_argument("--rounds", type=int, default=5)
    one.add_argument("--kill", metavar="NODE@ROUND",
                     help="kill the peer in that round's exchange, or a later one")
    one.add_argument("--dir", help="where everything is kept; without it nothing is")
    one.add_argument("--json")
    return parser.parse_args(arguments)


def main(documentation, arguments):
    # Where ip and nft are; a plain `su` leaves it out.
    os.environ["PATH"] = os.environ.get("PATH", "") + os.pathsep + "/usr/sbin"
    options = parse(documentation, arguments)
    try:
        plan = topology.load(options.topology)
        if options.verb == "show":
            for line in check.plan_table(plan):
                print(line)
            return 0
        for name in getattr(options, "on", []) + [getattr(options, "node", topology.COORDINATOR)]:
            plan.node(name)
        if options.verb == "train":
            run = train.prepare(plan, options, binary)
            return in_the_lab(plan, run.start)
        action = {"check": run_check, "run": run_command, "drive": run_drive,
                  "shell": run_shell}[options.verb]
        return in_the_lab(plan, lambda lab: action(lab, options))
    except topology.Wrong as wrong:
        print(f"lab: {wrong}", file=sys.stderr)
        return 2
    except world.Impossible as impossible:
        print(f"lab: {impossible}", file=sys.stderr)
        return world.SKIPPED
    except network.Broken as broken:
        print(f"lab: {broken}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # whoever read this has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
