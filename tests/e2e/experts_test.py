"""Would fail if a run with owners of experts did not train, led replicas apart, took an expert's
mean over peers that do not own it, or left an expert without owners when one dies or joins."""

import json
import os
import subprocess
import unittest

from cluster import BIN, Cluster, atoll, equal_digests, token_file, wait_for
from text_case import TextCase

EXPERTS = 8
OWNERS = 2
CHUNK = 4096
# Of one layer: embedding, attention, router and norms; and each expert's three matrices.
SHARED = 256 * 64 + (64 + 32 + 32 + 64) * 64 + EXPERTS * 64 + 3 * 64 + 2 * 16
OF_EXPERT = 3 * 64 * 64
SHARED_CHUNKS = -(-SHARED // CHUNK)
EXPERT_CHUNKS = -(-OF_EXPERT // CHUNK)

CONFIG = """
[run]
rounds = 100000
peers = 3
quorum = 2
[model]
kind = "llama"
family = "qwen3_moe"
layers = 1
heads = 4
kv_heads = 2
width = 64
context = 32
experts = 8
experts_per_token = 2
expert_hidden = 64
router_loss = 0.01
[experts]
owners = 2
[data]
path = "{text}"
[inner]
steps = 5
batch = 4
learning_rate = 3e-3
warmup_steps = 8
[exchange]
codec = "int8"
chunk_elements = 4096
[evaluation]
tokens = 2048
every_rounds = 1000
[membership]
failure_timeout = "3s"
stragglers = "wait"
[peer]
snapshot_every = 10
"""


def expert_of(chunk):
    """The position of the expert to which the chunk belongs, or None for a shared one."""
    return None if chunk < SHARED_CHUNKS else (chunk - SHARED_CHUNKS) // EXPERT_CHUNKS


class ExpertsTest(TextCase):

    def owners(self, cluster):
        """The owners of each expert by its number, as `atoll run show` tells them."""
        status = cluster.status() or {}
        return {one["number"]: one["owners"] for one in status.get("experts", [])}

    def wait_owners(self, cluster, names):
        """Waits until every expert has its owners, all of them and only they among `names`."""
        def owned():
            owners = self.owners(cluster)
            fine = (sorted(owners) == list(range(EXPERTS)) and
                    all(len(set(of)) == OWNERS for of in owners.values()) and
                    {name for of in owners.values() for name in of} == set(names))
            return owners if fine else None
        return wait_for(f"{', '.join(names)} own all experts", owned)

    def join(self, cluster, name):
        made = atoll("token", "create", "--dir", cluster.dir, "--peer", name, "--json")
        self.assertEqual(0, made.returncode, made.stderr)
        path = token_file(self.at("token"), json.loads(made.stdout)["token"])
        with open(self.at("late.log"), "w", encoding="utf-8") as log:
            cluster.restarted.append(subprocess.Popen(
                [os.path.join(BIN, "atolld"), "join", "--token-file", path, "--data", self.text,
                 "--dir", self.at(name)], stdout=log, stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL))

    def check_header(self, header):
        """Returns the names of each set by chunk; checks them against what the updates cover."""
        updates = header["contributors"]
        sets = []
        for run in header["runs"]:
            self.assertEqual(run["first_chunk"], len(sets), header)
            sets += [set(header["sets"][run["set"]])] * run["chunks"]
        self.assertEqual(SHARED_CHUNKS + EXPERTS * EXPERT_CHUNKS, len(sets))
        for chunk, members in enumerate(sets):
            expert = expert_of(chunk)
            covering = {i for i, update in enumerate(updates)
                        if expert is None or expert in update["owned"]}
            self.assertLessEqual(members, covering, f"chunk {chunk} of {header}")
            # Another owner is left whoever dies, so no expert stands still.
            self.assertTrue(members, f"chunk {chunk} of {header}")
        return sets

    def check_log(self, folder):
        listed = atoll("log", "list", "--dir", folder, "--json")
        self.assertEqual(0, listed.returncode, listed.stderr)
        headers = json.loads(listed.stdout)
        self.assertTrue(headers)
        smaller = 0
        for header in headers:
            sets = self.check_header(header)
            whole = len(sets[0])
            smaller += any(len(one) < whole for one in sets[SHARED_CHUNKS:])
        return headers, smaller

    def test_owners_die_join_and_come_back(self):
        with Cluster(peers=3, text=CONFIG.format(text=self.text)) as cluster:
            cluster.wait_version(3)
            owners = self.wait_owners(cluster, ["peer-1", "peer-2", "peer-3"])
            share = -(-EXPERTS * OWNERS // 3)
            for name in ("peer-1", "peer-2", "peer-3"):
                self.assertLessEqual(sum(name in of for of in owners.values()), share, owners)
            shown = atoll("run", "show", "--dir", cluster.dir)
            self.assertRegex(shown.stdout, r"experts +peer-1 owns \d")

            # An owner dies: the others take over what it had, in the round after at the latest.
            cluster.wait_mid_round(cluster.version())
            cluster.kill("peer-3")
            self.wait_owners(cluster, ["peer-1", "peer-2"])
            cluster.wait_version(cluster.version() + 2)

            # Another peer joins, and is given a share.
            self.join(cluster, "late")
            self.wait_owners(cluster, ["peer-1", "peer-2", "late"])
            wait_for("its updates count",
                     lambda: (cluster.peer("late") or {}).get("rounds_contributed", 0) > 1)

            # The dead one comes back to a state that has moved on.
            cluster.restart("peer-3")
            self.wait_owners(cluster, ["peer-1", "peer-2", "peer-3", "late"])
            cluster.wait_version(cluster.version() + 3)
            self.assertEqual(0, atoll("run", "stop", "--dir", cluster.dir).returncode)
            report = cluster.finish(seconds=60)
            self.assertTrue(equal_digests(report), json.dumps(report["peers"]))
            self.assertLess(report["final_val_loss"], report["initial_val_loss"] - 0.5)

            # A replay of each log from its oldest snapshot leads to the same state.
            cluster.restarted[0].wait(timeout=20)
            for folder in (self.at("late"), cluster.process_of("peer-1")["dir"],
                           cluster.process_of("peer-3")["dir"]):
                done = atoll("log", "verify", "--dir", folder, "--json")
                self.assertEqual(0, done.returncode, done.stderr)
                self.assertEqual(report["state_digest"], json.loads(done.stdout)["state_digest"])
            headers, smaller = self.check_log(cluster.process_of("peer-1")["dir"])
            self.assertGreater(smaller, 0, "every expert was trained by every peer")
            self.assertEqual({"peer-1", "peer-2", "peer-3", "late"},
                             {one["peer"] for one in headers[-1]["contributors"]})


if __name__ == "__main__":
    unittest.main()
