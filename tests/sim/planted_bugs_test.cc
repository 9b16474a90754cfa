// Deliberate mistakes, each of which some seed of the swarm must find. A mistake that no seed finds
// is a hole in the simulation.
#include "tests/sim/planted_bugs.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "tests/sim/swarm.h"

namespace atolld {
namespace {

constexpr uint64_t kSeeds = 48;  // without a bug; thousands more are another test
// A seed has one of five modes, and some bugs show in only one of them.
constexpr uint64_t kSeedsWithABug = 400;

// Simultaneous processes: as many as the smallest machine that runs these tests has cores.
constexpr size_t kProcesses = 2;

// The seeds without a bug are divided, so that no core waits for the other at the end.
constexpr uint64_t kShares = 8;

// One process: seeds with one bug, until an invariant is violated.
struct Hunt {
  std::string bug;  // empty: none
  uint64_t first = 1;
  uint64_t step = 1;

  // What came of it.
  pid_t pid = -1;
  int pipe = -1;
  std::string said;
  uint64_t seed = 0;  // the last that was begun
  std::string found;  // empty: nothing
};

void Say(int out, const std::string& line) {
  if (write(out, line.data(), line.size()) != static_cast<ssize_t>(line.size())) _exit(1);
}

// Runs in the child process.
void Search(const Hunt& hunt, int out) {
  if (!hunt.bug.empty() && !PlantBug(hunt.bug).ok()) _exit(1);
  const RunsOfBug runs = FindRunsOfBug(hunt.bug);
  std::vector<uint64_t> seeds;
  if (!hunt.bug.empty()) seeds.push_back(runs.seed);
  const uint64_t last = hunt.bug.empty() ? kSeeds : kSeedsWithABug;
  for (uint64_t seed = hunt.first; seed <= last; seed += hunt.step) seeds.push_back(seed);
  for (const uint64_t seed : seeds) {
    Say(out, absl::StrCat("seed ", seed, "\n"));
    const SwarmResult result = Swarm(DrawPlan(seed, "", runs.store), nullptr).Run();
    if (!result.violation) continue;
    std::string what =
        absl::StrCat("invariant ", result.violation->invariant, ": ", result.violation->what);
    Say(out, absl::StrCat(what.substr(0, 1000), "\n"));
    return;
  }
}

bool Begin(Hunt* hunt) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  std::cout.flush();
  hunt->pid = fork();
  if (hunt->pid < 0) return false;
  if (hunt->pid == 0) {
    close(ends[0]);
    Search(*hunt, ends[1]);
    _exit(0);
  }
  close(ends[1]);
  hunt->pipe = ends[0];
  return true;
}

void End(Hunt* hunt) {
  close(hunt->pipe);
  hunt->pipe = -1;
  int status = 0;
  waitpid(hunt->pid, &status, 0);
  for (const absl::string_view line : absl::StrSplit(hunt->said, '\n', absl::SkipEmpty())) {
    if (absl::StartsWith(line, "seed ")) {
      hunt->seed = std::strtoull(line.data() + 5, nullptr, 10);
    } else {
      hunt->found = std::string(line);
    }
  }
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) {
    hunt->found = "a check of the program itself failed";
  } else if (WIFSIGNALED(status) || WEXITSTATUS(status) != 0) {
    ADD_FAILURE() << hunt->bug << ": seed " << hunt->seed << ": the process ended with status "
                  << status;
  }
}

void Tell(const Hunt& hunt) {
  const bool caught = !hunt.found.empty();
  if (hunt.bug.empty() && !caught) return;
  std::cout << absl::StrFormat("%-26s %4s  %s\n", hunt.bug.empty() ? "none" : hunt.bug,
                               caught ? absl::StrCat(hunt.seed) : "-",
                               caught ? hunt.found : "NOTHING FOUND IT")
            << std::flush;
}

// Reads what has arrived; returns false at the end.
bool Take(Hunt* hunt) {
  char bytes[4096];
  const ssize_t got = read(hunt->pipe, bytes, sizeof(bytes));
  if (got > 0) hunt->said.append(bytes, static_cast<size_t>(got));
  return got > 0;
}

void RunAll(std::vector<Hunt>* hunts) {
  size_t next = 0;
  std::vector<Hunt*> running;
  while (next < hunts->size() || !running.empty()) {
    while (running.size() < kProcesses && next < hunts->size()) {
      Hunt* const hunt = &(*hunts)[next++];
      ASSERT_TRUE(Begin(hunt));
      running.push_back(hunt);
    }
    std::vector<pollfd> waiting;
    for (const Hunt* hunt : running) waiting.push_back({hunt->pipe, POLLIN, 0});
    poll(waiting.data(), waiting.size(), -1);
    std::vector<Hunt*> left;
    for (size_t i = 0; i < running.size(); ++i) {
      if (waiting[i].revents == 0 || Take(running[i])) {
        left.push_back(running[i]);
      } else {
        End(running[i]);
        Tell(*running[i]);
      }
    }
    running = left;
  }
}

// Would break: the simulation misses a class of mistakes, so that passing seeds prove less than
// they seem to; or an invariant reports a false violation.
TEST(PlantedBugs, EachIsFoundAndNothingElse) {
  std::vector<Hunt> hunts;
  const std::string names = PlantedBugNames();
  for (const absl::string_view name : absl::StrSplit(names, '\n', absl::SkipEmpty())) {
    Hunt hunt;
    hunt.bug = std::string(name);
    hunts.push_back(hunt);
  }
  ASSERT_FALSE(hunts.empty());
  for (uint64_t share = 1; share <= kShares; ++share) {
    Hunt hunt;
    hunt.first = share;
    hunt.step = kShares;
    hunts.push_back(hunt);
  }
  std::cout << absl::StrFormat("%-26s %4s  %s\n", "bug", "seed", "what found it") << std::flush;
  RunAll(&hunts);
  bool clean = true;
  for (const Hunt& hunt : hunts) {
    const bool caught = !hunt.found.empty();
    if (hunt.bug.empty()) {
      clean &= !caught;
      EXPECT_FALSE(caught) << "seed " << hunt.seed << " without a bug: " << hunt.found;
      continue;
    }
    EXPECT_TRUE(caught) << hunt.bug << " was not found by " << kSeedsWithABug << " seeds";
  }
  if (clean) std::cout << absl::StrFormat("%-26s %4d  seeds, all clean\n", "none", kSeeds);
}

}  // namespace
}  // namespace atolld
