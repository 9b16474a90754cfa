"""Would break: install.sh takes a tarball that nobody has signed, a stranger has signed or somebody
has changed, or one for another kind of processor, leaves something behind, or loses what an earlier
installation had; or what starts the worker does not say which PyTorch is missing.

The tarball holds scripts in place of the programs. scripts/wheel-check installs the real one.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ["ATOLL_SOURCE"]
BUNDLE = os.path.join(SOURCE, "scripts/bundle")
MACHINE = os.uname().machine
OTHER_MACHINE = "aarch64" if MACHINE == "x86_64" else "x86_64"
NUMBERS = {"x86_64": 62, "aarch64": 183}  # in an ELF file's header
NAME = f"atoll-9.9.9-linux-{MACHINE}.tar.zst"
TOOLS = ("openssl", "sh", "sha256sum", "tar", "zstd")


def run(*command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **options)


def done(*command, **options):
    ended = run(*command, **options)
    if ended.returncode != 0:
        raise AssertionError(f"{command}: {ended.returncode}\n{ended.stdout}")
    return ended.stdout


def write(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)
    os.chmod(path, mode)


class InstallTest(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="atoll-install-")
        self.addCleanup(shutil.rmtree, self.top)
        self.home = os.path.join(self.top, "home")
        self.release = os.path.join(self.top, "release")
        for folder in (self.home, self.release):
            os.makedirs(folder)
        self.environment = {"HOME": self.home, "PATH": os.environ["PATH"]}
        self.key = self.make_key("key")
        self.pack()

    def make_key(self, name):
        path = os.path.join(self.top, name)
        done("openssl", "genpkey", "-algorithm", "ed25519", "-out", path)
        done("openssl", "pkey", "-in", path, "-pubout", "-out", path + ".pub")
        return path

    def pack(self, version="9.9.9"):
        tree = os.path.join(self.top, "tree", "atoll-9.9.9")
        for program in ("atoll", "atolld"):
            write(f"{tree}/atoll/bin/{program}", f"#!/bin/sh\necho {program} {version}\n", 0o755)
            write(f"{tree}/share/man/man1/{program}.1", ".TH\n")
            write(f"{tree}/share/bash-completion/completions/{program}", "# none\n")
        with open(f"{BUNDLE}/atoll-worker.in", encoding="utf-8") as source:
            write(f"{tree}/atoll/bin/atoll-worker", source.read().replace("@TORCH@", "2.15"), 0o755)
        write(f"{tree}/atoll/libexec/atoll-worker", "#!/bin/sh\necho trains \"$@\"\n", 0o755)
        shutil.copy(f"{BUNDLE}/install.sh", f"{tree}/install.sh")
        shutil.copytree(f"{SOURCE}/configs/systemd/user", f"{tree}/share/systemd/user",
                        dirs_exist_ok=True)
        done("tar", "--zstd", "-cf", f"{self.release}/{NAME}", "-C", os.path.dirname(tree),
             os.path.basename(tree))
        self.sign(self.key)

    def sign(self, key):
        with open(f"{self.release}/SHA256SUMS", "w", encoding="utf-8") as out:
            out.write(done("sha256sum", NAME, cwd=self.release))
        done("openssl", "pkeyutl", "-sign", "-inkey", key, "-rawin", "-in",
             f"{self.release}/SHA256SUMS", "-out", f"{self.release}/SHA256SUMS.sig")

    def install(self, *options, file=None):
        return run("sh", f"{BUNDLE}/install.sh", *options, file or f"{self.release}/{NAME}",
                   env=self.environment)

    def refuses(self, text, *options, **where):
        ended = self.install(*options, **where)
        self.assertNotEqual(ended.returncode, 0, ended.stdout)
        self.assertIn(text, ended.stdout.splitlines()[-1])
        self.assertFalse(os.path.exists(f"{self.home}/.local/bin"), ended.stdout)

    def files(self):
        return {os.path.relpath(os.path.join(folder, name), self.home)
                for folder, _, names in os.walk(self.home) for name in names}

    def test_what_is_not_the_makers_is_refused(self):
        self.refuses("whose release is this? Pass --key FILE")
        stranger = self.make_key("stranger")
        self.refuses("not that maker's release", "--key", stranger + ".pub")
        self.refuses("is no public key", "--key", self.key)
        self.refuses("no such file", file="nothing.tar.zst")
        with open(f"{self.release}/{NAME}", "r+b") as tarball:
            tarball.seek(-1, os.SEEK_END)
            tarball.write(b"\0")
        self.refuses("its SHA-256 differs", "--key", self.key + ".pub")
        self.refuses("its SHA-256 differs", "--unsigned")
        self.pack()
        os.remove(f"{self.release}/SHA256SUMS.sig")
        self.refuses("nobody has signed this", "--key", self.key + ".pub")
        self.assertEqual(self.files(), set())

    def test_only_what_this_machine_can_run_is_installed(self):
        wrong = NAME.replace(MACHINE, OTHER_MACHINE)
        shutil.copy(f"{self.release}/{NAME}", f"{self.release}/{wrong}")
        self.refuses(f"{wrong} is for {OTHER_MACHINE}, and this machine is {MACHINE}", "--unsigned",
                     file=f"{self.release}/{wrong}")
        # Without a name: the one beside it that is for this machine.
        beside = ["sh", shutil.copy(f"{BUNDLE}/install.sh", self.release), "--unsigned"]
        os.rename(f"{self.release}/{NAME}", f"{self.release}/kept")
        self.assertIn(f"there is no tarball for {MACHINE}",
                      run(*beside, env=self.environment).stdout)
        os.rename(f"{self.release}/kept", f"{self.release}/{NAME}")
        self.assertEqual(self.files(), set())
        self.assertIn("installed atoll 9.9.9", run(*beside, env=self.environment).stdout)
        shutil.copy(f"{self.release}/{NAME}", self.release + "/" + NAME.replace("9.9.9", "9.9.10"))
        self.assertIn(f"there are 2 tarballs for {MACHINE}",
                      run(*beside, env=self.environment).stdout)
        # An unpacked one has no such name: its programs tell.
        tree = os.path.join(self.top, "tree", "atoll-9.9.9")
        with open(f"{tree}/atoll/bin/atolld", "wb") as program:
            program.write(b"\x7fELF".ljust(18, b"\0") + bytes((NUMBERS[OTHER_MACHINE], 0)))
        self.assertIn(f"{tree} is for {OTHER_MACHINE}, and this machine is {MACHINE}",
                      run("sh", f"{tree}/install.sh", env=self.environment).stdout)

    def test_installs_upgrades_and_leaves_nothing(self):
        torch = os.path.join(self.top, "torch")
        write(f"{torch}/lib/libtorch_cpu.so", "")
        write(f"{torch}/version.py", "__version__ = '2.15.0+cpu'\n")
        told = self.install("--key", self.key + ".pub", "--units", f"--torch={torch}")
        self.assertEqual(told.returncode, 0, told.stdout)
        self.assertIn("installed atoll 9.9.9", told.stdout)
        programs = f"{self.home}/.local/bin"
        self.assertEqual(done(f"{programs}/atoll-worker", "a b"), "trains a b\n")
        with open(f"{self.home}/.config/systemd/user/atoll-peer@.service",
                  encoding="utf-8") as unit:
            self.assertIn(f"ExecStart={programs}/atolld peer", unit.read())

        # The key is kept: another's release is refused, the maker's next one needs no --key.
        stranger = self.make_key("stranger")
        self.sign(stranger)
        self.assertIn("not that maker's release", self.install().stdout)
        self.assertIn("is not the key of earlier releases",
                      self.install("--key", stranger + ".pub").stdout)
        self.pack("9.9.9-again")
        self.assertIn("installed atoll 9.9.9-again", self.install().stdout)
        self.assertEqual(done(f"{programs}/atoll-worker", "on"), "trains on\n")
        self.assertEqual(os.listdir(f"{self.home}/.local/lib/atoll"), ["atoll-9.9.9"])

        removed = run("sh", f"{BUNDLE}/install.sh", "--remove", env=self.environment)
        self.assertEqual(removed.returncode, 0, removed.stdout)
        self.assertEqual(self.files(), {".config/atoll/release-key.pem"})

    def test_without_its_pytorch_the_worker_says_so(self):
        self.install("--unsigned")
        worker = f"{self.home}/.local/bin/atoll-worker"
        told = run(worker, "--version")
        self.assertEqual(told.returncode, 1)
        self.assertIn("PyTorch 2.15 is not installed beside Atoll", told.stdout)
        self.assertIn("install.sh --torch", told.stdout)
        other = os.path.join(self.top, "other")
        write(f"{other}/lib/libtorch_cpu.so", "")
        write(f"{other}/version.py", "__version__ = '2.9.1'\n")
        told = run(worker, "--version", env=self.environment | {"ATOLL_TORCH": other})
        self.assertIn(f"needs PyTorch 2.15, but {other} has 2.9:", told.stdout)
        self.assertEqual(len(told.stdout.splitlines()), 1)

    def test_the_wheel_is_of_the_programs_version(self):
        sys.path.insert(0, BUNDLE)
        import bundle  # pylint: disable=import-outside-toplevel
        told = done(os.path.join(os.environ["ATOLL_BIN"], "atoll"), "--version").split()
        metadata = bundle.metadata("2.15").splitlines()
        for line in ("Name: atoll", f"Version: {told[1]}", "Provides-Extra: hf",
                     'Requires-Dist: torch == 2.15.*; extra == "torch"',
                     'Requires-Dist: grpcio >= 1.48; extra == "python"'):
            self.assertIn(line, metadata)


if __name__ == "__main__":
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        print("not installed:", *missing)
        sys.exit(77)
    unittest.main(verbosity=2)
