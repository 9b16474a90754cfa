// Crash enumeration: runs a small run once for every write, each time with a process that dies at
// that write.
//
//   const CrashScenario scenario = DrawCrashScenario(0);
//   for (const CrashPoint& point : CrashPoints(scenario)) {
//     EXPECT_THAT(RunWithCrash(scenario, point), IsEmpty()) << point.Text();
//   }
//
// The run covers every kind of write: two founders make version 0, a third peer joins late from a
// snapshot, a founder leaves, and each version is followed by a snapshot, which replaces what came
// before. Peers die at each change of their disks, with unsynced data lost, kept or torn. The
// coordinator dies before and after each transaction of its store. Until its crash a run equals the
// run without a crash, so every point is reached. Deterministic. Used by one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/sim/sim_cluster.h"

namespace atolld {

struct CrashScenario {
  uint64_t seed = 0;
  SimClusterSettings cluster;
  std::string joiner;
  std::string leaver;
  bool coordinator_too = false;  // The coordinator is killed at the instant at which a peer dies.
};

// Scenario 0 is the smallest; every other number draws the codec, error feedback, peers, and which
// processes die together.
CrashScenario DrawCrashScenario(uint64_t number);

struct CrashPoint {
  std::string process;
  uint64_t change = 0;  // The number of the change on that process's disk, counted from 1.
  SimDisk::Crash left = SimDisk::Crash::kLoseUnsynced;
  std::string what;         // For example "append /p1/log/headers".
  absl::Duration downtime;  // How long until the process is started again.

  std::string Text() const;
};

// Returns every point of the scenario's run without a crash.
std::vector<CrashPoint> CrashPoints(const CrashScenario& scenario);

// Returns the transactions that the coordinator's store makes durable in that run.
std::vector<RunUpdate> StoreTrace(const CrashScenario& scenario);

// Runs until the seal and returns what was wrong, one line each. There is no crash if point.process
// is empty.
std::vector<std::string> RunWithCrash(const CrashScenario& scenario, const CrashPoint& point);

}  // namespace atolld
