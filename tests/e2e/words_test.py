"""Would fail if what the programs print were wrong English or no plain ASCII where that is wanted,
or if an installation lacked man pages or completion."""

import glob
import os
import pty
import re
import select
import shutil
import subprocess
import tempfile
import time
import unittest

from cluster import BIN

ONE_STEP = """
[run]
rounds = 1
peers = 1
[model]
kind = "stub"
parameters = 1
[inner]
steps = 1
step_time = "10ms"
batch = 1
"""
ONES = re.compile(
    r"(?<![\d.,])1 (?:training |validation )?(?:peer|round|token|contributor|step|file|line|byte"
    r"|block|entrie|call|thread|parameter|sample|shard|chunk|other|version)s\b")
ESCAPE = "\x1b"


class WordsTest(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.TemporaryDirectory()
        self.addCleanup(self.top.cleanup)

    def run_on_terminal(self, name, **environment):
        """What `atoll local` of one peer, one round and one step writes to a terminal."""
        config = os.path.join(self.top.name, "one.toml")
        with open(config, "w", encoding="utf-8") as out:
            out.write(ONE_STEP)
        plain = {key: value for key, value in os.environ.items()
                 if key not in ("NO_COLOR", "TERM", "LANG") and not key.startswith("LC_")}
        ours, theirs = pty.openpty()
        run = subprocess.Popen(
            [os.path.join(BIN, "atoll"), "local", "--config", config, "--dir",
             os.path.join(self.top.name, name)],
            stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env={**plain, **environment})
        os.close(theirs)
        written = b""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if not select.select([ours], [], [], 1)[0]:
                continue
            try:
                more = os.read(ours, 65536)
            except OSError:  # the last writer is gone
                break
            written += more
        os.close(ours)
        self.assertEqual(0, run.wait(60), written)
        return written.decode("utf-8")

    def test_a_terminal_gets_what_it_takes(self):
        full = self.run_on_terminal("full", TERM="xterm", LANG="C.UTF-8")
        self.assertIn(ESCAPE, full)
        self.assertIn("█", full)
        self.assertIn("●", full)
        ascii_view = self.run_on_terminal("ascii", TERM="xterm", LANG="C")
        self.assertIn(ESCAPE, ascii_view)
        self.assertTrue(ascii_view.isascii(), ascii_view)
        for name, environment in (("colour", {"TERM": "xterm", "NO_COLOR": "1"}),
                                  ("dumb", {"TERM": "dumb"})):
            lines = self.run_on_terminal(name, LANG="C.UTF-8", **environment)
            self.assertNotIn(ESCAPE, lines)
            self.assertTrue(lines.isascii(), lines)
            self.assertIn("round 1 of 1", lines)

        # One peer, one round, one step: everything that is counted is one.
        told = [full]
        for path in glob.glob(os.path.join(self.top.name, "*", "*", "log.txt")):
            with open(path, encoding="utf-8") as log:
                told.append(log.read())
        for words in (("run", "show"), ("peer", "list"), ("log", "list"), ("snapshot", "list"),
                      ("snapshot", "verify")):
            done = subprocess.run(
                [os.path.join(BIN, "atoll"), *words, "--dir",
                 os.path.join(self.top.name, "full")],
                capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(0, done.returncode, (words, done.stderr))
            told.append(done.stdout)
        self.assertGreater(len(told), 10)
        for text in told:
            wrong = ONES.search(text)
            self.assertIsNone(wrong, wrong and text[max(0, wrong.start() - 80):wrong.end() + 20])

    def test_an_installation_has_all_that_explains_it(self):
        prefix = os.path.join(self.top.name, "usr")
        done = subprocess.run(["cmake", "--install", os.path.join(BIN, ".."), "--prefix", prefix],
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(0, done.returncode, done.stderr)
        for program in ("atoll", "atolld", "atoll-worker"):
            with open(os.path.join(prefix, "share/man/man1", program + ".1"),
                      encoding="ascii") as page:
                text = page.read()
            self.assertIn(".SH NAME\n", text)
            if shutil.which("groff") is not None:
                shown = subprocess.run(["groff", "-man", "-ww", "-Tascii"], input=text,
                                       capture_output=True, text=True, timeout=60, check=True)
                self.assertEqual("", shown.stderr)
                self.assertIn(program, shown.stdout)
        for program in ("atoll", "atolld"):
            script = os.path.join(prefix, "share/bash-completion/completions", program)
            offered = subprocess.run(
                ["bash", "-c", f". '{script}'; COMP_WORDS=({program} ''); COMP_CWORD=1; _{program};"
                               " echo \"${COMPREPLY[@]}\""],
                capture_output=True, text=True, timeout=60, check=True)
            self.assertIn("help", offered.stdout.split())
            self.assertIn("local" if program == "atoll" else "join", offered.stdout.split())
            with open(os.path.join(prefix, "share/zsh/site-functions", "_" + program),
                      encoding="utf-8") as zsh:
                self.assertEqual(f"#compdef {program}\n", zsh.readline())
        # It is whole: the installed program finds its worker beside itself.
        checked = subprocess.run([os.path.join(prefix, "bin/atoll"), "data", "inspect", script],
                                 capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(0, checked.returncode, checked.stderr)


if __name__ == "__main__":
    unittest.main()
