"""The shape of the code: circles of includes, one class in one source, the length of functions,
one definition of a type's name in a binary, and that a file includes what it names."""

import re

# ------------------------------------------------------------------------------------------------
# Circles. A source and the header of its name are one unit: what one of them includes, both need.


def unit_of(path):
    return path.rsplit(".", 1)[0]


def circles(graph):
    """The strongly connected parts of more than one unit (Tarjan), each sorted."""
    index, low, stack, found = {}, {}, [], []

    def visit(start):
        work = [(start, iter(sorted(graph[start])))]
        index[start] = low[start] = len(index)
        stack.append(start)
        while work:
            unit, others = work[-1]
            for other in others:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    work.append((other, iter(sorted(graph.get(other, ())))))
                    break
                if other in stack:
                    low[unit] = min(low[unit], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[unit])
                if low[unit] == index[unit]:
                    part = stack[stack.index(unit):]
                    del stack[stack.index(unit):]
                    if len(part) > 1:
                        found.append(sorted(part))

    for unit in sorted(graph):
        if unit not in index:
            visit(unit)
    return found


def check_circles(files):
    known = {file.path for file in files}
    graph, first = {}, {}
    for file in files:
        if not file.is_cpp() or file.top() == "":
            continue
        unit = unit_of(file.path)
        graph.setdefault(unit, set())
        first.setdefault(unit, file.path)
        for _, path, _ in file.includes():
            if path in known and unit_of(path) != unit:
                graph[unit].add(unit_of(path))
    for unit in list(graph):
        graph[unit] = {other for other in graph[unit] if other in graph}
    for part in circles(graph):
        yield first[part[0]], 1, "circle", f"includes go in a circle: {', '.join(part)}"


# ------------------------------------------------------------------------------------------------
# One class, one source.

METHOD = re.compile(r"^(?!\s)(?!return\b)(?:[\w:<>,&*\[\]~ ]+[ &*])?"
                    r"((?:\w+::)+)(~?\w+|operator\S+)\(")
LIBRARY_SCOPES = {"std", "absl", "v1", "grpc", "torch", "at", "c10", "google", "hn", "hwy",
                  "testing", "nlohmann", "toml", "CLI", "spdlog", "fmt", "internal"}


def check_classes(files):
    sources = {}
    for file in files:
        if not file.path.endswith(".cc"):
            continue
        for number, line in enumerate(file.bare, 1):
            match = METHOD.match(line)
            if not match:
                continue
            name = match.group(1).rstrip(":").split("::")[0]
            if name in LIBRARY_SCOPES or name.islower():
                continue
            sources.setdefault((file.top() == "tests", name), {}).setdefault(file.path, number)
    for (in_tests, name), places in sorted(sources.items()):
        by_folder = {}
        for path, number in places.items():
            # Tests of different rooms have fixtures of one name, in programs of their own.
            folder = path.rsplit("/", 1)[0] if in_tests else ""
            by_folder.setdefault(folder, []).append((path, number))
        for group in by_folder.values():
            group.sort()
            for path, number in group[1:]:
                yield path, number, "class", f"{name} has its source in {group[0][0]} already"


# ------------------------------------------------------------------------------------------------
# Functions.

FUNCTION_LINES = 70
NO_FUNCTION = re.compile(r"(?:namespace|class|struct|union|enum|extern|using|typedef|static_assert"
                         r"|if|for|while|switch|do|else|return|try|case|default|public|private"
                         r"|protected)\b|[#}/:]")


def functions(file):
    """(first line, lines) of every function, by how clang-format lays it out: its head and its
    closing brace stand at one level, the namespace's or that of a class in it."""
    within = set()  # the lines of functions of the namespace's level
    for level in ("", "  "):
        start, opened = 0, False
        for number, line in enumerate(file.bare, 1):
            text = line.rstrip()
            at_level = line.startswith(level) and text and not line[len(level)].isspace()
            if number in within:
                start, opened = 0, False
                continue
            if opened:
                if at_level and line[len(level)] == "}":
                    if text == level + "}":
                        yield start, number - start + 1
                        if not level:
                            within.update(range(start, number + 1))
                    start, opened = 0, False
                continue
            if at_level and (NO_FUNCTION.match(line[len(level):]) or not start):
                start = 0 if NO_FUNCTION.match(line[len(level):]) else number
            if start and text.endswith("{"):
                opened = True
            elif text.endswith((";", "}")):
                start = 0


def check_functions(files):
    for file in files:
        if not file.is_cpp():
            continue
        seen = set()
        for number, length in functions(file):
            if length > FUNCTION_LINES and number not in seen:
                seen.add(number)
                yield file.path, number, "function", f"{length} lines; at most {FUNCTION_LINES}"


# ------------------------------------------------------------------------------------------------
# One definition of a type's name in a binary.

TYPE = re.compile(r"^(?:class|struct|union|enum(?: class| struct)?)\s+(?:\[\[\w+\]\]\s*)?(\w+)"
                  r"(?:\s+final)?\s*(?::[^:;][^;]*)?(?:\{|$)")
# What is linked into one program. Tests of a room are linked with all that it stands on.
BINARIES = [
    ("compression", "optimizer", "membership", "daemon"),
    ("compression", "worker"),
]


def types(file):
    """(line, name) of every type that the file defines in namespace atolld itself."""
    unnamed = 0
    for number, line in enumerate(file.bare, 1):
        if re.match(r"namespace\s*\{", line):
            unnamed += 1
        elif unnamed and re.match(r"\}\s*$", line) and "// namespace" in file.lines[number - 1] \
                and "// namespace atolld" not in file.lines[number - 1]:
            unnamed -= 1
        elif unnamed and re.match(r"\}", line) and file.lines[number - 1].strip() == \
                "}  // namespace":
            unnamed -= 1
        elif not unnamed:
            match = TYPE.match(line)
            if match:
                yield number, match.group(1)


def check_types(files):
    for folders in BINARIES:
        places = {}
        for file in files:
            if not file.is_cpp() or file.top() not in folders:
                continue
            if file.top() == "compression" and "worker" in folders and \
                    not file.under("compression/base"):
                continue
            for number, name in types(file):
                places.setdefault(name, []).append((file.path, number))
        for name, found in sorted(places.items()):
            for path, number in found[1:]:
                yield path, number, "type", f"{name} is the name of a type of {found[0][0]} too"


# ------------------------------------------------------------------------------------------------
# A file includes what it names, itself or through our headers that it includes: sources of a room
# are compiled together, so a compiler would not tell.

SYMBOLS = [
    (r"\bstd::(?:sort|stable_sort|max|min|clamp|find|find_if|any_of|all_of|none_of|copy|copy_n"
     r"|fill|fill_n|max_element|min_element|lower_bound|upper_bound|remove_if|nth_element|reverse"
     r"|count_if|transform|equal|unique|minmax_element|rotate|partial_sort|swap_ranges"
     r"|binary_search|is_sorted)\s*\(", ("algorithm",)),
    (r"\bstd::(?:map|multimap)\s*<", ("map",)),
    (r"\bstd::(?:set|multiset)\s*<", ("set",)),
    (r"\bstd::deque\s*<", ("deque",)),
    (r"\bstd::optional\s*<|\bstd::nullopt\b", ("optional",)),
    (r"\bstd::vector\s*<", ("vector",)),
    (r"\bstd::(?:unique|shared|weak)_ptr\s*<|\bstd::make_(?:unique|shared)\s*<", ("memory",)),
    (r"\bstd::function\s*<", ("functional",)),
    (r"\bstd::array\s*<", ("array",)),
    (r"\bstd::atomic\s*<", ("atomic",)),
    (r"\bstd::(?:string|to_string)\b", ("string",)),
    (r"\bstd::thread\b", ("thread",)),
    (r"\bstd::variant\s*<|\bstd::visit\s*\(", ("variant",)),
    (r"\bstd::(?:fstream|ifstream|ofstream)\b", ("fstream",)),
    (r"\bstd::filesystem::", ("filesystem",)),
    (r"\bstd::chrono::", ("chrono",)),
    (r"\bstd::accumulate\s*\(|\bstd::iota\s*\(", ("numeric",)),
    (r"\bstd::(?:sqrt|pow|ceil|floor|isfinite|isnan|isinf|llround|lround|log|exp|abs|fabs|round"
     r"|frexp|ldexp|log2|fmod)\s*\(", ("cmath", "cstdlib", "complex")),
    (r"\bstd::mem(?:cpy|set|cmp|move)\s*\(|\bstd::str(?:len|cmp|error)\s*\(", ("cstring",)),
    (r"\babsl::Str(?:Cat|Append)\s*\(", ("absl/strings/str_cat.h",)),
    (r"\babsl::StrFormat\s*\(|\babsl::FPrintF\s*\(", ("absl/strings/str_format.h",)),
    (r"\babsl::StrJoin\s*\(", ("absl/strings/str_join.h",)),
    (r"\babsl::StrSplit\s*\(", ("absl/strings/str_split.h",)),
    (r"\babsl::StrReplaceAll\s*\(", ("absl/strings/str_replace.h",)),
    (r"\babsl::(?:StartsWith|EndsWith|StrContains)(?:IgnoreCase)?\s*\(", ("absl/strings/match.h",)),
    (r"\babsl::Consume(?:Prefix|Suffix)\s*\(|\babsl::Strip(?:Prefix|Suffix)\s*\(",
     ("absl/strings/strip.h",)),
    (r"\babsl::Simple(?:Atoi|Atod|Atof|HexAtoi)\s*\(", ("absl/strings/numbers.h",)),
    (r"\babsl::(?:BytesToHexString|HexStringToBytes|CEscape|Base64Escape|Base64Unescape"
     r"|WebSafeBase64Escape|WebSafeBase64Unescape|Utf8SafeCEscape)\s*\(",
     ("absl/strings/escaping.h",)),
    (r"\babsl::StatusOr\s*<", ("absl/status/statusor.h",)),
    (r"\babsl::(?:Duration|Seconds|Milliseconds|Minutes|FromUnixSeconds|InfiniteFuture)\b",
     ("absl/time/time.h", "absl/time/clock.h")),
    (r"\babsl::(?:Span\s*<|MakeSpan|MakeConstSpan)", ("absl/types/span.h",)),
    (r"\babsl::bit_cast\s*<", ("absl/base/casts.h",)),
    (r"\bRETURN_IF_ERROR\s*\(|\bASSIGN_OR_RETURN\s*\(|\bAnnotate\s*\(",
     ("compression/base/status_macros.h",)),
    (r"(?<![\w_])CHECK(?:_OK)?\s*\(", ("compression/base/check.h",)),
    (r"\bPlanted\s*\(", ("compression/base/planted_bug.h",)),
]
SYMBOLS = [(re.compile(pattern), headers) for pattern, headers in SYMBOLS]
# Names of ours that are too common, as members and parameters, to be told by their spelling.
NAME = re.compile(r"\b[A-Z]\w{3,}\b")


def reached(file, by_path):
    """Our own headers that a file includes, at first or any hand."""
    seen, work = set(), [file.path]
    while work:
        for _, path, _ in by_path[work.pop()].includes():
            if path in by_path and path not in seen:
                seen.add(path)
                work.append(path)
    return seen


def check_uses(files):
    by_path = {file.path: file for file in files if file.is_cpp()}
    home = {}
    for file in files:
        if file.is_header() and file.top() != "tests":
            for _, name in types(file):
                home.setdefault(name, set()).add(file.path)
    homes = {name: paths for name, paths in home.items() if len(paths) == 1}
    for file in files:
        if not file.is_cpp() or file.top() in ("", "tests") or file.path.endswith("-inl.h"):
            continue
        ours = reached(file, by_path)
        included = {path for one in (file.path, *ours) for _, path, _ in by_path[one].includes()}
        text = "\n".join(file.bare)
        for pattern, headers in SYMBOLS:
            match = pattern.search(text)
            if match and not included & set(headers) and file.path not in headers:
                line = text.count("\n", 0, match.start()) + 1
                yield file.path, line, "use", f"{match.group().strip()} needs <{headers[0]}>"
        named = set(NAME.findall(text)) & set(homes)
        for name in sorted(named):
            path = next(iter(homes[name]))
            if path == file.path or path in ours:
                continue
            # Declared ahead, or somebody else's: a member, a nested type, a parameter's.
            own = re.compile(rf"\b(?:class|struct|enum|using|typename)\s+(?:class\s+)?{name}\b"
                             rf"|(?:::|\.|->){name}\b|\b{name}\s*[=(]")
            if any(own.search("\n".join(by_path[one].bare)) for one in (file.path, *ours)):
                continue
            line = next(n for n, one in enumerate(file.bare, 1) if re.search(rf"\b{name}\b", one))
            yield file.path, line, "use", f"{name} needs {path}"


ALL = [check_circles, check_classes, check_functions, check_types, check_uses]
