"""Would fail if a wrong config, a missing file or a full disk did not end in one clear line."""

import os
import socket
import subprocess
import tempfile
import unittest

from cluster import BIN, CONFIG, atoll, write_corpus
from lone_coordinator import LoneCoordinator


def config_text(data, **changes):
    values = dict(rounds=3, peers=2, quorum=2, steps=2, layers=1, width=32, data=data,
                  error_feedback="false")
    values.update(changes)
    return CONFIG.format(**values)


class BadInputTest(unittest.TestCase):

    def setUp(self):
        self.top = tempfile.TemporaryDirectory(prefix="atoll-e2e-")
        self.addCleanup(self.top.cleanup)
        self.data = os.path.join(self.top.name, "text.txt")
        write_corpus(self.data, 200)

    def local(self, text, *more, directory=None):
        config = os.path.join(self.top.name, "run.toml")
        with open(config, "w", encoding="utf-8") as out:
            out.write(text)
        directory = directory or os.path.join(self.top.name, "run")
        done = atoll("local", "--config", config, "--dir", directory, *more, timeout=120)
        return done, directory, config

    def check_refused(self, done, *parts, code=2):
        said = (done.stdout + done.stderr).strip()
        self.assertEqual(code, done.returncode, said)
        for part in parts:
            self.assertIn(part, said)
        self.assertEqual(1, len(said.splitlines()), said)

    def test_unknown_key_names_line_and_nearest(self):
        text = config_text(self.data).replace("warmup_steps", "warmup_step")
        line = 1 + text.splitlines().index("warmup_step = 10")
        done, directory, config = self.local(text)
        self.check_refused(done, f"{config}:{line}", "warmup_step", "warmup_steps")
        self.assertFalse(os.path.exists(directory))

    def test_wrong_type(self):
        text = config_text(self.data).replace("batch = 4", 'batch = "four"')
        line = 1 + text.splitlines().index('batch = "four"')
        done, directory, config = self.local(text)
        self.check_refused(done, f"{config}:{line}", "batch")
        self.assertFalse(os.path.exists(directory))

    def test_missing_data_file(self):
        done, directory, _ = self.local(config_text("/nowhere/text.txt"))
        self.check_refused(done, "/nowhere/text.txt")
        self.assertFalse(os.path.exists(directory))

    def test_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            done, _, _ = self.local(config_text(self.data), "--port", str(port))
            said = done.stdout + done.stderr
            self.assertNotEqual(0, done.returncode, said)
            self.assertIn(str(port), said)

    def test_full_disk(self):
        if os.geteuid() != 0:
            self.skipTest("a full disk is made with a tmpfs, which needs root")
        mount = os.path.join(self.top.name, "small")
        os.mkdir(mount)
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", mount],
                              check=False, capture_output=True)
        if made.returncode != 0:
            self.skipTest("no tmpfs can be mounted here: " + made.stderr.decode())
        self.addCleanup(subprocess.run, ["umount", "-l", mount], check=False)
        done, directory, _ = self.local(config_text(self.data, width=128, layers=4),
                                        directory=os.path.join(mount, "run"))
        said = done.stdout + done.stderr
        self.assertEqual(1, done.returncode, said)
        self.assertIn("No space left on device", said)

    def test_unknown_verb(self):
        done = atoll("locl")
        self.check_refused(done, "locl", "local")

    def test_validate(self):
        config = os.path.join(self.top.name, "good.toml")
        with open(config, "w", encoding="utf-8") as out:
            out.write(config_text(self.data))
        self.assertEqual(0, atoll("config", "validate", config).returncode)
        branch = os.path.join(self.top.name, "branch")
        with open(config, "w", encoding="utf-8") as out:
            out.write(config_text(self.data).replace("[run]\n", f'[run]\nbranch = "{branch}"\n'))
        self.check_refused(atoll("config", "validate", config), "[run] branch", branch)
        with open(branch, "wb") as out:
            out.write(b"no state of any run" * 100)
        self.check_refused(atoll("config", "validate", config), "[run] branch", branch)

    def test_what_no_worker_could_start_with_is_found_beforehand(self):
        """Broken: processes are started, and wait for workers that fail for ever."""
        folder = os.path.join(self.top.name, "texts")
        empty = os.path.join(self.top.name, "nothing")
        for path in (folder, empty):
            os.mkdir(path)
        latin = os.path.join(self.top.name, "latin.txt")
        with open(latin, "wb") as out:
            out.write("Stra\u00dfe ".encode("latin-1") * 400)
        with open(os.path.join(folder, "short.txt"), "w", encoding="utf-8") as out:
            out.write("a word " * 40)
        gpu = config_text(self.data) + '[worker]\ndevice = "cuda:99"\n'
        for text, *parts in (
                (gpu, "device", "cuda:99"),
                (config_text(latin), latin, "UTF-8"),
                (config_text(empty), empty),
                (config_text(folder), "the validation split has 28 tokens", "needs 33"),
                (config_text(self.data).replace("[data]", '[data]\ntokenizer = "chars"')
                 .replace("[model]", "[model]\nvocabulary = 3"), "[model] vocabulary = 3")):
            done, directory, config = self.local(text)
            self.check_refused(done, *parts)
            self.assertFalse(os.path.exists(directory))
            self.check_refused(atoll("config", "validate", config, "--for", "local"), *parts)
        done = atoll("data", "inspect", os.path.join(folder, "short.txt"))
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("context can be at most 27", done.stdout)

    def test_output_that_is_lost_is_a_failure(self):
        """Broken: text on a full disk is cut off, and a script goes on."""
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([os.path.join(BIN, "atoll"), "config", "print", "--defaults"],
                                  stdout=full, stderr=subprocess.PIPE, text=True, timeout=30,
                                  check=False)
        self.assertEqual(1, done.returncode)
        self.assertIn("standard output could not be written", done.stderr)

    def test_a_program_that_is_not_there(self):
        text = config_text(self.data) + '[worker]\nprogram = "/none/such"\n'
        done, directory, _ = self.local(text)
        self.check_refused(done, "/none/such is missing")
        self.assertFalse(os.path.exists(directory))

    def test_daemon_refuses_config(self):
        config = os.path.join(self.top.name, "empty.toml")
        with open(config, "w", encoding="utf-8") as out:
            out.write("[peer]\nid = 7\n")
        done = subprocess.run([os.path.join(BIN, "atolld"), "peer", "--config", config],
                              capture_output=True, text=True, timeout=30, check=False)
        self.check_refused(done, f"{config}:2")


class MovedCoordinatorTest(LoneCoordinator):

    def test_a_folder_that_was_moved_is_not_made_anew(self):
        self.start_coordinator().kill()
        moved = os.path.join(self.top, "moved")
        os.rename(self.dir, moved)
        again = self.start(self.log_path, "coordinator", "--config", self.config)
        self.assertEqual(2, again.wait(timeout=60))
        self.assertIn(f"{self.dir} does not exist, and a run was in it before", self.log())
        self.assertFalse(os.path.exists(self.dir))
        # Neither does anybody else make an authority there.
        done = atoll("identity", "issue", "--dir", self.dir, "--id", "p", "--out",
                     os.path.join(self.top, "p"))
        self.assertEqual(2, done.returncode, done.stderr)
        self.assertFalse(os.path.exists(self.dir))
        with open(self.config, encoding="utf-8") as source:
            text = source.read()
        with open(self.config, "w", encoding="utf-8") as out:
            out.write(text.replace(f'dir = "{self.dir}"', 'dir = "moved"'))
        self.start_coordinator().kill()


if __name__ == "__main__":
    unittest.main(verbosity=2)
