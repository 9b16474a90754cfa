#!/usr/bin/env python3
"""How long a run with two coordinators stands still when the one that leads is killed or stopped.

    ATOLL_BIN=build/release/bin python3 tests/bench/failover_benchmark.py

Needs etcd (scripts/etcd build/etcd). Starts three members of etcd, two coordinators and three peers
whose workers only let time pass, on loopback. Kills the leader --kills times (SIGKILL), and starts
it again once the other one has committed a round; then stops the leader --stops times (SIGSTOP),
and lets it go on. Prints one JSON object:

    lease_seconds, failure_timeout_seconds
    killed, stopped     seconds from the signal to the next round that the other one commits: count,
                        median, worst
    versions, lost      announced in the end; and how many headers were not what had been announced
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


class Failovers:
    def __init__(self, cluster):
        self.cluster = cluster
        self.leader = 0
        self.lost = 0

    def fail(self, number):
        """Seconds until the other one commits, which leads from then on."""
        old, new = self.leader, 1 - self.leader
        announced = self.cluster.headers()
        size = os.path.getsize(self.cluster.log_path(new))
        began = time.monotonic()
        self.cluster.signal(old, number)
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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--stops", type=int, default=5)
    options = parser.parse_args()
    if etcd_program() is None:
        sys.exit("no etcd: scripts/etcd build/etcd fetches it")
    cluster = Coordinators()
    try:
        cluster.wait_version(3)
        failovers = Failovers(cluster)
        killed = [failovers.kill() for _ in range(options.kills)]
        stopped = [failovers.stop() for _ in range(options.stops)]
        print(json.dumps({"lease_seconds": 2, "failure_timeout_seconds": 2,
                          "killed": summary(killed), "stopped": summary(stopped),
                          "versions": cluster.version(), "lost": failovers.lost}))
    finally:
        cluster.close()


if __name__ == "__main__":
    main()
