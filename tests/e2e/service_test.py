"""Would break: a service manager waits for a daemon that is ready, kills one that is well, or one
that it reloads goes down or takes half of a broken config.

A coordinator and a peer are started as systemd starts them, without a terminal and with a socket
for what they tell.
"""

import os
import re
import signal
import socket
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request

from cluster import BIN, atoll, free_port, wait_for

COORDINATOR = """
[run]
id = "service"
rounds = 5000
[model]
kind = "stub"
parameters = 20000
[inner]
steps = 5
step_time = "20ms"
[evaluation]
every_rounds = 0
[membership]
failure_timeout = "3s"
[coordinator]
address = "{address}"
dir = "{top}/coordinator"
aggregator = "never"
[http]
listen = "127.0.0.1:0"
token_file = "{top}/token"
"""
PEER = """
[model]
kind = "stub"
parameters = 20000
[membership]
failure_timeout = "3s"
[coordinator]
address = "{address}"
[peer]
id = "p1"
dir = "{top}/p1"
[log]
level = "{level}"
"""


class Service:
    """A daemon, and the service manager's end of what it tells."""

    def __init__(self, top, role, name):
        self.log_path = os.path.join(top, name + ".log")
        self.told = ""
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(os.path.join(top, name + ".notify"))
        self.socket.setblocking(False)
        environment = {**os.environ, "NOTIFY_SOCKET": os.path.join(top, name + ".notify"),
                       "WATCHDOG_USEC": "3000000"}
        with open(self.log_path, "a", encoding="utf-8") as out:
            self.process = subprocess.Popen(
                [os.path.join(BIN, "atolld"), role, "--config", os.path.join(top, name + ".toml")],
                stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment,
                start_new_session=True)

    def all_told(self):
        while True:
            try:
                self.told += self.socket.recv(4096).decode()
            except BlockingIOError:
                return self.told

    def status(self):
        found = re.findall("^STATUS=(.*)$", self.all_told(), re.MULTILINE)
        return found[-1] if found else ""

    def log(self):
        with open(self.log_path, encoding="utf-8") as source:
            return source.read()

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.socket.close()


class ServiceTest(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="atoll-service-")
        self.address = f"127.0.0.1:{free_port()}"
        self.write_token("the-first-token-of-this-test")
        self.write("coordinator", COORDINATOR)
        self.write_peer("info")
        done = atoll("identity", "issue", "--dir", os.path.join(self.top, "coordinator"), "--run",
                     "service", "--id", "p1", "--out", os.path.join(self.top, "p1", "identity"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.coordinator = Service(self.top, "coordinator", "coordinator")
        self.peer = Service(self.top, "peer", "p1")

    def tearDown(self):
        self.peer.close()
        self.coordinator.close()
        subprocess.run(["rm", "-rf", self.top], check=True)

    def write(self, name, text, **values):
        with open(os.path.join(self.top, name + ".toml"), "w", encoding="utf-8") as out:
            out.write(text.format(address=self.address, top=self.top, **values))

    def write_peer(self, level, extra=""):
        self.write("p1", PEER + extra, level=level)

    def write_token(self, token, mode=0o600):
        path = os.path.join(self.top, "token")
        with open(path, "w", encoding="utf-8") as out:
            out.write(token + "\n")
        os.chmod(path, mode)

    def answer(self, token):
        """The status with which the coordinator's HTTP port answers whoever shows this token."""
        with open(os.path.join(self.top, "coordinator", "http"), encoding="utf-8") as source:
            url = source.read().strip()
        asked = urllib.request.Request(url + "metrics",
                                       headers={"Authorization": "Bearer " + token})
        try:
            with urllib.request.urlopen(asked, timeout=10) as page:
                return page.status
        except urllib.error.HTTPError as error:
            return error.code

    def reload(self, service, *expected):
        """SIGHUP; the log then has these lines, and the daemon runs on."""
        before = len(service.log())
        service.process.send_signal(signal.SIGHUP)
        for text in expected:
            wait_for(text, lambda: text in service.log()[before:])
        self.assertIsNone(service.process.poll())

    def test_a_daemon_tells_reloads_and_drains(self):
        version = subprocess.run([os.path.join(BIN, "atolld"), "--version"], capture_output=True,
                                 text=True, check=True).stdout.splitlines()[0]
        for service in (self.coordinator, self.peer):
            wait_for("READY=1", lambda: "READY=1\n" in service.all_told())
            self.assertTrue(service.all_told().startswith("READY=1\n"))
            wait_for("a status with a version of the run",
                     lambda: re.match(re.escape(version) + r": run service, version [1-9]\d*, \w+$",
                                      service.status()))
        wait_for("signs of life", lambda: self.peer.all_told().count("WATCHDOG=1\n") >= 4)

        self.write_peer("debug", '[machine]\non_battery = false\n')
        self.reload(self.peer, '[log] level is "debug" now', "[machine] on_battery is false now")
        self.write_peer("info", "[machine]\nno_such_key = 1\n")
        self.reload(self.peer, "nothing has changed, since it is not valid", "no_such_key")
        wait_for("lines of debug", lambda: re.search("Z debug ", self.peer.log()))

        self.reload_token()

        self.peer.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.peer.process.wait(timeout=60), 0, self.peer.log()[-2000:])
        self.assertTrue(self.peer.all_told().endswith("STOPPING=1\n"))
        self.coordinator.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.coordinator.process.wait(timeout=60), 0)
        self.assertIn("STOPPING=1\n", self.coordinator.all_told())

    def reload_token(self):
        first, second = "the-first-token-of-this-test", "the-second-token-of-this-test"
        self.assertEqual((self.answer(first), self.answer(second)), (200, 401))
        self.write_token(second)
        self.reload(self.coordinator, "the files of [http] were, too")
        self.assertEqual((self.answer(first), self.answer(second)), (401, 200))
        self.write_token("the-third-token-of-this-test", mode=0o644)
        self.reload(self.coordinator, "[http] stays as it was: [http] token_file: ",
                    "can be read by others")
        self.assertEqual(self.answer(second), 200)


if __name__ == "__main__":
    unittest.main(verbosity=2)
