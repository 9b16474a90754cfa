"""Who includes whom: rooms, libraries, circles."""

import re

OURS = ("compression", "optimizer", "membership", "worker", "daemon", "tests")

# The first match says to which library an include belongs; line order matters.
LIBRARIES = [
    ("grpc", r"grpc(pp|\+\+)?/|(atoll/v1|etcd)/\w+\.grpc\.pb\.h"),
    ("proto", r"(atoll/v1|etcd)/\w+\.pb\.h|google/protobuf/"),
    ("absl", r"absl/"),
    ("highway", r"hwy/"),
    ("zstd", r"(zstd|zstd_errors|zdict)\.h"),
    ("zlib", r"zlib\.h"),
    ("openssl", r"openssl/"),
    ("torch", r"(torch|ATen|c10|caffe2)/"),
    ("sqlite", r"sqlite3\.h"),
    ("spdlog", r"(spdlog|fmt)/"),
    ("toml", r"toml\+\+/"),
    ("cli11", r"CLI/"),
    ("json", r"nlohmann/"),
    ("prometheus", r"prometheus/"),
    ("httplib", r"httplib\.h"),
    ("pcre2", r"pcre2\.h"),
    ("icu", r"unicode/\w+\.h"),
    ("sentencepiece", r"sentencepiece_processor\.h"),
    ("gtest", r"(gtest|gmock)/"),
    ("intrinsics", r"(\w*intrin|arm_neon|arm_sve|\w*intrin_\w+)\.h"),
    ("system", r"(sys|linux|net|netinet|arpa|asm|bits|netdb|poll|unistd|fcntl|pthread|sched|signal"
               r"|termios|dirent|dlfcn|spawn|semaphore|syslog|pwd|grp|ifaddrs|time|cpuid|elf)"
               r"(/[\w./]+)?\.h|(sys|linux|netinet|arpa|net)/[\w./]+\.h"),
    ("c", r"(assert|ctype|errno|fenv|float|inttypes|limits|locale|malloc|math|setjmp|stdalign"
          r"|stdarg|stdbool|stddef|stdint|stdio|stdlib|string|wchar)\.h"),
    ("std", r"[a-z_0-9]+"),
]


# The rooms, bottom first: a room includes itself and the rooms above it here, beside the standard
# library and the libraries that it names. docs/architecture.md draws them.
ROOMS = [
    ("compression/base", {"absl"}),
    ("compression", {"absl", "highway", "zstd"}),
    ("optimizer", {"absl", "highway"}),
    ("membership/experts", {"absl", "proto"}),
    ("membership/history", {"absl", "proto", "openssl", "highway", "system", "intrinsics"}),
    ("membership/privacy", {"absl", "proto", "openssl"}),
    ("membership/planning", {"absl", "proto"}),
    ("membership/trust", {"absl", "proto", "openssl"}),
    ("membership/masking", {"absl", "proto", "openssl"}),
    ("membership/run", {"absl", "proto"}),
    ("daemon/env", {"absl", "proto", "system", "spdlog"}),
    ("daemon/config", {"absl", "proto", "system", "openssl", "toml", "json"}),
    ("daemon/machine", {"absl", "proto", "system", "json"}),
    ("daemon/experiment/partition", {"absl", "system", "json", "toml", "pcre2"}),
    ("daemon/identity", {"absl", "openssl", "system"}),
    ("daemon/transport", {"absl", "proto", "grpc", "openssl", "system"}),
    ("daemon/replica/state", {"absl", "proto", "system"}),
    ("daemon/replica/transfer", {"absl", "proto"}),
    ("daemon/publication", {"absl", "proto", "system", "json", "openssl"}),
    ("daemon/exchange", {"absl", "proto"}),
    ("daemon/peer", {"absl", "proto", "system"}),
    ("daemon/coordinator", {"absl", "proto", "sqlite"}),
    ("daemon/etcd", {"absl", "proto", "grpc"}),
    ("daemon/program", {"absl", "system", "cli11"}),
    ("daemon/figures", {"absl", "proto", "json", "prometheus"}),
    ("daemon/fitness", {"absl", "proto", "system", "json"}),
    ("daemon/web", {"absl", "proto", "system", "json", "httplib", "openssl"}),
    ("daemon/cli", {"absl", "proto", "system", "json", "toml"}),
    ("daemon/cli/local", {"absl", "proto", "system", "json", "toml"}),
    ("daemon/bench", {"absl", "proto", "system", "json"}),
    ("daemon/experiment", {"absl", "proto", "system", "json", "toml"}),
    ("daemon/cli/verbs", {"absl", "proto", "system", "json"}),
    ("daemon/atolld", {"absl", "proto", "system"}),
]
WORKER_ROOMS = [
    ("compression/base", {"absl"}),
    ("worker/base", {"absl", "proto", "grpc", "json", "openssl", "system"}),
    ("worker/stub", {"absl", "proto", "grpc", "system"}),
    ("worker/hub", {"absl", "proto", "json", "openssl", "system"}),
    ("worker/data",
     {"absl", "proto", "json", "pcre2", "icu", "sentencepiece", "system", "zlib", "zstd"}),
    ("worker/kernels", {"highway", "torch"}),
    ("worker/model", {"absl", "proto", "torch", "system"}),
    ("worker/training", {"absl", "proto", "torch", "json", "system"}),
    ("worker/torchscript", {"absl", "proto", "torch", "system"}),
    ("worker/program", {"absl", "proto", "grpc", "torch", "json", "system"}),
]
# Above in the list, but of another branch: (room, room that it may not include, why).
APART = [
    ("optimizer", "compression", "an outer rule knows no codec"),
    ("daemon/replica", "daemon/transport", "the network is seen through daemon/env/env.h"),
    ("daemon/exchange", "daemon/transport", "the network is seen through daemon/env/env.h"),
    ("daemon/exchange", "daemon/replica/transfer", "an exchange fetches nothing"),
    ("daemon/exchange", "membership/run", "an exchange carries a plan out, and decides nothing"),
    ("daemon/peer", "daemon/transport", "the network is seen through daemon/env/env.h"),
    ("daemon/coordinator", "daemon/transport", "the network is seen through daemon/env/env.h"),
    ("daemon/coordinator", "daemon/exchange", "the coordinator never holds a parameter"),
    ("daemon/coordinator", "daemon/peer", "they are two processes"),
    ("daemon/program", "daemon/peer", "both programs share it"),
    ("daemon/program", "daemon/coordinator", "both programs share it"),
    ("daemon/figures", "daemon/peer", "it shows what it is given"),
    ("daemon/figures", "daemon/coordinator", "it shows what it is given"),
    ("daemon/figures", "daemon/transport", "it shows what it is given"),
    ("daemon/fitness", "daemon/peer", "it judges a machine before it is a peer"),
    ("daemon/fitness", "daemon/coordinator", "it judges a machine before it is a peer"),
    ("daemon/cli", "daemon/peer", "the command line asks, it is no peer"),
    ("daemon/cli", "daemon/coordinator", "the command line asks, it is no coordinator"),
    ("daemon/experiment", "daemon/peer", "it describes runs, and is no part of one"),
    ("daemon/experiment", "daemon/coordinator", "it describes runs, and is no part of one"),
    ("daemon/web", "daemon/peer", "it shows what it is given"),
    ("daemon/web", "daemon/coordinator", "it shows what it is given"),
    ("daemon/web", "daemon/transport", "it has a port of its own, and no gRPC"),
    ("daemon/atolld", "daemon/bench", "the daemon measures nothing"),
    ("daemon/atolld", "daemon/cli", "what both programs need lies below the command line"),
    ("daemon/atolld", "daemon/experiment", "it describes runs, and the daemon is part of one"),
    ("worker/hub", "worker/stub", "the stub worker is a program of its own"),
    ("worker/data", "worker/stub", "the stub worker is a program of its own"),
    ("worker/kernels", "worker/stub", "the stub worker is a program of its own"),
    ("worker/model", "worker/stub", "the stub worker is a program of its own"),
    ("worker/training", "worker/stub", "the stub worker is a program of its own"),
    ("worker/torchscript", "worker/stub", "the stub worker is a program of its own"),
    ("worker/program", "worker/stub", "the stub worker is a program of its own"),
]
# Tests may include everything, but only these link gRPC and libtorch.
TESTS_WITH = {
    "grpc": ("tests/unit/daemon/transport", "tests/unit/daemon/etcd", "tests/unit/daemon/cli",
             "tests/unit/daemon/bench", "tests/unit/worker", "tests/e2e", "tests/wan", "tests/fuzz",
             "tests/bench"),
    "torch": ("tests/unit/worker", "tests/e2e", "tests/bench"),
}
ONE_FILE = {  # (library, room): the one source that may include it
    ("cli11", "daemon/program"): "daemon/program/command_line.cc",
    ("prometheus", "daemon/figures"): "daemon/figures/exposition.cc",
    ("httplib", "daemon/web"): "daemon/web/http_server.cc",
    ("openssl", "worker/base"): "worker/base/file_io.cc",
    ("sentencepiece", "worker/data"): "worker/data/sentencepiece_module.cc",
    ("pcre2", "worker/data"): "worker/data/token_pattern.cc",
    ("icu", "worker/data"): "worker/data/unicode.cc",
    ("pcre2", "daemon/experiment/partition"): "daemon/experiment/partition/label_pattern.cc",
    ("toml", "daemon/experiment/partition"): "daemon/experiment/partition/partition_settings.cc",
}
INCLUDE_FREE = {  # (path, library): reason
    ("compression/base/bytes.cc", "system"): "large buffers are mapped",
    ("compression/base/last_words.cc", "system"): "last words wait for no pipe",
    ("daemon/env/float_mode.cc", "intrinsics"): "sets the CPU's rounding and denormal modes",
}


def library_of(path):
    if path.split("/")[0] in OURS and "/" in path:
        return path.split("/")[0]
    for name, pattern in LIBRARIES:
        if re.fullmatch(rf"(?:{pattern})(?:(?<=/).*)?", path):
            return name
    return None


def room_of(path, rooms):
    """The index of the room that a path lies in: the longest name that fits; None without one."""
    fitting = [(len(name), index) for index, (name, _) in enumerate(rooms)
               if path.startswith(name + "/")]
    return max(fitting)[1] if fitting else None


def within(path, folder):
    return path.startswith(folder + "/")


def why_apart(path, included):
    for room, other, why in APART:
        if within(path, room) and within(included, other) and \
                not within(included, "compression/base"):
            return why
    return None


def fault_of(file, path, library, known):
    """What is wrong with an include; None if nothing is."""
    if library in OURS and path not in known:
        return "there is no such file"
    if file.top() == "tests":
        allowed = TESTS_WITH.get(library)
        if allowed and not file.under(*allowed):
            return f"only {', '.join(allowed)} link {library}"
        return None
    rooms = WORKER_ROOMS if file.top() == "worker" else ROOMS
    room = room_of(file.path, rooms)
    if room is None:
        return "this file lies in no room that tests/tidy/includes.py knows"
    name, libraries = rooms[room]
    if library in OURS:
        other = room_of(path, rooms)
        if other is None:
            return f"{name}/ may not include {path.split('/')[0]}/"
        if other > room:
            return f"{name}/ lies below {rooms[other][0]}/"
        why = why_apart(file.path, path)
        return f"{name}/ may not include it: {why}" if why else None
    if library in libraries | {"std", "c"}:
        only = ONE_FILE.get((library, name), file.path)
        return None if only == file.path else f"{library} belongs in {only}"
    return f"{name}/ may not include {library}"


def check_includes(files):
    known = {file.path for file in files}
    for file in files:
        if file.path.endswith(".proto"):
            yield from check_imports(file)
        if not file.is_cpp() or file.top() not in OURS:
            continue
        for line, path, quoted in file.includes():
            library = library_of(path)
            if (file.path, library) in INCLUDE_FREE:
                continue
            if library is None and quoted:
                message = f'"{path}": write includes from the root of the repository'
            elif library is None:
                message = f"<{path}>: of no library that tests/tidy/includes.py knows"
            else:
                fault = fault_of(file, path, library, known)
                if fault is None:
                    continue
                message = f"{path}: {fault}"
            yield file.path, line, "include", message


def check_imports(file):
    for number, line in enumerate(file.code, 1):
        match = re.match(r'\s*import\s+(?:public\s+|weak\s+)?"([^"]+)"', line)
        if match and not match.group(1).startswith(("atoll/v1/", "google/protobuf/")):
            message = f"{match.group(1)}: protos import atoll/v1/ and google/protobuf/"
            yield file.path, number, "include", message
