"""Compiles every header alone, twice in one file: it brings what it needs and guards itself.

    headers.py --root DIR --work DIR [--jobs N] [--without-grpc] -- COMPILER FLAGS...

Headers that reach libtorch are left to the build of worker/: each would take 20 seconds. One that
its own source includes before all else is compiled alone by the build, where that source reads
nothing precompiled. Objects are made at -O0, so that a ccache before the compiler answers for
headers that did not change.
"""

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import includes  # noqa: E402
import source  # noqa: E402


def reaches(files, library):
    """The paths of headers that include `library`, themselves or through other headers."""
    included = {f.path: [path for _, path, _ in f.includes()] for f in files}
    found = {path for path, names in included.items()
             if any(includes.library_of(name) == library for name in names)}
    while True:
        more = {path for path, names in included.items() if found & set(names)} - found
        if not more:
            return found
        found |= more


# What is built without precompiled headers (cmake/AtollTargets.cmake).
PLAIN_FOLDERS = ("compression", "optimizer", "membership", "daemon")


def first_of_their_source(files):
    """The paths of headers that a source of the same name includes first."""
    found = set()
    for file in files:
        if file.path.endswith(".cc") and file.under(*PLAIN_FOLDERS):
            first = next(file.includes(), (0, "", True))[1]
            if first == file.path[:-3] + ".h":
                found.add(first)
    return found


def compile_alone(path, options, command):
    stub = os.path.join(options.work, path.replace("/", "__") + ".cc")
    with open(stub, "w", encoding="utf-8") as handle:
        handle.write(f'#include "{path}"\n#include "{path}"\n')
    result = subprocess.run(
        [*command, "-O0", "-c", stub, "-o", stub + ".o"],
        cwd=options.work, capture_output=True, text=True, check=False)
    return result.returncode, result.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--without-grpc", action="store_true")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)

    # Named again, the compiler's own folder would come too early for #include_next.
    command = [word for word in options.command if word != "-isystem/usr/include"]
    files = source.read_tree(options.root)
    headers = [f for f in files if f.is_header()]
    compiled = first_of_their_source(files)
    left_out = reaches(headers, "torch")
    if options.without_grpc:
        left_out |= reaches(headers, "grpc")
    paths = [f.path for f in headers if f.path not in left_out | compiled]
    with ThreadPoolExecutor(max_workers=options.jobs) as pool:
        results = list(pool.map(lambda path: compile_alone(path, options, command), paths))
    failed = 0
    for path, (code, errors) in zip(paths, results):
        if code != 0:
            failed += 1
            print(f"{path} does not compile alone:\n{errors}")
    print(f"headers: {len(paths)} compiled alone, {failed} failed, {len(compiled)} by the build, "
          f"{len(left_out)} left out")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
