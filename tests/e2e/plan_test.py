"""Would fail if `atoll plan` did not say what a run would take, in words and in JSON, or if a wrong
question did not end in one clear line."""

import json
import os
import tempfile
import unittest

from cluster import atoll

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CONFIG = os.path.join(ROOT, "configs", "wan.toml")
TOPOLOGY = os.path.join(ROOT, "tests", "wan", "topologies", "three-regions.toml")

NAT = os.path.join(ROOT, "tests", "wan", "topologies", "four-nat.toml")


class PlanTest(unittest.TestCase):

    def plan(self, *arguments, timeout=60):
        return atoll("plan", "--config", CONFIG, *arguments, timeout=timeout)

    def answer(self, *arguments, timeout=60):
        done = self.plan(*arguments, "--json", "-", timeout=timeout)
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout)

    def refused(self, *arguments):
        done = self.plan(*arguments)
        said = (done.stdout + done.stderr).strip()
        self.assertEqual(2, done.returncode, said)
        return said

    def test_text_has_a_line_for_each_plan_and_codec(self):
        # Would fail if the text left out a codec, or did not name the fastest.
        done = self.plan("--peers", "4")
        self.assertEqual(0, done.returncode, done.stderr)
        lines = done.stdout.splitlines()
        self.assertIn("4,000,000 parameters, 4 peers", lines[0])
        for codec in ("fp32", "fp16", "bf16", "int8", "int4", "int2"):
            rows = [line for line in lines if line.startswith("flat") and f" {codec} " in line]
            self.assertEqual(1, len(rows), done.stdout)
        self.assertEqual(1, sum(line.endswith("fastest") for line in lines), done.stdout)

    def test_json_says_the_same_and_fewer_bytes_take_less_time(self):
        # Would fail if the numbers had nothing to do with what is sent.
        answer = self.answer("--peers", "4")
        self.assertEqual(4, answer["peers"])
        self.assertEqual(4000000, answer["parameters"])
        flat = {one["codec"]: one for one in answer["candidates"]
                if one["plan"] == "flat" and one["upper_codec"] == one["codec"]}
        # 2 (n - 1) / n of the values, each 4 bytes.
        self.assertAlmostEqual(24e6, flat["fp32"]["bytes_sent_per_peer"], delta=24e6 * 0.01)
        self.assertLess(flat["int8"]["bytes_sent_per_peer"],
                        0.27 * flat["fp32"]["bytes_sent_per_peer"])
        self.assertLess(flat["int8"]["exchange_seconds"], flat["fp32"]["exchange_seconds"] / 2)
        self.assertTrue(flat["int8"]["of_config"])
        # Updates as int8 and means as int4: half of the bytes of each.
        mixed = [one for one in answer["candidates"] if one["plan"] == "flat"
                 and (one["codec"], one["upper_codec"]) == ("int8", "int4")]
        each = [flat[codec]["bytes_sent_per_peer"] for codec in ("int8", "int4")]
        self.assertAlmostEqual(mixed[0]["bytes_sent_per_peer"], sum(each) / 2, delta=1e3)
        for one in answer["candidates"]:
            self.assertAlmostEqual(one["round_seconds"],
                                   answer["train_seconds"] + one["exchange_seconds"], places=6)

    def test_modes_are_told_where_a_step_has_a_time(self):
        # Would fail if a mode's figures did not go together, or nobody said which one to take.
        answer = self.answer("--peers", "4", "--rate", "100Mbit", "--utilisation", "0.9")
        modes = answer["modes"]["modes"]
        self.assertEqual({"sync", "streaming", "eager", "delayed", "async"},
                         {one["mode"] for one in modes})
        for one in modes:
            self.assertAlmostEqual(answer["train_seconds"] / one["round_seconds"],
                                   one["compute_utilization"], places=6)
        chosen = [one for one in modes if one["auto"]]
        self.assertEqual(1, len(chosen), modes)
        self.assertGreaterEqual(chosen[0]["compute_utilization"], 0.9)
        self.assertIn(f'kind = "{chosen[0]["mode"]}"', answer["modes"]["auto"])
        said = self.plan("--peers", "4", "--rate", "100Mbit", "--utilisation", "0.9").stdout
        self.assertIn("steps for 90 %", said)
        self.assertIn(f'\nauto: {answer["modes"]["auto"]}\n', said)
        self.assertIn("--utilisation", self.refused("--utilisation", "1.5"))

    def test_a_topology_brings_regions_and_the_line_that_limits(self):
        # Would fail if the file were not what is predicted: its peers, its links.
        answer = self.answer("--topology", TOPOLOGY)
        self.assertEqual(5, answer["peers"])
        self.assertEqual(3, answer["regions"])
        by_plan = {one["plan"]: one for one in answer["candidates"]
                   if one["codec"] == one["upper_codec"] == "int8"}
        self.assertLess(by_plan["regions"]["bytes_between_regions"],
                        by_plan["flat"]["bytes_between_regions"])
        self.assertIn("eu>us", by_plan["flat"]["bytes_by_link"])

    def test_a_crowd_behind_nat_gets_an_aggregator_or_is_told_what_it_waits_for(self):
        # Would fail if a run that works were refused, or one that only waits were predicted.
        answer = self.answer("--topology", NAT)
        self.assertTrue(answer["aggregator"])
        self.assertEqual(4, answer["peers"])
        self.assertEqual({"flat"}, {one["plan"] for one in answer["candidates"]})
        of_config = [one for one in answer["candidates"] if one["of_config"]]
        self.assertEqual("aggregator down", of_config[0]["limited_by"])
        with tempfile.TemporaryDirectory(prefix="atoll-e2e-") as folder:
            path = os.path.join(folder, "never.toml")
            with open(CONFIG, encoding="utf-8") as source, open(path, "w", encoding="utf-8") as out:
                out.write(source.read() + '\n[coordinator]\naggregator = "never"\n')
            done = atoll("plan", "--config", path, "--topology", NAT)
            self.assertEqual(2, done.returncode, done.stdout)
            said = (done.stdout + done.stderr).strip()
            self.assertEqual(1, len(said.splitlines()), said)
            self.assertIn("no reachable peer to make version 0: home-1, home-2, home-3, home-4 "
                          "have no address that others can dial", said)

    def test_a_thousand_peers_are_answered_and_what_no_message_carries_is_refused(self):
        # Would fail if the prediction took the square of the peers, ran out of memory, or promised
        # a run that its coordinator refuses.
        answer = self.answer("--peers", "1000", timeout=120)
        self.assertEqual(1000, answer["peers"])
        self.assertTrue(answer["candidates"])
        self.assertIn("fewer peers ([run] peers)", self.refused("--peers", "10000"))

    def test_json_goes_to_a_file_too(self):
        # Would fail if a script that names a file got none, or half of one.
        with tempfile.TemporaryDirectory(prefix="atoll-e2e-") as folder:
            path = os.path.join(folder, "plan.json")
            done = self.plan("--peers", "3", "--json", path)
            self.assertEqual(0, done.returncode, done.stderr)
            self.assertIn("3 peers", done.stdout)
            with open(path, encoding="utf-8") as source:
                self.assertEqual(3, json.load(source)["peers"])

    def test_a_wrong_question_is_refused_by_name(self):
        # Would fail if a slip were predicted as something else, or took a stack trace to find.
        self.assertIn("--rate", self.refused("--rate", "fast"))
        self.assertIn("--rtt", self.refused("--rtt", "20"))
        self.assertIn("--peers", self.refused("--peers", "0"))
        self.assertIn("--peers", self.refused("--peers", "3", "--topology", TOPOLOGY))
        self.assertIn("/nowhere.toml", self.refused("--topology", "/nowhere.toml"))
        # Its snapshots could be described in no file.
        self.assertIn("a smaller model", self.refused("--parameters", "300000000000"))
        done = atoll("plan", "--config", "/nowhere.toml")
        self.assertEqual(2, done.returncode)
        self.assertIn("/nowhere.toml", done.stdout + done.stderr)
        with tempfile.TemporaryDirectory(prefix="atoll-e2e-") as folder:
            path = os.path.join(folder, "topology.toml")
            with open(path, "w", encoding="utf-8") as out:
                out.write('[region.a]\npeers = 2\nrate = "1Gbit"\nspeed = 3\n')
            said = self.refused("--topology", path)
            self.assertIn(f"{path}:4", said)
            self.assertEqual(1, len(said.splitlines()), said)


if __name__ == "__main__":
    unittest.main()
