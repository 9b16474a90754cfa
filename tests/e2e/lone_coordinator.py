"""A coordinator that no peer has come to yet, for tests that start and kill it themselves."""

import json
import os
import subprocess
import tempfile
import unittest

from cluster import BIN, atoll, free_port, own_store, wait_for, with_store


class LoneCoordinator(unittest.TestCase):
    """A coordinator that no peer has come to yet."""

    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="atoll-race-")
        self.dir = os.path.join(self.top, "coordinator")
        self.address = f"127.0.0.1:{free_port()}"
        self.config = os.path.join(self.top, "run.toml")
        self.etcd = own_store(self.top)
        text = (f'[run]\nid = "race"\npeers = 8\n[model]\nkind = "stub"\n'
                f'parameters = 20000\n[coordinator]\naddress = "{self.address}"\n'
                f'dir = "{self.dir}"\naggregator = "never"\n[membership]\n'
                f'failure_timeout = "3s"\n')
        with open(self.config, "w", encoding="utf-8") as out:
            out.write(with_store(text, self.etcd))
        self.processes = []
        self.log_path = os.path.join(self.top, "coordinator.log")

    def tearDown(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        if self.etcd is not None:
            self.etcd.close()
        subprocess.run(["rm", "-rf", self.top], check=True)

    def start(self, log, *command, prepare=None):
        with open(log, "a", encoding="utf-8") as out:
            process = subprocess.Popen([os.path.join(BIN, "atolld"), *command], stdout=out,
                                       stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                       preexec_fn=prepare)
        self.processes.append(process)
        return process

    def text(self, path):
        try:
            with open(path, encoding="utf-8") as source:
                return source.read()
        except FileNotFoundError:
            return ""

    def log(self):
        return self.text(self.log_path)

    def order(self, *words):
        done = atoll(*words, "--coordinator", self.address, "--identity",
                     os.path.join(self.dir, "admin"), "--json")
        return json.loads(done.stdout) if done.returncode == 0 else None

    def start_coordinator(self, prepare=None):
        lives = self.log().count("listening on")
        coordinator = self.start(self.log_path, "coordinator", "--config", self.config,
                                 prepare=prepare)
        wait_for("the coordinator listens", lambda: self.log().count("listening on") > lives)
        return coordinator
