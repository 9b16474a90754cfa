"""Would fail if somebody without the right certificate had any effect on a run, if a token let two
machines in or none, or if an evicted peer stayed."""

import base64
import json
import os
import signal
import socket
import ssl
import stat
import subprocess
import unittest

from cluster import BIN, Cluster, atoll, token_file, wait_for

STUB = {"parameters": 60000, "step_time": "20ms"}


def order(cluster, *words):
    done = atoll(*words, "--dir", cluster.dir, "--json")
    assert done.returncode == 0, (words, done.stderr)
    return json.loads(done.stdout)


def token_fields(token):
    """The strings of a v1::JoinToken by field number, read without protobuf."""
    text = token.split("-", 1)[1]
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))[:-8]
    fields, at = {}, 0

    def varint(at):
        value = shift = 0
        while True:
            value |= (data[at] & 0x7F) << shift
            shift += 7
            at += 1
            if not data[at - 1] & 0x80:
                return value, at
    while at < len(data):
        key, at = varint(at)
        length, at = varint(at)
        if key & 7 == 2:
            fields[key >> 3] = data[at:at + length].decode()
            at += length
    return fields


def write_folder(folder, authority, certificate, key):
    os.makedirs(folder)
    for name, text in (("authority.pem", authority), ("certificate.pem", certificate),
                       ("key.pem", key)):
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        os.chmod(path, 0o600)
    return folder


def tls_talk(address, identity=None):
    """Shakes hands and sends the beginning of HTTP/2. True if the other end says anything back."""
    host, port = address.rsplit(":", 1)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    if identity:
        context.load_cert_chain(os.path.join(identity, "certificate.pem"),
                                os.path.join(identity, "key.pem"))
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
    try:
        with socket.create_connection((host, int(port)), timeout=10) as plain:
            with context.wrap_socket(plain) as talk:
                talk.sendall(preface)
                return bool(talk.recv(1))
    except (ssl.SSLError, ConnectionError):
        return False


def plain_talk(address):
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=10) as talk:
        talk.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        try:
            answer = talk.recv(64)
        except ConnectionError:
            answer = b""
    # An alert of TLS may come back; a SETTINGS frame may not.
    return answer not in (b"",) and answer[:1] != b"\x15"


class IdentityTest(unittest.TestCase):

    def issue(self, cluster, authority, name, role="peer"):
        out = os.path.join(cluster.top, f"{os.path.basename(authority)}-{name}-{role}")
        done = atoll("identity", "issue", "--dir", authority, "--id", name, "--role", role,
                     "--out", out)
        self.assertEqual(0, done.returncode, done.stderr)
        return out

    def test_strangers_have_no_effect(self):
        with Cluster(rounds=5000, steps=4, stub=STUB) as cluster:
            cluster.wait_version(2)
            addresses = [entry["address"] for entry in cluster.peers_json()]
            self.assertEqual(4, len([a for a in addresses if a]), addresses)
            foreign = self.issue(cluster, os.path.join(cluster.top, "foreign"), "peer-1")
            own = self.issue(cluster, cluster.process_of("coordinator")["dir"], "visitor")
            for address in addresses:
                self.assertFalse(plain_talk(address), f"{address} speaks plain text")
                self.assertFalse(tls_talk(address), f"{address} wants no certificate")
                self.assertFalse(tls_talk(address, foreign), f"{address}: any authority will do")
                self.assertTrue(tls_talk(address, own), f"{address} refuses its own cluster")
            # A valid certificate of another role gives no orders.
            coordinator = cluster.process_of("coordinator")["address"]
            token = order(cluster, "token", "create", "--peer", "guest")["token"]
            fields = token_fields(token)
            self.assertEqual(coordinator, fields[1])
            join = write_folder(os.path.join(cluster.top, "join"), fields[2], fields[3], fields[4])
            for identity in (own, join, cluster.process_of("peer-1")["dir"] + "/identity"):
                done = atoll("run", "stop", "--coordinator", coordinator, "--identity", identity)
                self.assertEqual(1, done.returncode, done.stdout)
                self.assertIn("may not call", done.stderr)
            done = atoll("run", "stop", "--coordinator", coordinator, "--plaintext")
            self.assertEqual(1, done.returncode)
            self.assertIn("no coordinator answers", done.stderr)
            done = atoll("run", "stop", "--coordinator", coordinator)
            self.assertEqual(2, done.returncode)
            self.assertIn("--identity", done.stderr)
            self.assertEqual(1, done.stderr.count("\n"), done.stderr)
            self.assertFalse(cluster.status()["stopping"])
            cluster.wait_version(cluster.version() + 2)
            for name in ("coordinator", "peer-1"):
                mode = os.stat(cluster.process_of(name)["dir"] + "/identity/key.pem").st_mode
                self.assertEqual(0o600, stat.S_IMODE(mode))
            self.assertNotIn(token, cluster.all_logs("coordinator"))
            # A key that others may read is not used.
            cluster.kill("peer-3")
            key = cluster.process_of("peer-3")["dir"] + "/identity/key.pem"
            os.chmod(key, 0o644)
            self.assertEqual(2, cluster.restart("peer-3").wait(timeout=60))
            self.assertIn("others may read this key", cluster.all_logs("peer-3"))
            os.chmod(key, 0o600)
            cluster.restart("peer-3")
            before = cluster.peer("peer-3")["rounds_contributed"]
            wait_for("peer-3 contributes again",
                     lambda: (cluster.peer("peer-3") or {}).get("rounds_contributed", 0) > before)

    def join(self, cluster, token, folder):
        log = open(os.path.join(cluster.top, f"{folder}.log"), "w", encoding="utf-8")
        process = subprocess.Popen(
            [os.path.join(BIN, "atolld"), "join", "--token-file",
             token_file(os.path.join(cluster.top, f"{folder}.token"), token), "--dir",
             os.path.join(cluster.top, folder)],
            stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        log.close()
        cluster.restarted.append(process)
        return process

    def check(self, *call):
        """What `atoll check` finds, by subject; none of it is fatal."""
        done = atoll("check", *call, "--json")
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        found = json.loads(done.stdout)
        self.assertTrue(found["fit"], found)
        return {one["subject"]: one["text"] for one in found["findings"]}

    def log_of(self, cluster, folder):
        with open(os.path.join(cluster.top, f"{folder}.log"), encoding="utf-8") as source:
            return source.read()

    def test_one_of_two_joins_across_a_killed_coordinator(self):
        with Cluster(rounds=5000, steps=4, stub=STUB) as cluster:
            cluster.wait_version(2)
            token = order(cluster, "token", "create", "--peer", "late")["token"]
            cluster.kill("coordinator")
            racers = {name: self.join(cluster, token, name) for name in ("first", "second")}
            cluster.restart("coordinator")
            # In the middle of it, once more: whoever won and was not told asks again.
            wait_for("one of them is heard",
                     lambda: "enrols with token" in cluster.all_logs("coordinator"))
            cluster.kill("coordinator")
            cluster.restart("coordinator")
            loser = wait_for("one of them is refused", lambda: next(
                (name for name, racer in racers.items() if racer.poll() is not None), None))
            winner = "second" if loser == "first" else "first"
            self.assertEqual(1, racers[loser].poll())
            self.assertIn("the token is spent", self.log_of(cluster, loser))
            wait_for("the other trains with the run",
                     lambda: (cluster.peer("late") or {}).get("rounds_contributed", 0) > 1)
            self.assertIsNone(racers[winner].poll(), self.log_of(cluster, winner))
            states = {one["peer"]: one["state"] for one in order(cluster, "token", "list")}
            self.assertEqual({"late": "spent"}, states)
            self.assertFalse(os.path.exists(os.path.join(cluster.top, winner, "token")))
            # Again, with the same token and folder, wherever that is by now: an ordinary start.
            racers[winner].send_signal(signal.SIGKILL)
            racers[winner].wait()
            os.rename(os.path.join(cluster.top, winner), os.path.join(cluster.top, "moved"))
            before = cluster.peer("late")["rounds_contributed"]
            self.join(cluster, token, "moved")
            wait_for("it contributes again",
                     lambda: (cluster.peer("late") or {}).get("rounds_contributed", 0) > before)
            late = self.check("--config", os.path.join(cluster.top, "moved", "config.toml"))
            self.assertFalse(os.path.exists(os.path.join(cluster.top, winner)))
            self.assertRegex(late["daemon"], "^runs as process [0-9]+$")
            self.assertIn("peer late, good until 20", late["identity"])
            # A call that cannot work spends nothing, and a look spends nothing either.
            made = order(cluster, "token", "create")
            handed = token_file(os.path.join(cluster.top, "made.token"), made["token"])
            looked = self.check("--token-file", handed)
            self.assertIn("good until 20", looked["token"])
            self.assertIn("answers in", looked["coordinator"])
            self.assertIn("GFLOP/s", looked["training"])
            rate = "(over )?[0-9.]+ Mbit/s"
            self.assertRegex(looked["line"], f"^{rate} up and {rate} down")
            self.assertIn("s an inner step, as the run says; the 4 steps", looked["speed"])
            self.assertRegex(looked["cost"], "a round sends .* rounds and .*B a day$")
            self.assertNotIn("line", self.check("--token-file", handed, "--quick"))
            done = subprocess.run(
                [os.path.join(BIN, "atolld"), "join", "--token-file", handed, "--data",
                 "no-such-text"],
                capture_output=True, text=True, timeout=60, check=False, cwd=cluster.top)
            self.assertEqual(2, done.returncode, done.stderr)
            self.assertIn("'no-such-text': no such file or folder", done.stderr)
            states = {one["serial"]: one["state"] for one in order(cluster, "token", "list")}
            self.assertEqual("open", states[made["serial"]])
            # A token that is revoked lets nobody in.
            order(cluster, "token", "revoke", made["serial"])
            refused = self.join(cluster, made["token"], "third")
            self.assertEqual(1, refused.wait(timeout=60))
            self.assertIn("the token was revoked", self.log_of(cluster, "third"))
            done = subprocess.run([os.path.join(BIN, "atolld"), "join", "-"],
                                  input=made["token"][:-5], capture_output=True, text=True,
                                  timeout=60, check=False)
            self.assertEqual(2, done.returncode)
            self.assertIn("damaged", done.stderr)
            self.assertEqual(1, done.stderr.count("\n"), done.stderr)
            # An argument works, and whoever gives one is told who sees it.
            done = subprocess.run([os.path.join(BIN, "atolld"), "join", made["token"][:-5]],
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(2, done.returncode)
            self.assertIn("other users of this machine can see", done.stderr.splitlines()[0])
            self.assertIn("damaged", done.stderr.splitlines()[1])
            damaged = token_file(os.path.join(cluster.top, "damaged.token"), made["token"][:-5])
            for wrong in (["--token-file", damaged], ["--config", "no-such.toml"],
                          ["--token-file", handed, "--advertise", "no-port"]):
                done = atoll("check", *wrong)
                self.assertEqual(2, done.returncode, done.stdout)
                self.assertEqual(1, done.stderr.count("\n"), done.stderr)

    def test_an_evicted_peer_is_out_at_once(self):
        with Cluster(rounds=5000, steps=4, stub=STUB) as cluster:
            cluster.wait_version(2)
            identity = cluster.process_of("peer-3")["dir"] + "/identity"
            order(cluster, "peer", "evict", "peer-3", "--reason", "it sends nonsense")
            # The answer comes when it is durable; all the others know within a second.
            wait_for("it is told", lambda: "was evicted" in cluster.log("peer-3"), 1)
            for name in ("peer-1", "peer-2"):
                wait_for(f"{name} knows",
                         lambda: "peer peer-3 is evicted" in cluster.log(name), 1)
            self.assertEqual(1, cluster.restart("peer-3").wait(timeout=60))
            self.assertRegex(cluster.all_logs("peer-3"), "was revoked|was evicted")
            # Neither does another certificate in its name help.
            done = atoll("token", "create", "--dir", cluster.dir, "--peer", "peer-3")
            self.assertEqual(2, done.returncode)
            self.assertIn("was evicted", done.stderr)
            cluster.wait_version(cluster.version() + 2)
            order(cluster, "peer", "evict", "peer-3", "--undo")
            before = cluster.peer("peer-3")["rounds_contributed"]
            cluster.restart("peer-3")
            wait_for("peer-3 contributes again",
                     lambda: (cluster.peer("peer-3") or {}).get("rounds_contributed", 0) > before)
            self.assertTrue(os.path.exists(identity))
            self.a_stolen_key_is_out_at_once(cluster)

    def a_stolen_key_is_out_at_once(self, cluster):
        def keys():
            return {(one["name"], one["key"]): one for one in order(cluster, "identity", "list")}
        listed = keys()
        self.assertLessEqual({"coordinator", "operator", "peer-1", "peer-2", "peer-3"},
                             {name for name, _ in listed})
        self.assertEqual({"valid"}, {one["state"] for one in listed.values()})
        key = next(key for name, key in listed if name == "peer-2")
        self.assertIsNotNone(listed["peer-2", key]["last_seen"])
        done = atoll("identity", "revoke", "operator", "--dir", cluster.dir)
        self.assertEqual(2, done.returncode, done.stdout)
        self.assertIn("the key that this call itself is made with", done.stderr)
        order(cluster, "identity", "revoke", key[:16], "--reason", "a laptop was stolen")
        wait_for("peer-2 is told", lambda: "was revoked" in cluster.log("peer-2"), 1)
        self.assertEqual(1, cluster.restart("peer-2").wait(timeout=60))
        cluster.kill("coordinator")
        cluster.restart("coordinator")
        wait_for("the coordinator is back", lambda: cluster.status())
        self.assertEqual("revoked", keys()["peer-2", key]["state"])
        self.assertEqual(1, cluster.restart("peer-2").wait(timeout=60))
        # Its machine comes back in its name with another key.
        handed = os.path.join(cluster.top, "peer-2.token")
        made = order(cluster, "token", "create", "--peer", "peer-2", "--out", handed)
        self.assertEqual(handed, made["file"])
        self.assertNotIn("token", made)
        self.assertEqual(0o600, stat.S_IMODE(os.stat(handed).st_mode))
        done = atoll("token", "create", "--dir", cluster.dir, "--out", handed)
        self.assertEqual(2, done.returncode, done.stdout)
        with open(handed, encoding="utf-8") as source:
            token = source.read().strip()
        before = cluster.peer("peer-2")["rounds_contributed"]
        joined = self.join(cluster, token, "back")
        wait_for("peer-2 contributes again",
                 lambda: (cluster.peer("peer-2") or {}).get("rounds_contributed", 0) > before)
        self.assertIsNone(joined.poll())
        self.assertEqual({"revoked", "valid"},
                         {one["state"] for (name, _), one in keys().items() if name == "peer-2"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
