"""Joining on machines and lines that are half broken.

Would break: a volunteer's token is spent, or the reason is not said, although the machine could
have told before that it cannot take part; or a token that came by mail is refused.
"""

import ctypes
import os
import shutil
import signal
import socket
import struct
import subprocess
import time
import unittest

from cluster import BIN, wait_for
from lone_coordinator import LoneCoordinator

BIND = {"x86_64": 49, "aarch64": 200}
PIDFD_OPEN = 434
ALLOW, ERRNO, EPERM = 0x7fff0000, 0x00050000, 1
NOBODY = 65534


def forbid(call):
    """From now on this system call fails in this process, and in what it starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    steps = [(0x20, 0, 0, 0), (0x15, 0, 1, call), (0x06, 0, 0, ERRNO | EPERM),
             (0x06, 0, 0, ALLOW)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in steps))
    packed = struct.pack("=H6xQ", len(steps), ctypes.addressof(program))
    if os.getuid() != 0:
        assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    assert libc.prctl(22, 2, packed, 0, 0) == 0  # PR_SET_SECCOMP, by a filter


def no_sockets():
    """As in folders of some file systems."""
    forbid(BIND[os.uname().machine])


def no_pidfd():
    """As in old kernels and some sandboxes."""
    forbid(PIDFD_OPEN)


class JoinTest(LoneCoordinator):
    def setUp(self):
        super().setUp()
        self.start(self.log_path, "coordinator", "--config", self.config)
        self.token = wait_for("the coordinator serves",
                              lambda: self.order("token", "create", "--peer", "late"))

    def token_bytes(self, data):
        path = os.path.join(self.top, "token")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
            out.write(data)
        return path

    def join(self, data, prepare=None):
        return subprocess.run([os.path.join(BIN, "atolld"), "join", "--token-file",
                               self.token_bytes(data), "--enrol-only", "--dir",
                               os.path.join(self.top, "late")],
                              capture_output=True, text=True, timeout=60, check=False,
                              preexec_fn=prepare)

    def state(self):
        return {one["peer"]: one["state"] for one in self.order("token", "list")}["late"]

    def test_an_unfit_folder_spends_no_token_and_a_pasted_one_joins(self):
        token = self.token["token"]
        refused = self.join(token.encode(), no_sockets)
        self.assertEqual(2, refused.returncode, refused.stderr)
        self.assertIn("holds no Unix-domain sockets", refused.stderr)
        self.assertIn("take a folder on a local Linux file system", refused.stderr)
        self.assertEqual("open", self.state())
        self.assertFalse(os.path.exists(os.path.join(self.top, "late")))
        # As Windows' Notepad saves what a mail program has folded and quoted.
        folded = "\r\n> ".join(token[at:at + 70] for at in range(0, len(token), 70))
        joined = self.join(f"\u201c{folded}\u201d\r\n".encode("utf-16"))
        self.assertEqual(0, joined.returncode, joined.stderr)
        self.assertEqual("spent", self.state())

    def test_a_coordinator_that_hangs_is_named_within_ten_seconds(self):
        self.processes[0].send_signal(signal.SIGSTOP)
        path = self.token_bytes(self.token["token"].encode())
        log = os.path.join(self.top, "join.log")
        begun = time.monotonic()
        self.start(log, "join", "--token-file", path, "--dir", os.path.join(self.top, "late"),
                   "--enrol-only")
        wait_for("it says what it waits for",
                 lambda: "handshake stalled: connected, but" in self.text(log), seconds=10)
        self.assertLess(time.monotonic() - begun, 10)
        wait_for("it goes on asking", lambda: "; asking again for 1m" in self.text(log))
        self.processes[0].send_signal(signal.SIGCONT)
        wait_for("it is enrolled", lambda: self.processes[1].poll() == 0)


def cannot_name():
    """Why this machine cannot be given a name of two addresses; empty: it can."""
    try:
        with socket.socket(socket.AF_INET6) as one:
            one.bind(("::1", 0))
    except OSError as error:
        return f"no IPv6: {error}"
    mounts = subprocess.run(["unshare", "-m", "mount", "--bind", "/etc/hosts", "/etc/hosts"],
                            capture_output=True, check=False).returncode == 0
    return "" if mounts else "only root may mount a file over /etc/hosts"


class NameTest(LoneCoordinator):
    """The coordinator's name has an IPv6 address that leads nowhere, before the one that works."""

    def setUp(self):
        reason = cannot_name()
        if reason:
            self.skipTest(reason)
        super().setUp()
        hosts = os.path.join(self.top, "hosts")
        with open(hosts, "w", encoding="utf-8") as out:
            out.write("127.0.0.1 localhost\n::1 twofold\n127.0.0.1 twofold\n")
        self.names = ["unshare", "-m", "--propagation", "private", "sh", "-c",
                      f'mount --bind {hosts} /etc/hosts && exec "$@"', "sh"]
        self.port = int(self.address.rsplit(":", 1)[1])
        self.name = f"twofold:{self.port}"
        text = self.text(self.config).replace(
            f'address = "{self.address}"',
            f'address = "{self.name}"\nlisten = "{self.address}"')
        with open(self.config, "w", encoding="utf-8") as out:
            out.write(text)
        self.start_named(self.log_path, "coordinator", "--config", self.config)
        self.token = wait_for("the coordinator serves",
                              lambda: self.order("token", "create", "--peer", "late"))["token"]

    def start_named(self, log, *command):
        with open(log, "w", encoding="utf-8") as out:
            self.processes.append(subprocess.Popen(
                [*self.names, os.path.join(BIN, "atolld"), *command], stdout=out,
                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL))

    def call(self, most, *command):
        """The call is done within so many seconds, and succeeds."""
        begun = time.monotonic()
        done = subprocess.run([*self.names, *command], capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertLess(time.monotonic() - begun, most, "a silent address used up the time")
        return done

    def show(self, most):
        self.call(most, os.path.join(BIN, "atoll"), "run", "show", "--coordinator", self.name,
                  "--identity", os.path.join(self.dir, "admin"))

    def listen_at_the_other(self, backlog):
        """Whoever connects to the IPv6 address is never answered; 0: nor is it connected."""
        mute = socket.socket(socket.AF_INET6)
        self.addCleanup(mute.close)
        mute.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        mute.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        mute.bind(("::1", self.port))
        mute.listen(backlog)
        for _ in range(4 if backlog == 0 else 0):  # the queue is full, and drops what comes
            filler = socket.socket(socket.AF_INET6)
            self.addCleanup(filler.close)
            filler.setblocking(False)
            filler.connect_ex(("::1", self.port))
        return mute

    def test_the_address_that_works_is_found(self):
        path = os.path.join(self.top, "token")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as out:
            out.write(self.token)
        folder = os.path.join(self.top, "late")
        with self.listen_at_the_other(0):  # as behind a firewall that drops
            self.show(5)
            done = self.call(30, os.path.join(BIN, "atolld"), "join", "--token-file", path,
                             "--enrol-only", "--dir", folder)
            self.assertRegex(done.stderr, "coordinator: twofold:[0-9]+ answers in")
        with self.listen_at_the_other(64):  # as behind a line that loses large packets
            self.show(9)
            log = os.path.join(self.top, "late.log")
            self.start_named(log, "peer", "--config", f"{folder}/config.toml")
            wait_for("the peer has found the other address, and said what was wrong with the one",
                     lambda: "the run waits" in self.text(log), seconds=30)
            self.assertIn("handshake stalled", self.text(log))


class SandboxTest(LoneCoordinator):
    """A peer in a sandbox: a user of its own, a program with capabilities, few system calls."""

    def program(self):
        """A copy of atolld that the kernel gives a capability, beside the worker."""
        folder = os.path.join(self.top, "bin")
        os.mkdir(folder)
        for name in ("atolld", "atoll-worker", "atoll-stub-worker"):
            shutil.copy(os.path.join(BIN, name), folder)
        path = os.path.join(folder, "atolld")
        done = subprocess.run(["setcap", "cap_net_bind_service=ep", path], capture_output=True,
                              text=True, check=False)
        if done.returncode != 0:
            self.skipTest(f"no capabilities of files here: {done.stderr}")
        return path

    def test_its_worker_is_watched_and_handed_memory(self):
        if os.getuid() != 0 or not shutil.which("setcap"):
            self.skipTest("only root may start a process as another user, with capabilities")
        os.chmod(self.top, 0o755)
        program = self.program()
        text = self.text(self.config).replace("peers = 8", "peers = 1\nrounds = 3")
        with open(self.config, "w", encoding="utf-8") as out:
            out.write(text)
        self.start(self.log_path, "coordinator", "--config", self.config)
        token = wait_for("the coordinator serves",
                         lambda: self.order("token", "create", "--peer", "late"))["token"]
        home = os.path.join(self.top, "home")
        os.mkdir(home)
        os.chown(home, NOBODY, NOBODY)
        log = os.path.join(self.top, "late.log")
        with open(log, "w", encoding="utf-8") as out:
            peer = subprocess.Popen(
                ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", program,
                 "join", "-", "--dir", os.path.join(home, "late")], stdin=subprocess.PIPE,
                stdout=out, stderr=subprocess.STDOUT, preexec_fn=no_pidfd, text=True)
        self.processes.append(peer)
        peer.stdin.write(token)
        peer.stdin.close()
        self.assertEqual(0, peer.wait(timeout=60), self.text(log))  # the run is over
        self.assertIn("processes: a worker can be started and handed memory", self.text(log))


if __name__ == "__main__":
    unittest.main()
