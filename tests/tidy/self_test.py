"""Plants each fault that the rules forbid in a tree of its own, and asks that exactly the planted
lines are found; beside each stands what looks like the fault and is none."""

import os
import shutil
import tempfile

import includes
import rules
import source

ONCE = "#pragma once\n"
MARK = "@@"  # ends every line in which a finding is expected

# Words that must not stand in this file as they are.
WORK = "/wor" + "k/main"
TREE = "/tmp/" + "wt/x"
ISSUE = "issue " + "#12"
LATER = "TO" + "DO"


def ints(count):
    """As many data members, three on a line."""
    lines = [f"  int m{n}, n{n} = {{{n}}}, *p{n} = nullptr;\n" for n in range(count // 3)]
    return "".join(lines) + "  int one;\n" * (count % 3)


def calls(count):
    """As many methods."""
    return "".join(f"  int F{n}(int a, int b = 0) const {{ return a < b ? {n} : b; }}\n"
                   for n in range(count))


# (rule, path, text): lines that end in MARK must be found by that rule, all others by none.
PLANTED = [
    # Who includes whom.
    ("include", "compression/a.cc", '#include "compression/known.h"\n#include <zstd.h>\n'
     '#include "hwy/highway.h"\n#include "absl/types/span.h"\n#include <cstdint>\n'
     '#include "compression/base/known.h"\n'
     '// #include "daemon/env/known.h"\n/*\n#include <grpcpp/grpcpp.h>\n*/\n'
     'const char* kText = R"(\n";#include <poll.h>)";\n'
     f'#include "daemon/env/known.h"{MARK}\n#include "atoll/v1/run.pb.h"{MARK}\n'
     f'#include <unistd.h>{MARK}\n'
     f'#include <immintrin.h>{MARK}\n#include <openssl/sha.h>{MARK}\n#include "a.h"{MARK}\n'
     f'#include "compression/absent.h"{MARK}\n#include <boost/asio.hpp>{MARK}\n'),
    ("include", "compression/base/a.cc", f'#include "compression/known.h"{MARK}\n'),
    ("include", "optimizer/a.cc", '#include "hwy/highway.h"\n#include "optimizer/known.h"\n'
     '#include "compression/base/known.h"\n'
     f'#include <zstd.h>{MARK}\n#include "compression/known.h"{MARK}\n'),
    ("include", "membership/trust/a.cc", '#include "atoll/v1/run.pb.h"\n#include <openssl/sha.h>\n'
     '#include "google/protobuf/message_lite.h"\n#include "absl/time/time.h"\n'
     '#include "membership/history/known.h"\n#include "membership/planning/known.h"\n'
     f'#include "atoll/v1/membership.grpc.pb.h"{MARK}\n#include <sys/socket.h>{MARK}\n'
     f'#include "membership/run/known.h"{MARK}\n#include <sqlite3.h>{MARK}\n'),
    ("include", "membership/a.cc", f"#include <string>{MARK}\n"),
    ("include", "worker/program/a.cc", '#include <torch/torch.h>\n#include <grpcpp/grpcpp.h>\n'
     '#include "worker/base/known.h"\n#include <sys/mman.h>\n#include <fcntl.h>\n'
     '#include "compression/base/known.h"\n#include "worker/training/known.h"\n'
     f'#include "daemon/env/known.h"{MARK}\n#include "compression/known.h"{MARK}\n'
     f'#include "worker/stub/known.h"{MARK}\n#include "CLI/CLI.hpp"{MARK}\n'),
    ("include", "worker/base/a.cc", f'#include <torch/torch.h>{MARK}\n#include <openssl/sha.h>'
     f'{MARK}\n#include "worker/model/known.h"{MARK}\n'),
    ("include", "daemon/replica/state/a.cc", '#include "compression/known.h"\n'
     '#include "daemon/env/known.h"\n#include <sys/mman.h>\n'
     f'#include <grpcpp/grpcpp.h>{MARK}\n#include "atoll/v1/exchange.grpc.pb.h"{MARK}\n'
     f'#include "daemon/transport/known.h"{MARK}\n#include "worker/base/known.h"{MARK}\n'
     f'#include "daemon/peer/known.h"{MARK}\n#include <spdlog/spdlog.h>{MARK}\n'
     f'#include <torch/torch.h>{MARK}\n#include "tests/known.h"{MARK}\n'),
    ("include", "daemon/coordinator/a.cc", f'#include "daemon/peer/known.h"{MARK}\n'),
    ("include", "daemon/transport/a.cc", '#include <grpcpp/grpcpp.h>\n#include <openssl/ssl.h>\n'
     f'#include "daemon/transport/known.h"\n#include <c10/core/Device.h>{MARK}\n'
     f'#include <CLI/CLI.hpp>{MARK}\n'),
    ("include", "daemon/env/float_mode.cc", "#include <xmmintrin.h>\n"),
    ("include", "tests/unit/daemon/a.cc",
     '#include "daemon/env/known.h"\n#include <gtest/gtest.h>\n'
     f'#include <grpcpp/grpcpp.h>{MARK}\n#include <torch/torch.h>{MARK}\n'),
    ("include", "proto/atoll/v1/a.proto", 'import "atoll/v1/run.proto";\n'
     f'import "other/x.proto";{MARK}\n// import "other/y.proto";\n'),
    # Numerics.
    ("numerics", "compression/b.cc", "x = hn::Mul(a, b);  // not MulAdd(a, b, c)\n"
     'Say("MulAdd");\n'
     f"x = hn::MulAdd(a, b, c);{MARK}\nx = hn::NegMulSub(a, b, c);{MARK}\n"
     f"x = MaskedMulAddOr(n, m, a);{MARK}\n"
     f"x = hn::ApproximateReciprocal(a);{MARK}\nx = hn::SumOfLanes(d, a);{MARK}\n"
     f"x = ReduceSum(d, a);{MARK}\n"
     "x = hn::SumOfLanes(di32, a);  // tidy: integer lanes\n"
     "x = hn::DemoteTo(di8, a);\nx = hn::PromoteTo(df32, a);\n"
     f"hn::Rebind<hwy::float16_t, D> d16;{MARK}\nx = DemoteTo(Rebind<bfloat16_t, D>(), a);{MARK}\n"
     f"x = std::fma(a, b, c);{MARK}\nx = fmaf(a, b, c);{MARK}\n#pragma STDC FP_CONTRACT ON{MARK}\n"
     "x = ReorderWidenMulAccumulate(d, a, b, c, e);" + MARK + "\n"
     "x = ReorderWidenMulAccumulate(d32, a, b, c, e);  // tidy: integer lanes\n"),
    ("numerics", "optimizer/CMakeLists.txt",
     "add_compile_options(-ffp-contract=off)  # no -ffast-math\n"
     f"add_compile_options(-ffast-math){MARK}\nadd_compile_options(-O2 -march=native){MARK}\n"),
    ("numerics", "CMakePresets.json", f'{{"CMAKE_CXX_FLAGS": "-Ofast"}}{MARK}\n'),
    # The Env seam.
    ("env", "daemon/coordinator/c.cc", "executor.Now();\nenv.time(0);\nx.clock();\n"
     "auto now = absl::FromUnixSeconds(0);  // absl::Now()\nstd::chrono::seconds(1);\n"
     f"std::chrono::steady_clock::now();{MARK}\nClock::now ();{MARK}\nabsl::Now();{MARK}\n"
     f"time(nullptr);{MARK}\n"
     f"std::time(NULL);{MARK}\nclock_gettime(CLOCK_REALTIME, &t);{MARK}\n"
     f"std::this_thread::sleep_for(d);{MARK}\n"
     f"absl::SleepFor(d);{MARK}\nusleep(10);{MARK}\n::sleep(1);{MARK}\n"
     f"std::random_device device;{MARK}\n"
     f"int x = rand();{MARK}\nint y = std::rand();{MARK}\nx = ::random();{MARK}\n"
     f"absl::BitGen generator;{MARK}\n"
     f"RAND_bytes(p, 8);{MARK}\n"
     "std::mt19937_64 random(seed);\nx = random();\n"
     "SimulatedClock clock(seed);\nx.sleep(1);\noperand();\n"),
    ("env", "membership/c.cc",
     f"absl::Time t = absl::Now();{MARK}\nstd::ofstream out(path);{MARK}\n"
     f"#include <fstream>{MARK}\n"),
    ("env", "daemon/replica/c.cc", "files.OpenToRead(path);\nfiles.open(path);\nlog->open(path);\n"
     "bool open() const { return open_; }\n"
     "values.erase(std::remove(a, b, 0), b);\nstd::bind(f);\nreopen(path);\nTable::open(path);\n"
     f"FILE* f = fopen(path, mode);{MARK}\nint d = open(path, O_RDONLY);{MARK}\n"
     f"int e = ::open(path, 0);{MARK}\n"
     f"std::ifstream in(path);{MARK}\nstd::filesystem::exists(path);{MARK}\n"
     f"void* m = mmap(0, 1, 2);{MARK}\n"
     f"::rename(a, b);{MARK}\nint s = socket(AF_INET, 0, 0);{MARK}\n"),
    ("env", "daemon/env/posix_files.cc", "int d = ::open(path, O_RDONLY);\nabsl::Now();\n"),
    ("env", "daemon/transport/c.cc", "absl::Now();\n"),
    ("env", "daemon/cli/c.cc", f"absl::SleepFor(d);{MARK}\nint d = ::open(path, 0);\n"),
    ("env", "daemon/peer/parameter_memory.cc", f"void* m = mmap(0, 1);\nabsl::Now();{MARK}\n"),
    ("env", "worker/training/math_library.cc", "auto t = std::chrono::steady_clock::now();\n"),
    ("env", "worker/c.cc",
     f"auto t = std::chrono::steady_clock::now();{MARK}\nint d = open(path, 0);\n"),
    ("env", "tests/unit/c_test.cc", "auto t = absl::Now();\n"),
    # Sizes and shape.
    ("size", "daemon/d.h", ONCE + "//\n" * 249 + f"//{MARK}\n"),
    ("size", "daemon/e.h", ONCE + "//\n" * 249),
    ("size", "daemon/d.cc", "//\n" * 800 + f"//{MARK}\n"),
    ("size", "daemon/e.cc", "//\n" * 800),
    ("size", "daemon/f.cc", "//" + "x" * 98 + "\n//" + "x" * 97 + f"{MARK}\n"
     + '#include "daemon/' + "x" * 97 + '"\n// https://' + "x" * 97 + "\n"),
    ("size", "daemon/g.cc", "// " + "ü" * 97 + "\n"),
    ("size", "scripts/d", "# " + "x" * 97 + f"{MARK}\n"),
    ("size", "docs/large.md", f"{MARK}\n" + "words and words\n" * 6300),
    ("header", "daemon/h.h", f"// #pragma once{MARK}\n"),
    ("header", "daemon/i.h", "// What it is.\n" + ONCE),
    ("header", "compression/kernels-inl.h", "// Once a target.\n"),
    # Circles: by headers, and by a source and another's header.
    ("circle", "daemon/peer/c1.cc", f'#include "daemon/peer/c2.h"{MARK}\n'),
    ("circle", "daemon/peer/c1.h", ONCE),
    ("circle", "daemon/peer/c2.h", ONCE),
    ("circle", "daemon/peer/c2.cc", '#include "daemon/peer/c1.h"\n#include "daemon/peer/c3.h"\n'),
    ("circle", "daemon/peer/c3.h", ONCE),
    # A class in two sources, and a function of the same name.
    ("class", "daemon/peer/k1.cc", "void Boat::Row(int x) {}\nBoat::Boat() {}\n"
     "int Boats() { return Boat::Row(1); }\n"),
    ("class", "daemon/peer/k2.cc", f"absl::Status Boat::Sink() {{}}{MARK}\n"
     "void Sail(const Boat::Mast& m) {}\n"),
    # Functions.
    ("function", "daemon/peer/f1.cc", "namespace atolld {\n\n"
     f"void Long(int a,{MARK}\n          int b) {{\n" + "  x();\n" * 68 + "}\n\n"
     "void Short() {\n" + "  x();\n" * 68 + "}\n\nconst int kTable[] = {\n" + "    1,\n" * 90
     + "};\n\nclass C {\n public:\n" + "  int x;\n" * 90
     + f"  void InClass() {{{MARK}\n" + "    x();\n" * 70 + "  }\n};\n\n}  // namespace atolld\n"),
    # A type's name twice in one binary; in two binaries, and nested, it may be.
    ("type", "membership/run/t1.h", ONCE + f"namespace atolld {{\nclass Oar {{{MARK}\n"
     "};\nclass Sea;\n"
     "struct Out {\n  struct Oar {};\n};\n}  // namespace atolld\n"),
    ("type", "daemon/peer/t2.cc", "namespace atolld {\nnamespace {\nstruct Oar {};\n"
     "}  // namespace\nstruct Oar {\n};\nclass Sea {\n};\n}  // namespace atolld\n"),
    ("type", "worker/base/t3.h", ONCE + "struct Oar {\n};\n"),
    # The size of classes: 21 members in all their forms, then 20 and what is not a member.
    ("class-size", "daemon/peer/s1.h", ONCE + f"namespace atolld {{\nclass Fleet {{{MARK}\n"
     " public:\n  Fleet();\n private:\n  bool a = false, b = false;\n"
     "  std::function<void(int, int)> on_;\n  void (*hook_)(int, int) = nullptr;\n"
     "  std::map<int, std::pair<int, int>> m_{{1, {2, 3}}};\n"
     "  const std::shared_ptr<Mast>\n      mast_ =\n          std::make_shared<Mast>(1, 2);\n"
     "  int depth_ ABSL_GUARDED_BY(mutex_) = 1 << 3;\n  struct stat info_;\n  char c_ = '{';\n"
     '  std::string raw_ = R"(; int x; })";\n  enum class Wind { kNorth, kSouth } wind_;\n'
     "  alignas(64) std::atomic<int> d_{1'000};\n" + ints(9) + "};\n"
     "class Fleets {\n  Fleets();\n" + ints(20) + "  // int c;\n  using Mast = int;\n"
     "  friend class Fleet;\n  friend bool operator==(int a, int b) { return a < b; }\n"
     "  class Sail;\n  enum { kA, kB = 1 << 2 };\n  static constexpr int kC = 3, kD = 4;\n"
     '  static_assert(sizeof(int) == 4, "; int e; }");\n};\n}  // namespace atolld\n'),
    # 41 methods, then 40.
    ("class-size", "membership/run/s2.h", ONCE + "template <typename T, int n = (3 > 2)>\n"
     f"class Crew final : public Base<T>, private Other {{{MARK}\n"
     "  Crew(int x) : a_{x}, b_(x) {}\n  ~Crew() override;\n  bool operator()(int x) const;\n"
     "  Crew& operator=(const Crew&);\n  virtual absl::StatusOr<std::map<int, int>>\n"
     "  Make(std::function<void(int)> f = nullptr) = 0;\n  struct stat Stat() const;\n"
     + calls(35) + "  int a_, b_;\n};\nclass Crews {\n" + calls(40) + "  int (*f_)(int);\n};\n"),
    # A nested class counts for itself.
    ("class-size", "optimizer/s3.h", ONCE + "class Dock {\n  class Gate {\n    void Open();\n"
     + ints(15) + "  };\n  union {\n    int x;\n  };\n" + ints(19) + calls(30)
     + f"  struct Crane {{{MARK}\n" + ints(21) + calls(20) + "  };\n};\n"),
    # Reasons, above the class and in the header's first comment.
    ("class-size", "compression/base/s4.h", "// Cargo.\n" + ONCE + "\n// It has MORE  than\n"
     "// twenty members because it is large.\n//\n// One thread.\ntemplate <typename T>\n"
     "class Cargo {\n" + ints(21) + calls(1) + "};\n"
     "// It has more than 20 members and more than 40 methods because it is large.\n"
     "struct Cargos {\n" + ints(21) + calls(41) + "};\n// It has more than 40 methods.\n"
     f"class Crate {{{MARK}\n" + ints(21) + calls(41) + "};\n// It has more than 20 members.\n\n"
     f"class Barrel {{{MARK}\n" + ints(21) + calls(1) + "};\n"),
    ("class-size", "worker/base/s5.h", "// Each has more than forty methods because it is long.\n"
     + ONCE + "class Rope {\n" + calls(41) + f"}};\nclass Knot {{{MARK}\n" + ints(21) + calls(1)
     + "};\n"),
    # Plain data may have any number, and so may classes outside our headers.
    ("class-size", "daemon/config/s6.h", ONCE + "struct Chart {\n" + ints(30) + "  struct Edge {\n"
     "    int Length() const;\n  };\n  Edge edge;\n};\n"
     f"struct Charts {{{MARK}\n" + ints(30) + "  int Length() const;\n};\n"),
    ("class-size", "daemon/peer/s7.cc", "class Wave {\n" + ints(30) + calls(50) + "};\n"),
    ("class-size", "tests/sim/s7.h", ONCE + "class Waves {\n" + ints(30) + calls(50) + "};\n"),
    # What is named is included.
    ("use", "daemon/peer/u0.h",
     ONCE + "#include <map>\nstruct Reef {\n  std::map<int, int> m;\n};\n"),
    ("use", "daemon/peer/u1.cc", '#include "daemon/peer/u0.h"\nReef reef;\nstd::map<int, int> m;\n'
     f"// std::deque<int>\nstd::deque<int> d;{MARK}\nx = absl::StrCat(1);{MARK}\n"),
    ("use", "daemon/peer/u2.cc", f"void F(Reef* reef);{MARK}\n"),
    ("use", "daemon/peer/u3.cc", "class Reef;\nvoid F(Reef* reef);\nx.Reef(1);\n"),
    # Pages name what is there.
    ("paths", "docs/p.md", "`daemon/env/known.h`, tests, [a](../daemon/env/known.h), daemon/env\n"
     f"`daemon/env/gone.h`{MARK}\n[a](../daemon/gone/b.h) {MARK}\nbuild/daemon/x, daemon/*.cc\n"),
    ("paths", "daemon/peer/p.cc", "// as daemon/env/known.h says, in daemon/env, or run/vote\n"
     f"// as daemon/env/gone.h says{MARK}\n"),
    # Clipped comments in headers. What is found may cross lines; it is told where it begins.
    ("language", "daemon/peer/l1.h", "// The newest round. Offers stay; who votes is known.\n"
     f"// Of the newest round.{MARK}\n//\n// Who votes.{MARK}\n\n// The clip. Whose it{MARK}\n"
     f"// is, is known.\nint a;  // Whom it asks.{MARK}\n// - Since when it is held.{MARK}\n"
     f"/* The owner (kept). Of it{MARK}\n   all is known. */\n"
     'const char* kText = "// Of it. False: none is none.";  // "whose" is a word\n'
     f"int Of(int whoever);\nint b;  // Its parts. (Of both.){MARK}\n"),
    ("language", "membership/run/l2.h", "// True if it holds; an empty text: none. Null if not.\n"
     f"// False: it does not.{MARK}\n// It is held. True: it{MARK}\n"
     f"// is. null: not any more.{MARK}\n// The end. nullopt:{MARK}\n// no end.\n"
     f"int a;  // nullptr: no worker.{MARK}\nint b;  // Empty: unknown.{MARK}\n"
     f"int c;  // empty: unknown{MARK}\n// InfiniteFuture: never.{MARK}\n"
     f"// Endless: never.{MARK}\n"),
    ("language", "optimizer/l3.h", "// INVALID_ARGUMENT: a tensor has another shape.\n"
     "// Fails with NOT_FOUND: no file. It says INTERNAL: no.\n\n"
     f"// INVALID_ARGUMENT: the text is empty.{MARK}\n// Reads. NOT_FOUND or DATA_LOSS:{MARK}\n"
     f"// no such file. UNAVAILABLE:{MARK}\n"),
    ("language", "compression/base/l4.h", "// If there is none, and if there\n// are none.\n"
     f"// A list that is none.{MARK}\n// The parts are{MARK}\n// none. The sum comes to 1.{MARK}\n"
     f"// It asks in vain.{MARK}\n// Whoever asks is told, and whoever{MARK}\n// is not waits.\n"
     "// It comes too late, in vanity.\nint whoever = 1;\n"),
    ("language", "worker/base/l5.h", f"// As whoever says.{MARK}\n"),
    ("language", "worker/base/l5.cc", "// Whoever says so.\n"),
    ("language", "tests/sim/l5.h", "// Whoever says so.\n"),
    # Links of pages: files, headings by GitHub's rule, definitions.
    ("links", "docs/links.md", "# A page: `atoll`, and *more*\n\n## Twice\n\n## Twice\n\nUnder\n"
     "-----\n\n[a](target.md), [b](./target.md#the-one), ![c](../daemon/env/known.h)\n"
     "[d](../docs) [e](#a-page-atoll-and-more) [f](#twice) [g](#twice-1) [h](#under)\n"
     "[i](https://example.org/x#y) `[j](gone.md)` [k\nl](target.md) [m][here] [here][] [known.h]\n"
     "```\n[n](gone.md)\n```\n\n    [o](gone.md)\n\n- p\n    - [q](gone.md) " + MARK + "\n"
     f"[r](gone.md) {MARK}\n[s](#gone) {MARK}\n[t](target.md#gone) {MARK}\n"
     f"[u](#twice-2) {MARK}\n[v](/docs/target.md) {MARK}\n[w](../../x.md) {MARK}\n"
     f"[x][gone] {MARK}\n[gone.h], [run] {MARK}\n\n"
     "[here]: target.md\n[known.h]: ../daemon/env/known.h\n"
     f"[unused]: target.md {MARK}\n`y.h`: ../daemon/env/known.h{MARK}\n"),
    ("links", "docs/target.md", "# The one\n"),
    # Words.
    ("words", "docs/a.md",
     f"a frame/work/day, see ../work/x\nlies in {WORK} {MARK}\nbuilt in {TREE} {MARK}\n"
     f"see {ISSUE} {MARK}\nthe issue is fixed\n{LATER}: finish {MARK}\n"),
]
KNOWN = [f"{folder}/known.h" for folder in
         {name for name, _ in includes.ROOMS + includes.WORKER_ROOMS} | {"tests"}]


def plant(root, path, text):
    os.makedirs(os.path.dirname(os.path.join(root, path)) or root, exist_ok=True)
    with open(os.path.join(root, path), "w", encoding="utf-8") as handle:
        handle.write(text)


def expected_of(path, rule, text):
    lines = enumerate(text.split("\n"), 1)
    return {(path, number, rule) for number, line in lines if line.endswith(MARK)}


def without_marks(rule, text):
    # A line of 101 columns must stay one: there the mark is part of the line.
    return text if rule == "size" else text.replace(MARK, "")


def run(check_format, clang_format):
    root = tempfile.mkdtemp(prefix="atoll-tidy-")
    try:
        return run_in(root, check_format, clang_format)
    finally:
        shutil.rmtree(root)


def run_in(root, check_format, clang_format):
    for path in KNOWN:
        plant(root, path, ONCE)
    expected = set()
    for rule, path, text in PLANTED:
        plant(root, path, without_marks(rule, text))
        expected |= expected_of(path, rule, text)
    planted_rules = {(path, rule) for rule, path, _ in PLANTED}
    files = source.read_tree(root)
    # Planted lines may break other rules beside their own (a missing include, an odd size).
    found = {(path, line, rule) for path, line, rule, _ in rules.check(files)
             if (path, rule) in planted_rules}

    plant(root, "daemon/formatted.cc", "int main() { return 0; }\n")
    plant(root, "daemon/unformatted.cc", "int main() {return   0;}\n")
    plant(root, ".clang-format", "BasedOnStyle: Google\nColumnLimit: 100\n")
    both = [file for file in source.read_tree(root) if file.path.endswith("formatted.cc")]
    unformatted, note = check_format(root, both, clang_format)
    if note:
        print(note)
    else:
        expected.add(("daemon/unformatted.cc", 1, "format"))
        found |= {finding[:3] for finding in unformatted}

    for path, line, rule in sorted(expected - found):
        print(f"{path}:{line}: [{rule}] was planted and not found")
    for path, line, rule in sorted(found - expected):
        print(f"{path}:{line}: [{rule}] was found and is no fault")
    wrong = len(expected ^ found)
    print(f"tidy self-test: {len(expected)} faults planted, {wrong} wrong")
    return 1 if wrong else 0
