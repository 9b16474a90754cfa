"""Would fail if Prometheus could not read what a coordinator and a peer serve, if the dashboard or
an alarm asked for what nobody serves, if an alarm did not work, or if a JSON log had other lines.

Needs the programs prometheus and promtool: in ATOLL_PROMETHEUS, in build/prometheus of the source
tree (scripts/prometheus puts them there) or in PATH. Skips without them.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import unittest
import urllib.error
import urllib.parse
import urllib.request

from cluster import Cluster, free_port, wait_for

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CONFIGS = os.path.join(SOURCE, "configs")
# What nobody can measure on loopback, or in a run of seconds: a line without a limit is unknown.
UNKNOWN_HERE = {"atoll_run_round_predicted_seconds", "atoll_link_measured_bytes_per_second",
                "atoll_link_predicted_bytes_per_second", "atoll_link_latency_seconds",
                "atoll_peer_up_bytes_per_second", "atoll_peer_down_bytes_per_second"}
NAME = re.compile(r"\b(?:atoll|process)_[a-z_]+[a-z]\b")

CONFIG = """
[run]
id = "watched"
rounds = 1000000
peers = 2
quorum = 1
[model]
kind = "stub"
parameters = 200000
[inner]
steps = 5
step_time = "20ms"
[evaluation]
every_rounds = 1
[membership]
failure_timeout = "3s"
[peer]
region = "eu"
[http]
listen = "127.0.0.1:{port}"
"""


def folder_of_programs():
    places = [os.environ.get("ATOLL_PROMETHEUS", ""), os.path.join(SOURCE, "build", "prometheus"),
              os.path.dirname(shutil.which("promtool") or "")]
    for place in places:
        if place and all(os.access(os.path.join(place, name), os.X_OK)
                         for name in ("prometheus", "promtool")):
            return place
    return None


PROGRAMS = folder_of_programs()


def promtool(*arguments, given=None):
    done = subprocess.run([os.path.join(PROGRAMS, "promtool"), *arguments], input=given, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
    return done.returncode, done.stdout


def read(path):
    with open(path, encoding="utf-8") as source:
        return source.read()


def fetch(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def with_key(config, section, key, value):
    """A config with one key set."""
    lines = config.splitlines()
    if f"[{section}]" not in lines:
        return f"{config}\n[{section}]\n{key} = {value}\n"
    begin = lines.index(f"[{section}]") + 1
    end = next((at for at in range(begin, len(lines)) if lines[at].startswith("[")), len(lines))
    rest = [line for line in lines[begin:end] if not re.match(rf"{key}\s*=", line)]
    return "\n".join([*lines[:begin], f"{key} = {value}", *rest, *lines[end:]]) + "\n"


class Server:
    """A Prometheus that reads the coordinator and peer-1 with the configs of the source tree."""

    def __init__(self, top, coordinator, peer):
        self.address = f"127.0.0.1:{free_port()}"
        config = read(os.path.join(CONFIGS, "prometheus", "prometheus.yml"))
        for printed, stands, times in (("127.0.0.1:7080", coordinator, 1), ("15s", "500ms", 2),
                                       ("127.0.0.1:7081", peer, 1)):
            assert config.count(printed) == times, printed
            config = config.replace(printed, stands)
        folder = os.path.join(top, "prometheus")
        os.makedirs(folder)
        shutil.copy(os.path.join(CONFIGS, "prometheus", "alerts.yml"), folder)
        path = os.path.join(folder, "prometheus.yml")
        with open(path, "w", encoding="utf-8") as out:
            out.write(config)
        self.log = open(os.path.join(folder, "log.txt"), "w", encoding="utf-8")
        self.process = subprocess.Popen(
            [os.path.join(PROGRAMS, "prometheus"), f"--config.file={path}",
             f"--storage.tsdb.path={folder}/data", f"--web.listen-address={self.address}",
             "--log.level=warn"], stdin=subprocess.DEVNULL, stdout=self.log,
            stderr=subprocess.STDOUT, cwd=folder)

    def ask(self, path, **parameters):
        """The data of an answer; AssertionError with the server's words where it refuses."""
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            return json.loads(fetch(url))["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    def query(self, expression):
        return self.ask("query", query=expression)["result"]

    def is_ready(self):
        """None where it does not listen yet, or answers 503 as it does until it can be asked."""
        try:
            return fetch(f"http://{self.address}/-/ready")
        except OSError:
            return None

    def is_up(self, job):
        return self.query(f'up{{job="{job}"}} == 1')

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=20)
        self.log.close()


class PrometheusTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.coordinator = f"127.0.0.1:{free_port()}"
        cls.peer = f"127.0.0.1:{free_port()}"
        cls.cluster = Cluster(peers=2, text=CONFIG.format(port=cls.coordinator.split(":")[1]))
        cls.addClassCleanup(cls.cluster.close)
        cls.cluster.wait_version(1)
        cls.cluster.kill("peer-1")
        path = os.path.join(cls.cluster.process_of("peer-1")["dir"], "config.toml")
        config = read(path)
        for section, key, value in (("http", "listen", f'"{cls.peer}"'),
                                    ("log", "format", '"json"'), ("peer", "region", '"us"')):
            config = with_key(config, section, key, value)
        with open(path, "w", encoding="utf-8") as out:
            out.write(config)
        cls.cluster.restart("peer-1")
        cls.server = Server(cls.cluster.top, cls.coordinator, cls.peer)
        cls.addClassCleanup(cls.server.close)
        wait_for("prometheus is ready", cls.server.is_ready)
        for job in ("atoll-coordinator", "atoll-peer"):
            wait_for(f"{job} is up", lambda job=job: cls.server.is_up(job))
        # Both peers train, and the server has seen them for a while.
        wait_for("rounds of two", lambda: cls.server.query(
            "min_over_time(atoll_run_round_contributors[3s]) == 2 "
            "and changes(atoll_run_version[3s]) > 2"))
        cls.known = set(re.findall(r"(?m)^\| `(\w+)`", read(os.path.join(SOURCE, "docs",
                                                                        "metrics.md"))))

    def served(self, address):
        return fetch(f"http://{address}/metrics")

    def test_promtool_takes_what_is_served(self):
        for address in (self.coordinator, self.peer):
            code, told = promtool("check", "metrics", given=self.served(address))
            self.assertEqual((0, ""), (code, told), address)

    def test_what_is_served_is_documented(self):
        for address, must in (
                (self.coordinator, {"atoll_run_version", "atoll_peer_exchange_received_bytes_total",
                                    "atoll_peer_disk_free_bytes", "atoll_peer_resident_bytes",
                                    "atoll_peer_memory_available_bytes", "atoll_build_info",
                                    "process_open_fds"}),
                (self.peer, {"atoll_daemon_connected", "atoll_daemon_held_back",
                             "atoll_daemon_tokens_total", "atoll_process_disk_free_bytes",
                             "process_start_time_seconds"})):
            names = set(re.findall(r"(?m)^# TYPE (\S+)", self.served(address)))
            self.assertEqual(set(), names - self.known, address)
            self.assertEqual(set(), must - names, address)

    def test_the_two_ends_agree(self):
        sent = self.server.query('atoll_daemon_exchange_sent_bytes_total{peer="peer-1"}')
        received = self.server.query('atoll_peer_exchange_received_bytes_total{peer="peer-2"}')
        self.assertGreater(float(sent[0]["value"][1]), 100000)
        self.assertGreater(float(received[0]["value"][1]), 100000)
        self.assertTrue(self.server.query(
            'atoll_daemon_connected{run="watched",peer="peer-1",region="us",role="peer"} == 1'))
        self.assertTrue(self.server.query('atoll_daemon_tokens_total > 0'))
        self.assertTrue(self.server.query('sum(atoll_daemon_held_back) == 0'))

    def test_every_panel_shows_something(self):
        board = json.loads(read(os.path.join(CONFIGS, "grafana", "atoll.json")))
        run = next(one for one in board["templating"]["list"] if one["name"] == "run")
        self.assertEqual("label_values(atoll_run_version, run)", run["query"]["query"])
        self.assertEqual(["watched"], self.server.ask(
            "label/run/values", **{"match[]": "atoll_run_version"}))
        wrong = []
        for panel in board["panels"]:
            for target in panel.get("targets", []):
                expression = target["expr"].replace("$run", "watched").replace(
                    "$__rate_interval", "10s")
                names = set(NAME.findall(expression))
                unknown = names - self.known
                found = self.server.query(expression)
                labels = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
                if unknown or not (found or names <= UNKNOWN_HERE):
                    wrong.append(f"{panel['title']}: {expression}: {unknown or 'shows nothing'}")
                elif any(labels - set(one["metric"]) for one in found):
                    wrong.append(f"{panel['title']}: {target['legendFormat']}: {found[0]}")
        self.assertEqual([], wrong)

    def test_every_alarm_can_be_judged_and_none_comes(self):
        rules = wait_for("the rules were judged", self.judged)
        self.assertGreater(len(rules), 10)
        self.assertEqual([], [rule for rule in rules if rule["health"] != "ok"])
        named = set(NAME.findall(read(os.path.join(CONFIGS, "prometheus", "alerts.yml"))))
        self.assertEqual(set(), named - self.known)
        ours = [rule["name"] for rule in rules if rule["state"] != "inactive"]
        # How full this machine's disk and memory are, and how even its exchanges, is not the run's.
        self.assertEqual([], [name for name in ours if name not in (
            "AtollDiskLow", "AtollMemoryLow", "AtollExchangeSlow")])

    def judged(self):
        groups = self.server.ask("rules")["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        return rules if rules and all(rule["health"] != "unknown" for rule in rules) else None

    def test_alarms_come_when_they_should(self):
        for call in (("check", "config", os.path.join(CONFIGS, "prometheus", "prometheus.yml")),
                     ("check", "rules", os.path.join(CONFIGS, "prometheus", "alerts.yml")),
                     ("test", "rules", os.path.join(SOURCE, "tests", "e2e", "prometheus",
                                                    "alerts_test.yml"))):
            code, told = promtool(*call)
            self.assertEqual(0, code, told)

    def test_a_log_of_json_has_objects_alone(self):
        path = os.path.join(self.cluster.top, "peer-1.restart.txt")
        wait_for("a round in the log", lambda: '"round":' in read(path))
        lines = [json.loads(line) for line in read(path).splitlines(keepends=True)
                 if line.endswith("\n")]
        self.assertGreater(len(lines), 5)
        for line in lines:
            self.assertRegex(line["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
            self.assertEqual(("peer", "peer-1"), (line["process"], line["peer"]), line)
            self.assertIn(line["level"], ("debug", "info", "warning", "error"))
            self.assertNotRegex(line["message"], r"^round \d")
        self.assertTrue(any(line["message"].startswith("worker started") for line in lines))
        rounds = [line for line in lines if "round" in line]
        self.assertTrue(rounds)
        self.assertEqual({"watched"}, {line["run"] for line in rounds})


if __name__ == "__main__":
    if PROGRAMS is None:
        print("no prometheus and promtool here: scripts/prometheus build/prometheus", flush=True)
        sys.exit(77)
    unittest.main()
