// Crash enumeration: a small run in which a process dies at a chosen write, once for every write
// there is.
//
//   const CrashScenario scenario = DrawCrashScenario(0);
//   for (const CrashPoint& point : CrashPoints(scenario)) {
//     EXPECT_THAT(RunWithCrash(scenario, point), IsEmpty()) << point.Text();
//   }
//
// The run has all that writes: two founders make version 0, a third peer joins late from a
// snapshot, a founder leaves, every version is followed by a snapshot and the drop of what came
// before. Peers die at each change of their disks (with what was not synced lost, kept or torn),
// the coordinator before and after each transaction of its store. Until its crash a run is the run
// without one, so every point is reached. Deterministic; one thread.
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
  bool coordinator_too = false;  // it is killed at the instant at which a peer dies
};

// Number 0 is the smallest; each other draws its codec, error feedback, peers and what dies
// together.
CrashScenario DrawCrashScenario(uint64_t number);

struct CrashPoint {
  std::string process;
  uint64_t change = 0;  // of its disk, from 1 on
  SimDisk::Crash left = SimDisk::Crash::kLoseUnsynced;
  std::string what;         // "append /p1/log/headers"
  absl::Duration downtime;  // until it is started again

  std::string Text() const;
};

// Every point of the scenario's run without a crash.
std::vector<CrashPoint> CrashPoints(const CrashScenario& scenario);

// The transactions that the coordinator's store makes durable in that run.
std::vector<RunUpdate> StoreTrace(const CrashScenario& scenario);

// Runs to the seal; what was wrong, a line each. An empty process: no crash.
std::vector<std::string> RunWithCrash(const CrashScenario& scenario, const CrashPoint& point);

}  // namespace atolld
