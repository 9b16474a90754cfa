"""The rules: each is a function from a tree's files to findings (path, line, rule, message)."""

import re

import classes
import language
import links
import shape
from includes import OURS, check_includes

# ------------------------------------------------------------------------------------------------
# Numerics: the same bits on every CPU.

NUMERIC_FOLDERS = ("compression", "optimizer", "membership", "daemon")
NUMERICS = [
    (r"\b\w*Mul(?:Add|Sub|EvenAdd|OddAdd)\w*",
     "fused on AVX2 and separate on SSE4"),
    (r"\b(?:ReorderWidenMulAccumulate|WidenMulPairwiseAdd|WidenMulAccumulate)\b",
     "its order of float sums depends on the target; for integers say so: // tidy: integer lanes"),
    (r"\bApproximate\w+", "its precision depends on the target"),
    (r"\b(?:SumOfLanes|ReduceSum)\b",
     "its order of float sums depends on the target; for integers say so: // tidy: integer lanes"),
    (r"\b(?:hwy::)?b?float16_t\b|\b_Float16\b|\b__fp16\b|\b__bf16\b",
     "DemoteTo/PromoteTo round halves differently by target: convert in integer code"),
    (r"\b(?:std::fmaf?|fmaf?|fmal|__builtin_fmaf?)\s*\(", "a fused multiply-add"),
    (r"#\s*pragma\s+(?:STDC\s+FP_CONTRACT|GCC\s+optimize|clang\s+fp)"
     r"|__attribute__\s*\(\(\s*optimize",
     "changes how the compiler treats floats"),
]
FLAGS = re.compile(
    r"-(?:ffast-math|Ofast|funsafe-math-optimizations|fassociative-math|freciprocal-math"
    r"|ffinite-math-only|ffp-contract=(?:fast|on)|march=native|mcpu=native|mfma)\b")
FLAG_FILES = re.compile(r"(^|/)(CMakeLists\.txt|CMakePresets\.json|Dockerfile|Makefile)$|\.cmake$")


def check_numerics(files):
    for file in files:
        if file.is_cpp() and file.under(*NUMERIC_FOLDERS):
            for number, line in enumerate(file.bare, 1):
                for pattern, why in NUMERICS:
                    match = re.search(pattern, line)
                    if not match:
                        continue
                    whole = file.lines[number - 1]
                    if "integer lanes" in why and "// tidy: integer lanes" in whole:
                        continue
                    yield file.path, number, "numerics", f"{match.group().strip()}: {why}"
        elif FLAG_FILES.search(file.path) or file.under("scripts", ".ci"):
            for number, line in enumerate(file.lines, 1):
                match = FLAGS.search(line.split("#")[0])
                if match:
                    yield (file.path, number, "numerics",
                           f"{match.group()}: bits would depend on the machine that builds")


# ------------------------------------------------------------------------------------------------
# Time, randomness and files pass through daemon/env/env.h.

CALL = r"(?<![\w.])(?<!->)(?<!\w::)"  # a call of a C function, not of somebody's member
CLOCK = [
    (r"::\s*now\s*\(", "reads a clock"),
    (r"\babsl::(?:Now|GetCurrentTimeNanos)\b", "reads a clock"),
    (CALL + r"(?:std::|::)?(?:clock_gettime|gettimeofday|timespec_get|ftime)\s*\(",
     "reads a clock"),
    (CALL + r"(?:std::|::)?(?:clock\s*\(\s*\)|time\s*\(\s*(?:NULL|nullptr|0|&\w+)\s*\))",
     "reads a clock"),
    (r"\bsleep_(?:for|until)\b|\babsl::SleepFor\b", "sleeps"),
    (CALL + r"(?:::)?(?:sleep|usleep|nanosleep|clock_nanosleep)\s*\(", "sleeps"),
    (r"\brandom_device\b|\babsl::(?:Insecure)?BitGen\b|\bRAND_(?:priv_)?bytes\b",
     "draws a random number"),
    (CALL + r"(?:std::|::)?(?:(?:rand|[dl]rand48)\s*\(\s*\)"
            r"|(?:srand|srandom|rand_r|arc4random\w*|getrandom|getentropy)\s*\()"
            r"|(?<!\w)::random\s*\(",
     "draws a random number"),
]
FILES = [
    (CALL + r"(?:(?:std::|::)?(?:fopen|freopen|tmpfile)|(?:::)?(?:fdopen|open|openat|creat|mmap"
            r"|shm_open|memfd_create|popen|mkstemp|unlink|rename|mkdir|opendir|socket|connect)"
            r"|::(?:remove|bind|accept))\s*\((?!\s*\))",  # open() is somebody's accessor
     "opens a file or a socket"),
    (r"\bstd::(?:basic_)?[io]?fstream\b|\bstd::filesystem\b", "opens a file"),
]
# Files that implement daemon/env/env.h, or measure time that no decision of the protocol rests on.
CLOCK_FREE = {
    r"daemon/env/posix_\w+\.(h|cc)": "the production Env",
    r"daemon/transport/.*": "the production Env's network",
    r"daemon/etcd/.*": "how long a coordinator leads; its own thread, beside the loop",
    r"tests/.*": "tests measure and time out",
    r"daemon/(program/process|cli/local_layout|bench/churn_\w+)\.(h|cc)|daemon/cli/local/.*":
        "starts and awaits programs; outside every run",
    r"daemon/cli/verbs/(admin|branch|check)_verb\.cc":
        "tells a person whose certificate has expired",
    r"daemon/cli/verbs/\w+_verbs\.cc": "paces what a person sees",
    r"worker/program/data_commands\.cc": "paces what a person sees",
    r"worker/program/measure\.cc": "measures how fast a step is; outside every run",
    r"worker/base/grpc_link\.cc": "limits how long the dial to the daemon may take",
    r"worker/training/math_library\.cc": "measures how fast the mathematics runs",
    r"worker/base/learner\.h": "measures how fast training runs; tests bring their own clock",
}
FILES_FOLDERS = ("daemon/replica", "daemon/exchange", "daemon/peer", "daemon/coordinator",
                 "membership")
FILES_FREE = {
    r"daemon/peer/parameter_memory\.(h|cc)": "the mapping that a peer shares with its worker",
    r"daemon/coordinator/sqlite_\w+\.(h|cc)": "SQLite opens its own file",
}


def listed(path, table):
    return any(re.fullmatch(pattern, path) for pattern in table)


def check_env(files):
    for file in files:
        if not file.is_cpp() or file.top() not in OURS:
            continue
        wanted = []
        if not listed(file.path, CLOCK_FREE):
            wanted += CLOCK
        if file.under(*FILES_FOLDERS) and not listed(file.path, FILES_FREE):
            wanted += FILES
        for number, line in enumerate(file.bare, 1):
            for pattern, why in wanted:
                match = re.search(pattern, line)
                if match:
                    name = match.group().strip().rstrip("(").strip()
                    message = f"{name}: {why}; that is daemon/env/env.h's to do"
                    yield file.path, number, "env", message
        for number, path, _ in file.includes():
            if path in ("fstream", "filesystem") and FILES[0] in wanted:
                why = "opens files; that is daemon/env/env.h's to do"
                yield file.path, number, "env", f"<{path}>: {why}"


# ------------------------------------------------------------------------------------------------
# Sizes and shape.

HEADER_LINES, SOURCE_LINES, COLUMNS, BYTES = 250, 800, 100, 100 * 1000
LONGER = {  # path: (lines, reason)
    "daemon/env/env.h": (280, "the whole seam is one contract, read as one page"),
}
LARGER = {}  # path: reason
WIDTH_CHECKED = re.compile(
    r"\.(h|cc|proto|cmake|py|sh|toml|yml|yaml)$|(^|/)(CMakeLists\.txt|Dockerfile|entrypoint)$"
    r"|^scripts/|^\.ci/")


def check_sizes(files):
    for file in files:
        if file.size > BYTES and file.path not in LARGER:
            yield file.path, 1, "size", f"{file.size} bytes; at most {BYTES} belong in git"
        limit = HEADER_LINES if file.is_header() else SOURCE_LINES
        limit, _ = LONGER.get(file.path, (limit, ""))
        if (file.is_cpp() or file.path.endswith((".proto", ".py"))) and len(file.lines) > limit:
            yield file.path, limit + 1, "size", f"{len(file.lines)} lines; at most {limit}"
        if not WIDTH_CHECKED.search(file.path):
            continue
        for number, line in enumerate(file.lines, 1):
            # An include or an address cannot be broken.
            if len(line) > COLUMNS and not re.search(r"^\s*#\s*include|https?://", line):
                yield file.path, number, "size", f"{len(line)} columns; at most {COLUMNS}"


def check_headers(files):
    for file in files:
        # Highway's *-inl.h are included once a target, under a guard of their own.
        if not file.is_header() or file.path.endswith("-inl.h"):
            continue
        if not any(re.match(r"\s*#\s*pragma\s+once\b", line) for line in file.code):
            yield file.path, 1, "header", "has no #pragma once"


# Split, so that this file does not find itself.
WORDS = [
    (r"(?<![\w.~-])/wor" + r"k/", "a path of one machine"),
    (r"/tmp/" + r"wt\b", "a path of one machine"),
    (r"\bissue " + r"#\d+", "a number that a reader of the repository cannot look up"),
    (r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b", "finish it, or leave it out"),
]


def check_words(files):
    for file in files:
        for number, line in enumerate(file.lines, 1):
            for pattern, why in WORDS:
                match = re.search(pattern, line)
                if match:
                    yield file.path, number, "words", f"{match.group()}: {why}"


# A path in a page: `daemon/peer/peer.h`, [text](../daemon/peer/), tests/sim.
NAMED = re.compile(r"(?<![\w./<{$*-])(?:\.\./)?((?:" + "|".join(OURS)
                   + r"|configs|docs|scripts|cmake)/[\w.+/-]*[\w+])(?![\w*{<$])")


def check_paths(files):
    """What pages and comments name is there; in code only what has an ending, since "trust/run" in
    a comment may be any two words."""
    known = {file.path for file in files}
    for path in list(known):
        while "/" in path:
            path = path.rsplit("/", 1)[0]
            known.add(path)
    for file in files:
        page = file.path.endswith(".md")
        if not page and not file.is_cpp() and not file.path.endswith((".proto", ".toml")):
            continue
        for number, line in enumerate(file.lines, 1):
            if not page and re.match(r"\s*#\s*include\b", line):
                continue
            for match in NAMED.finditer(line):
                path = match.group(1)
                ended = page or path.endswith((".h", ".cc", ".md", ".py", ".proto", ".toml"))
                if ended and path not in known:
                    yield file.path, number, "paths", f"{path}: there is no such file"


ALL = [check_includes, check_numerics, check_env, check_sizes, check_headers, check_words,
       check_paths] + language.ALL + shape.ALL + classes.ALL + links.ALL


def check(files):
    return sorted(finding for rule in ALL for finding in rule(files))
