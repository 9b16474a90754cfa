"""Would break: a package lacks a file, a dependency or a step, names the wrong version, or holds
what does not belong into one.

The packages are made of this build, looked at with dpkg-deb, and unpacked into a folder, by dpkg
where that may be done. scripts/package-check installs them into a real Debian.
"""

import glob
import gzip
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

BUILD = os.path.dirname(os.environ["ATOLL_BIN"])
SOURCE = os.environ["ATOLL_SOURCE"]
TOOLS = ("cpack", "dpkg", "dpkg-deb", "dpkg-shlibdeps", "file", "gzip")

LAB_PROGRAMS = {"usr/lib/atoll/atoll-wan", "usr/lib/atoll/lab/lab"}
LAB = LAB_PROGRAMS | {
    f"usr/lib/atoll/lab/{name}.py"
    for name in ("check", "lab_command", "measure", "network", "topology", "train", "world")}
FILES = {
    "atoll": {
        "etc/default/atoll", "usr/bin/atoll", "usr/bin/atolld",
        "usr/lib/systemd/system/atoll-coordinator.service",
        "usr/lib/systemd/system/atoll-peer.service", "usr/lib/systemd/system/atoll-peer@.service",
        "usr/share/bash-completion/completions/atoll",
        "usr/share/bash-completion/completions/atolld",
        "usr/share/doc/atoll/changelog.gz", "usr/share/doc/atoll/copyright",
        "usr/share/doc/atoll/examples/coordinator.toml",
        "usr/share/doc/atoll/examples/peer.toml", "usr/share/man/man1/atoll.1.gz",
        "usr/share/man/man1/atolld.1.gz", "usr/share/zsh/vendor-completions/_atoll",
        "usr/share/zsh/vendor-completions/_atolld"} | LAB,
    "atoll-worker": {
        "usr/bin/atoll-stub-worker", "usr/bin/atoll-worker", "usr/lib/atoll/atoll-sentencepiece.so",
        "usr/share/doc/atoll-worker/changelog.gz", "usr/share/doc/atoll-worker/copyright",
        "usr/share/man/man1/atoll-worker.1.gz"},
    "python3-atoll-worker": {
        "usr/bin/atoll-track", "usr/share/doc/python3-atoll-worker/changelog.gz",
        "usr/share/doc/python3-atoll-worker/copyright"} | {
        "usr/share/doc/python3-atoll-worker/examples/" + os.path.basename(path)
        for path in glob.glob(os.path.join(SOURCE, "worker/python/examples/*.py"))} | {
        "usr/lib/python3/dist-packages/" + os.path.relpath(path, f"{SOURCE}/worker/python")
        for path in glob.glob(f"{SOURCE}/worker/python/atoll_*/**/*.py", recursive=True)} | {
        f"usr/lib/python3/dist-packages/atoll/v1/{name}_pb2.py" for name in ("run", "worker")},
}
NEEDS = {
    "atoll": ("adduser", "init-system-helpers", "libc6", "libgrpc++", "libsqlite3-0", "libssl3"),
    "atoll-worker": ("libc6", "libgrpc++", "libtorch", "libsentencepiece0"),
    "python3-atoll-worker": ("python3", "python3-grpcio", "python3-numpy", "python3-protobuf"),
}
# Of atoll-worker CPack writes its own, for the module.
SCRIPTS = {"atoll": {"conffiles", "postinst", "postrm", "prerm"},
           "python3-atoll-worker": {"postinst", "prerm"}}


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class PackagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.top = tempfile.mkdtemp(prefix="atoll-packages-")
        # gzip, since how well they are compressed is not what is asked.
        run("cpack", "-B", cls.top, "--config", os.path.join(BUILD, "CPackConfig.cmake"),
            "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip", cwd=cls.top)
        cls.packages = {os.path.basename(path).split("_")[0]: path
                        for path in glob.glob(os.path.join(cls.top, "*.deb"))}
        cls.root = os.path.join(cls.top, "root")
        os.makedirs(cls.root)
        if os.geteuid() == 0:  # dpkg itself: a file that two packages have is an error
            for folder in ("info", "updates"):
                os.makedirs(os.path.join(cls.root, "var/lib/dpkg", folder))
            open(os.path.join(cls.root, "var/lib/dpkg/status"), "w", encoding="utf-8").close()
            run("dpkg", f"--root={cls.root}", "--force-depends", "--log=/dev/null", "--unpack",
                *cls.packages.values())
        else:
            for path in cls.packages.values():
                run("dpkg-deb", "-x", path, cls.root)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.top)

    def field(self, package, name):
        return run("dpkg-deb", "-f", self.packages[package], name).strip()

    def test_packages_are_complete_and_their_own(self):
        self.assertEqual(set(self.packages), set(FILES))
        for package, files in FILES.items():
            listed = run("dpkg-deb", "-c", self.packages[package]).splitlines()
            found = {line.split()[-1][2:] for line in listed if not line.startswith("d")}
            self.assertEqual(found, files, package)
            for line in listed:
                self.assertIn("root/root", line)
                runs = "/bin/" in line or line.split()[-1][2:] in LAB_PROGRAMS
                wanted = "rwxr-xr-x" if line[0] == "d" or runs else "rw-r--r--"
                self.assertEqual(line[1:10], wanted, line)

    def test_what_control_says(self):
        version = run(os.path.join(BUILD, "bin/atoll"), "--version").split()[1]
        for package, needs in NEEDS.items():
            self.assertRegex(self.field(package, "Version"), "^" + re.escape(version) + "(~|$)")
            self.assertRegex(self.field(package, "Maintainer"), "^.+ <.+@.+>$")
            self.assertIn(self.field(package, "Section"), ("science", "python"))
            self.assertEqual(self.field(package, "Priority"), "optional")
            depends = self.field(package, "Depends").split(", ")
            for need in needs:
                self.assertTrue(any(one.startswith(need) for one in depends), (need, depends))
            summary, *rest = self.field(package, "Description").splitlines()
            self.assertLess(len(summary), 80)
            self.assertGreater(len(rest), 3, package)
            with gzip.open(os.path.join(self.root, f"usr/share/doc/{package}/changelog.gz"), "rt",
                           encoding="utf-8") as changes:
                self.assertIn(f"({self.field(package, 'Version')})", changes.readline())
        self.assertEqual(self.field("python3-atoll-worker", "Architecture"), "all")
        self.assertNotIn("libtorch", self.field("atoll", "Depends"))

    def test_maintainer_scripts(self):
        for package, scripts in SCRIPTS.items():
            folder = os.path.join(self.top, "control-" + package)
            run("dpkg-deb", "-e", self.packages[package], folder)
            self.assertEqual(set(os.listdir(folder)) - {"control", "md5sums"}, scripts)
            for script in scripts - {"conffiles"}:
                path = os.path.join(folder, script)
                run("sh", "-n", path)
                self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o755, path)
        conffiles = os.path.join(self.top, "control-atoll/conffiles")
        with open(conffiles, encoding="utf-8") as listed:
            self.assertEqual(listed.read().split(), ["/etc/default/atoll"])

    def test_what_is_unpacked_runs(self):
        for program in ("atoll", "atolld", "atoll-worker", "atoll-stub-worker"):
            path = os.path.join(self.root, "usr/bin", program)
            self.assertIn("stripped", run("file", path))
            self.assertNotIn("not stripped", run("file", path))
            run(path, "--version")
        with gzip.open(os.path.join(self.root, "usr/share/man/man1/atolld.1.gz"), "rt",
                       encoding="utf-8") as page:
            self.assertIn(".TH", page.read())
        run("/usr/bin/python3", "-c", "import atoll.v1.worker_pb2, ast, sys\n"
            "sys.exit(not atoll.v1.worker_pb2.WorkerHello(protocol=2).SerializeToString())",
            env={"PYTHONPATH": os.path.join(self.root, "usr/lib/python3/dist-packages"),
                 "PYTHONDONTWRITEBYTECODE": "1"})
        for example in ("coordinator", "peer"):
            path = os.path.join(self.root, f"usr/share/doc/atoll/examples/{example}.toml")
            run(os.path.join(self.root, "usr/bin/atoll"), "config", "print", path)

    def test_units(self):
        folder = os.path.join(self.top, "units")
        os.makedirs(folder)
        for unit in glob.glob(os.path.join(self.root, "usr/lib/systemd/system/*.service")):
            with open(unit, encoding="utf-8") as source:
                text = source.read()
            self.assertIn("Type=notify", text)
            with open(os.path.join(folder, os.path.basename(unit)), "w", encoding="utf-8") as out:
                out.write(text.replace("/usr/bin/atolld",
                                       os.path.join(self.root, "usr/bin/atolld")))
        if shutil.which("systemd-analyze") is None:
            self.skipTest("no systemd-analyze here")
        units = [os.path.join(folder, name)
                 for name in ("atoll-coordinator.service", "atoll-peer.service",
                              "atoll-peer@1.service")]
        os.rename(os.path.join(folder, "atoll-peer@.service"), units[2])
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", *units],
                              capture_output=True, text=True, check=False)
        own = [line for line in done.stderr.splitlines() if folder in line or "atoll-" in line]
        self.assertEqual(own, [])
        for unit in units[:2]:  # 10 is a service that may do everything
            told = run("systemd-analyze", "security", "--offline=yes", "--no-pager", unit)
            level = float(re.search(r"Overall exposure level for .*: ([0-9.]+)", told).group(1))
            self.assertLess(level, 2.5, told)

    def test_units_of_a_user(self):
        if shutil.which("systemd-analyze") is None:
            self.skipTest("no systemd-analyze here")
        folder = os.path.join(self.top, "user-units")
        os.makedirs(folder)
        for unit in glob.glob(os.path.join(SOURCE, "configs/systemd/user/*.service")):
            with open(unit, encoding="utf-8") as source:
                text = source.read().replace("@BIN@", os.path.join(self.root, "usr/bin"))
            name = os.path.basename(unit).replace("@", "@books")  # as install.sh does, and started
            with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
                out.write(text)
        done = subprocess.run(["systemd-analyze", "verify", "--user", "--man=no",
                               *glob.glob(folder + "/*")],
                              capture_output=True, text=True, check=False,
                              env=os.environ | {"XDG_RUNTIME_DIR": self.top})
        own = [line for line in done.stderr.splitlines() if folder in line or "atoll-" in line]
        self.assertEqual(own, [])


if __name__ == "__main__":
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        print("not installed:", *missing)
        sys.exit(77)
    unittest.main(verbosity=2)
