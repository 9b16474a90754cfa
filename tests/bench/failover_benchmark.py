#!/usr/bin/env python3
"""How long a run with two coordinators stands still when the one that leads is killed or stopped.

    ATOLL_BIN=build/release/bin python3 tests/bench/failover_benchmark.py [--runs 10]

Needs etcd (scripts/etcd build/etcd). Starts three members of etcd (heartbeats each 50 ms, elections
after 500 ms), two coordinators and three peers whose workers only let time pass, on loopback. Kills
the leader --kills times (SIGKILL), and starts it again once the other one has committed a round;
then --both times the leader and etcd's own leader at once; then stops the leader --stops times
(SIGSTOP), and lets it go on. In the end the run is stopped, and the peers' states are compared. All
of it --runs times, each time from nothing. Prints one JSON object:

    lease_seconds, failure_timeout_seconds
    killed, both, stopped   seconds from the signal to the next round that the other one commits:
                            count, median, worst
    versions, lost          announced in the end; and how many headers were not what had been
                            announced before a failure
    forks                   runs whose peers did not end with one state
"""

import argparse
import json
import os
import signal
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
from cluster import wait_for  # noqa: E402
from coordinators import Coordinators  # noqa: E402
from etcd_members import etcd_program  # noqa: E402

COMMITTED = ": committed by"
ETCD_OPTIONS = ("--heartbeat-interval=50", "--election-timeout=500")


class Failovers:
    def __init__(self, cluster):
        self.cluster = cluster
        self.leader = 0
        self.lost = 0

    def fail(self, number, member=None):
        """Seconds until the other one commits, which leads from then on. `member`: of etcd, to be
        killed too."""
        old, new = self.leader, 1 - self.leader
        announced = self.cluster.headers()
        size = os.path.getsize(self.cluster.log_path(new))
        began = time.monotonic()
        self.cluster.signal(old, number)
        if member is not None:
            self.cluster.etcd.kill(member)
        with open(self.cluster.log_path(new), encoding="utf-8") as log:
            log.seek(size)
            told = ""
            while COMMITTED not in told:
                told += log.read()
                if time.monotonic() > began + 60:
                    raise AssertionError(f"nobody took over: {told}")
                time.sleep(0.005)
        took = time.monotonic() - began
        self.leader = new
        self.lost += sum(before != after
                         for before, after in zip(announced, self.cluster.headers()))
        return took

    def kill(self):
        old = self.leader
        took = self.fail(signal.SIGKILL)
        self.cluster.start(old)
        self.wait_standby(old)
        return took

    def kill_both(self):
        etcd, old = self.cluster.etcd, self.leader
        wait_for("etcd has a leader", lambda: etcd.leader() is not None)
        member = etcd.leader()
        took = self.fail(signal.SIGKILL, member)
        etcd.start(member)
        wait_for("etcd is whole", etcd.whole)
        self.cluster.start(old)
        self.wait_standby(old)
        return took

    def stop(self):
        old = self.leader
        took = self.fail(signal.SIGSTOP)
        self.cluster.signal(old, signal.SIGCONT)
        self.wait_standby(old)
        return took

    def wait_standby(self, number):
        wait_for("the former leader waits",
                 lambda: self.cluster.log(number).rstrip().endswith("leads; waiting"))
        self.cluster.wait_version(self.cluster.version() + 2)


def summary(seconds):
    if not seconds:
        return {"count": 0}
    return {"count": len(seconds), "median": round(statistics.median(seconds), 2),
            "worst": round(max(seconds), 2)}


def run(options, told):
    """One run from nothing to its end, into `told`."""
    cluster = Coordinators(etcd_options=ETCD_OPTIONS)
    try:
        cluster.wait_version(3)
        failovers = Failovers(cluster)
        for what, count, fail in (("killed", options.kills, failovers.kill),
                                  ("both", options.both, failovers.kill_both),
                                  ("stopped", options.stops, failovers.stop)):
            told[what] += [fail() for _ in range(count)]
        told["versions"] += cluster.version()
        told["lost"] += failovers.lost
        told["forks"] += len(cluster.digests()) != 1
    except BaseException:
        sys.stderr.write(cluster.tails())
        raise
    finally:
        cluster.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--both", type=int, default=5)
    parser.add_argument("--stops", type=int, default=5)
    options = parser.parse_args()
    if etcd_program() is None:
        sys.exit("no etcd: scripts/etcd build/etcd fetches it")
    told = {"killed": [], "both": [], "stopped": [], "versions": 0, "lost": 0, "forks": 0}
    for number in range(options.runs):
        run(options, told)
        print(f"run {number + 1} of {options.runs}: "
              f"{ {name: value for name, value in told.items() if isinstance(value, int)} }",
              file=sys.stderr, flush=True)
    print(json.dumps({"lease_seconds": 2, "failure_timeout_seconds": 2, **{
        name: summary(value) if isinstance(value, list) else value
        for name, value in told.items()}}))


if __name__ == "__main__":
    main()
