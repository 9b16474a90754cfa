"""Would fail if a run could not be published as static files; if those files, from a folder or from
a web server, did not lead to the state that the run's peers have; if a changed byte were not found
by entry and file; if a hostile server held up whoever verifies; or if means of private data were
published unasked.
"""

import functools
import hashlib
import http.server
import json
import os
import re
import shutil
import socketserver
import threading
import unittest

from cluster import Cluster, atoll

MASKS = """
[outer]
rule = "average"
[privacy]
masked = true
"""


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Python's own server of static files, which gives whole files only."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass


class RangeHandler(QuietHandler):
    """Gives parts of files, as most web servers do, and keeps what was asked for."""

    asked = []

    def do_GET(self):
        part = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        self.asked.append((self.path, part is not None))
        if part is None:
            return super().do_GET()
        first, last = map(int, part.groups())
        with open(self.translate_path(self.path), "rb") as source:
            whole = source.read()
        body = whole[first:last + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{first + len(body) - 1}/{len(whole)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        return None


class EndlessHandler(QuietHandler):
    """Sends one of its files without an end."""

    endless = ""

    def do_GET(self):
        if not self.path.endswith(self.endless):
            return super().do_GET()
        self.close_connection = True
        self.send_response(200)
        self.end_headers()
        try:
            while True:
                self.wfile.write(b"x" * 65536)
        except OSError:  # the reader has gone
            return None


class Served:
    """A folder on a port of loopback."""

    def __init__(self, folder, handler):
        self.server = socketserver.ThreadingTCPServer(
            ("127.0.0.1", 0), functools.partial(handler, directory=folder))
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def __enter__(self):
        return self.url

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def flip(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


class PublishTest(unittest.TestCase):

    def told(self, *words):
        done = atoll(*words)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def refused(self, code, *words):
        """The one line that a refused call says."""
        done = atoll(*words)
        self.assertEqual(code, done.returncode, done.stdout + done.stderr)
        self.assertEqual(1, len(done.stderr.strip().splitlines()), done.stderr)
        return done.stderr

    def test_a_published_run_is_verified_from_its_files_alone(self):
        with Cluster(rounds=6, peers=2, steps=1, stub={"step_time": "1ms"}) as cluster:
            report = cluster.finish()
            site = os.path.join(cluster.top, "site")
            written = self.told("run", "publish", "--dir", cluster.dir, "--out", site, "--name",
                                "Six rounds", "--json")
            self.assertIn("--out", self.refused(2, "run", "publish", "--dir", cluster.dir)[:200])
            self.assertIn("nothing is overwritten", self.refused(
                2, "run", "publish", "--dir", cluster.dir, "--out", site))
            for name in ("x" * 1100, b"\xff"):
                self.assertIn("--name", self.refused(2, "run", "publish", "--dir", cluster.dir,
                                                     "--out", site + "-2", "--name", name))
            self.assertEqual([], [name for name in os.listdir(cluster.top) if "site-2" in name
                                  or "partial" in name])
            plain = os.path.join(cluster.top, "plain")
            os.mkdir(plain)
            # A web server must be able to read it.
            self.assertEqual(os.stat(plain).st_mode, os.stat(site).st_mode)
            # As far from the run as another machine.
            moved = os.path.join(cluster.top, "elsewhere")
            shutil.move(site, moved)
            receipts = os.path.join(cluster.dir, "peer-1")
            self.assertIn("atoll log verify", self.refused(2, "verify", receipts))
            self.files(moved, written)
            self.page(moved, cluster)
            shutil.move(cluster.dir, cluster.dir + "-hidden")
            try:
                self.folder(moved, report)
                self.servers(moved, report)
                self.changes(moved)
                self.hostile(moved)
            finally:
                shutil.move(cluster.dir + "-hidden", cluster.dir)
            self.without_parameters(cluster)

    def files(self, site, written):
        with open(os.path.join(site, "run.json"), encoding="utf-8") as source:
            index = json.load(source)
        self.assertEqual({file["name"] for file in index["files"]} | {"run.json"},
                         set(os.listdir(site)))
        for file in index["files"]:
            with open(os.path.join(site, file["name"]), "rb") as source:
                data = source.read()
            self.assertEqual(len(data), file["bytes"], file["name"])
            self.assertEqual(hashlib.sha256(data).hexdigest(), file["sha256"], file["name"])
        self.assertEqual((0, 6, 1), tuple(index[key] for key in
                                          ("state_version", "version", "first_header")))
        self.assertTrue(index["sealed"])
        self.assertEqual(index["bytes"], written["bytes"])

    def page(self, site, cluster):
        with open(os.path.join(site, "story.json"), encoding="utf-8") as source:
            story = json.load(source)
        self.assertEqual("Six rounds", story["name"])
        self.assertEqual(["peer-1", "peer-2"], [peer["peer"] for peer in story["peers"]])
        self.assertTrue(any(loss["validation"] is not None for loss in story["losses"]))
        with open(os.path.join(site, "index.html"), encoding="utf-8") as source:
            page = source.read()
        self.assertIn("Six rounds", page)
        self.assertNotIn(cluster.top, page)
        self.assertEqual([], re.findall(r"""(?:src|href)=["']?(?!file)\w+:""", page))

    def all_of(self, checked, report):
        self.assertEqual((7, 7, 0, 6), tuple(checked[key] for key in
                                             ("states", "all_states", "first", "last")))
        self.assertEqual(report["state_digest"], checked["state_digest"])
        self.assertEqual((6, 6), (checked["headers"], checked["payloads"]))

    def folder(self, site, report):
        checked = self.told("verify", site, "--json")
        self.all_of(checked, report)
        self.told("verify", site, "--key", checked["history_key"], "--json")
        self.assertIn("--key", self.refused(1, "verify", site, "--key", "ab" * 32))
        some = self.told("verify", site, "--from", "2", "--to", "4", "--json")
        self.assertEqual((3, 2, 4), (some["states"], some["first"], some["last"]))
        text = atoll("verify", site).stdout
        self.assertIn("verified: 7 of 7 states (versions 0 to 6)", text)
        self.assertIn("These files cannot tell:", text)

    def servers(self, site, report):
        with Served(site, RangeHandler) as url:
            RangeHandler.asked.clear()
            self.all_of(self.told("verify", url, "--json"), report)
            self.told("verify", url, "--to", "2", "--json")
        with Served(site, QuietHandler) as url:
            self.all_of(self.told("verify", url + "index.html", "--json"), report)
        self.assertIn("cannot be reached", self.refused(1, "verify", url))

    def changes(self, site):
        for name, where in (("payloads", "entry 6: "), ("headers", "entry 6: ")):
            path = os.path.join(site, name)
            flip(path, os.path.getsize(path) - 1)
            said = self.refused(1, "verify", site)
            self.assertIn(where, said)
            self.assertIn(path, said)
            with Served(site, RangeHandler) as url:
                said = self.refused(1, "verify", url)
                self.assertIn(where, said)
                self.assertIn(url + name, said)
            flip(path, os.path.getsize(path) - 1)
        self.told("verify", site, "--json")
        path = os.path.join(site, "headers")
        os.rename(path, path + "-away")
        self.assertIn(path + ": run.json names it", self.refused(1, "verify", site))
        with Served(site, QuietHandler) as url:
            self.assertIn(url + "headers: run.json names it", self.refused(1, "verify", url))
            self.refused(2, "verify", url + "nothing/")
        os.rename(path + "-away", path)

    def hostile(self, site):
        for endless in ("run.json", "genesis", "headers", "state", "payloads"):
            EndlessHandler.endless = "/" + endless
            with Served(site, EndlessHandler) as url:
                said = self.refused(1, "verify", url)
                self.assertIn(url + endless, said)
                self.assertRegex(said, "more than the [0-9]+ bytes|no parts|longer than")

    def without_parameters(self, cluster):
        site = os.path.join(cluster.top, "history")
        written = self.told("run", "publish", "--dir", os.path.join(cluster.dir, "peer-2"), "--out",
                            site, "--no-parameters", "--json")
        self.assertIsNone(written["state_version"])
        self.assertNotIn("state", os.listdir(site))
        checked = self.told("verify", site, "--json")
        self.assertEqual((0, 7, 6), (checked["states"], checked["all_states"], checked["headers"]))

    def test_a_run_that_goes_on_is_published_with_its_receipts(self):
        with Cluster(rounds=100000, peers=2, steps=1, stub={"step_time": "10ms"}) as cluster:
            cluster.wait_version(2)
            receipts = os.path.join(cluster.top, "receipts")
            os.mkdir(receipts)
            for peer in ("peer-1", "peer-2"):
                self.told("peer", "receipt", peer, "--dir", cluster.dir, "--json", "--out",
                          os.path.join(receipts, peer))
            cluster.wait_version(cluster.version() + 2)
            site = os.path.join(cluster.top, "site")
            self.told("run", "publish", "--dir", cluster.dir, "--out", site, "--receipts", receipts,
                      "--json")
            checked = self.told("verify", site, "--json")
            self.assertEqual(2, checked["receipts"])
            self.assertTrue(checked["last_state_unsigned"])
            self.assertFalse(checked["sealed"])
            self.assertEqual(checked["states"], checked["all_states"] - 1)
            with open(os.path.join(site, "story.json"), encoding="utf-8") as source:
                story = json.load(source)
            self.assertGreater(story["coordinator_epoch"], 0)
            self.assertIn(1, [loss["version"] for loss in story["losses"]])
            self.receipts_that_lie(site)

    def receipts_that_lie(self, site):
        with open(os.path.join(site, "run.json"), encoding="utf-8") as source:
            index = json.load(source)
        for text in (b"[" * 600000, b"[" * 300000 + b"]" * 300000, b"[[1]]", b"[7]", b"{}",
                     b'[{"peer": ["a"]}]'):
            with open(os.path.join(site, "receipts.json"), "wb") as target:
                target.write(text)
            for file in index["files"]:
                if file["name"] == "receipts.json":
                    file.update(bytes=len(text), sha256=hashlib.sha256(text).hexdigest())
            with open(os.path.join(site, "run.json"), "w", encoding="utf-8") as target:
                json.dump(index, target)
            self.assertIn("receipts.json: ", self.refused(1, "verify", site))

    def test_means_of_private_data_are_published_only_on_request(self):
        with Cluster(rounds=2, peers=3, quorum=3, steps=1, stub={"step_time": "1ms"},
                     extra=MASKS) as cluster:
            cluster.finish()
            site = os.path.join(cluster.top, "site")
            call = ("run", "publish", "--dir", cluster.dir, "--out", site)
            said = self.refused(2, *call)
            self.assertIn("--yes", said)
            self.assertIn("masks hide one party's update", said)
            self.assertFalse(os.path.exists(site))
            self.told(*call, "--no-parameters", "--json")
            shutil.rmtree(site)
            notes = self.told(*call, "--yes", "--json")["notes"]
            self.assertTrue(any("losses are left out" in note for note in notes), notes)
            with open(os.path.join(site, "story.json"), encoding="utf-8") as source:
                self.assertEqual([], json.load(source)["losses"])
            self.told("verify", site, "--json")


if __name__ == "__main__":
    unittest.main()
