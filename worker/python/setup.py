"""What pyproject.toml cannot say: the version, which is the project's (CMakeLists.txt at the top),
and the messages, which protoc makes of proto/ as in every build."""

import os
import re
import shutil
import subprocess

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
MESSAGES = ("atoll/v1/run.proto", "atoll/v1/worker.proto")


def version():
    with open(os.path.join(TOP, "CMakeLists.txt"), encoding="utf-8") as source:
        found = re.search(r"^project\(atoll VERSION ([0-9.]+)", source.read(), re.MULTILINE)
    if found is None:
        raise SystemExit(f"{TOP}/CMakeLists.txt names no version of the project")
    return found.group(1)


class BuildWithMessages(build_py):
    def run(self):
        super().run()
        if shutil.which("protoc") is None:
            raise SystemExit("protoc is not installed (Debian: protobuf-compiler)")
        protos = os.path.join(TOP, "proto")
        subprocess.run(["protoc", "-I", protos, f"--python_out={self.build_lib}",
                        *(os.path.join(protos, name) for name in MESSAGES)], check=True)


setup(version=version(), cmdclass={"build_py": BuildWithMessages})
