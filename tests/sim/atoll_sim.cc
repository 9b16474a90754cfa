// atoll-sim: runs the simulation of whole clusters, by seeds.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "compression/base/process_limits.h"
#include "daemon/config/store_config.h"
#include "tests/sim/planted_bugs.h"
#include "tests/sim/seed_runner.h"
#include "tests/sim/swarm_plan.h"

namespace atolld {
namespace {

constexpr char kHelp[] =
    R"(atoll-sim: simulates whole clusters under faults, one a seed, and checks every invariant

  --seed=N          the first seed (default 1); "fresh": others every day, or those that the
                    environment's ATOLL_SIM_BASE names
  --seeds=COUNT     how many, from there on (default 1)
  --jobs=J          processes at once (default: the cores of this machine)
  --twice=K         the first K seeds are run twice and must give the same history
  --regressions=F   before them, the seeds of this file: one a line, then why
  --calm            without the faults that a seed draws; who lies still does
  --mode=KIND       all runs in this mode: sync, streaming, eager, delayed or async (default: one
                    that the seed draws)
  --store=etcd      each run has two or three coordinators that share an etcd (default: one, with a
                    store of its own)
  --experts         only seeds whose runs have owners of experts: the first COUNT from there on
  --verbose         tells the story of each seed: time, who, what; *** marks what was done to it
  --json            the summary as JSON
  --bug=NAME        with a deliberate mistake, in builds that have them; "list" names all

Exit code 0: every invariant held; 1: a seed violated one (the line that repeats it is printed);
2: the call is wrong.

Example:  atoll-sim --seed=1 --seeds=1000
          atoll-sim --seed=1 --seeds=1000 --mode=eager
          atoll-sim --seed=1 --seeds=2000 --store=etcd
          atoll-sim --seed=417 --verbose
)";

// Each day has seeds of its own, which can be run again later.
constexpr uint64_t kSeedsADay = 1'000'000;

bool FirstSeed(absl::string_view text, uint64_t* first) {
  if (text != "fresh") return absl::SimpleAtoi(text, first);
  const char* base = std::getenv("ATOLL_SIM_BASE");
  if (base != nullptr) return absl::SimpleAtoi(base, first);
  const auto days = std::chrono::duration_cast<std::chrono::hours>(
                        std::chrono::system_clock::now().time_since_epoch())
                        .count() /
                    24;
  *first = static_cast<uint64_t>(days) * kSeedsADay;
  return true;
}

int Misuse(const std::string& what) {
  std::cerr << "atoll-sim: " << what << "; see atoll-sim --help\n";
  return 2;
}

bool ReadRegressions(const std::string& path, std::vector<uint64_t>* seeds) {
  std::ifstream file(path);
  if (!file) return false;
  for (std::string line; std::getline(file, line);) {
    const std::string word = line.substr(0, line.find(' '));
    if (word.empty() || word[0] == '#') continue;
    uint64_t seed = 0;
    if (!absl::SimpleAtoi(word, &seed)) return false;
    seeds->push_back(seed);
  }
  return true;
}

// Adds `count` seeds, beginning with `first`. With `experts`, seeds without experts are left out.
void AddSeeds(uint64_t first, uint64_t count, bool experts, SeedOptions* options) {
  for (uint64_t seed = first; count > 0; ++seed) {
    if (experts && DrawPlan(seed, options->mode, options->store).experts == 0) continue;
    options->seeds.push_back(seed);
    --count;
  }
}

int Main(const std::vector<std::string>& arguments) {
  SeedOptions options;
  options.jobs = static_cast<int>(ReadProcessLimits().cores.threads());
  uint64_t first = 1;
  uint64_t count = 1;
  uint64_t twice = 0;
  bool experts = false;
  std::string regressions;
  for (absl::string_view argument : arguments) {
    bool fine = true;
    if (argument == "--help" || argument == "-h") {
      std::cout << kHelp;
      return 0;
    }
    if (argument == "--verbose") {
      options.verbose = true;
    } else if (argument == "--calm") {
      options.calm = true;
    } else if (argument == "--json") {
      options.json = true;
    } else if (argument == "--experts") {
      experts = true;
    } else if (absl::ConsumePrefix(&argument, "--seed=")) {
      fine = FirstSeed(argument, &first);
    } else if (absl::ConsumePrefix(&argument, "--seeds=")) {
      fine = absl::SimpleAtoi(argument, &count);
    } else if (absl::ConsumePrefix(&argument, "--jobs=")) {
      fine = absl::SimpleAtoi(argument, &options.jobs) && options.jobs >= 1;
    } else if (absl::ConsumePrefix(&argument, "--twice=")) {
      fine = absl::SimpleAtoi(argument, &twice);
    } else if (absl::ConsumePrefix(&argument, "--mode=")) {
      const std::vector<std::string>& modes = SwarmModes();
      if (std::find(modes.begin(), modes.end(), argument) == modes.end()) {
        return Misuse(absl::StrCat("'", argument, "' is no mode"));
      }
      options.mode = std::string(argument);
    } else if (absl::ConsumePrefix(&argument, "--store=")) {
      if (argument != kEtcdStoreName) {
        return Misuse(absl::StrCat("'", argument, "' is no store that several can share"));
      }
      options.store = std::string(argument);
    } else if (absl::ConsumePrefix(&argument, "--regressions=")) {
      regressions = std::string(argument);
    } else if (absl::ConsumePrefix(&argument, "--bug=")) {
      if (argument == "list") {
        std::cout << PlantedBugNames();
        return 0;
      }
      const absl::Status planted = PlantBug(argument);
      if (!planted.ok()) return Misuse(std::string(planted.message()));
    } else {
      return Misuse(absl::StrCat("'", argument, "' is no option"));
    }
    if (!fine) return Misuse(absl::StrCat("'", argument, "' is no number that fits"));
  }
  if (!regressions.empty() && !ReadRegressions(regressions, &options.seeds)) {
    return Misuse(absl::StrCat("'", regressions,
                               "' cannot be read, or a line of it begins with no "
                               "seed"));
  }
  if (experts && !options.mode.empty() && options.mode != "sync") {
    return Misuse(absl::StrCat("no run in mode '", options.mode, "' has experts"));
  }
  options.twice = static_cast<size_t>(twice);
  AddSeeds(first, count, experts, &options);
  if (count > 0) std::cerr << "seeds " << first << " to " << options.seeds.back() << "\n";
  return RunSeeds(options);
}

}  // namespace
}  // namespace atolld

int main(int argc, char** argv) {
  return atolld::Main(std::vector<std::string>(argv + 1, argv + argc));
}
