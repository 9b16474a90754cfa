"""Keeps the repository's own rules: includes, numerics, the Env seam, comments, links, format.

    tidy.py --root DIR [--clang-format PROGRAM]    checks a tree; one line a finding, exit 1 if any
    tidy.py --self-test                            plants each fault and asks that it is found

rules.py holds the rules and their few named exceptions.
"""

import argparse
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import rules  # noqa: E402
import self_test  # noqa: E402
import source  # noqa: E402

# The version whose output is the format; others differ in details and are not asked.
CLANG_FORMAT = 14


def check_format(root, files, program):
    """Findings of clang-format, and a note if it was not asked."""
    try:
        version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return [], "format: not checked, clang-format is not installed"
    match = re.search(r"version (\d+)", version.stdout)
    if not match or int(match.group(1)) != CLANG_FORMAT:
        return [], f"format: not checked, needs clang-format {CLANG_FORMAT}"
    paths = [file.path for file in files if file.is_cpp()]
    batches = [paths[start : start + 16] for start in range(0, len(paths), 16)]

    def run(batch):
        command = [program, "--dry-run", "--ferror-limit=1", *batch]
        return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False).stderr

    with ThreadPoolExecutor(max_workers=2) as pool:
        output = "".join(pool.map(run, batches))
    findings = {}
    for match in re.finditer(r"^(\S+?):(\d+):\d+: (?:warning|error): code should", output, re.M):
        findings.setdefault(match.group(1), int(match.group(2)))
    return [(path, line, "format", f"run clang-format -i {path}")
            for path, line in findings.items()], None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=os.getcwd())
    parser.add_argument("--clang-format", default="clang-format")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test.run(check_format, options.clang_format)

    root = os.path.abspath(options.root)
    files = source.read_tree(root)
    findings = rules.check(files)
    unformatted, note = check_format(root, files, options.clang_format)
    for path, line, rule, message in findings + unformatted:
        print(f"{path}:{line}: [{rule}] {message}")
    if note:
        print(note)
    count = len(findings) + len(unformatted)
    print(f"tidy: {len(files)} files, {count} findings")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
