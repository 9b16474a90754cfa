// PlanRun: what one setting with one seed is as a run's config.
//
// Law: every error is one line "FILE:LINE: what is wrong; what would be right", where the line is
// that of the experiment's file. Any thread; it looks at the files that the config names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/config/config.h"
#include "daemon/experiment/experiment.h"
#include "daemon/experiment/partition/partition_settings.h"

namespace atolld {

// What the partition of a run has made.
struct PartyData {
  std::string path;        // of every party, with a place for its number; of hosts: the folder
  std::string validation;  // that all evaluate on; empty: none
  uint32_t parties = 0;
};

// One setting with one seed.
struct RunPlan {
  size_t setting = 0;
  uint64_t seed = 1;
  std::string id;  // of the run and of its folder: "03-fedprox-seed-2"
  Config config;   // what `atoll local` is given
  ExperimentKeys keys;
  std::optional<PartitionSettings> partition;
};

// `data`: what was made of the run's partition; nothing: it is not made yet, and the whole data
// stands for the parties'.
absl::StatusOr<RunPlan> PlanRun(const Experiment& experiment, size_t setting, uint64_t seed,
                                const std::optional<PartyData>& data);

// The most peers that it has at any time.
uint32_t MostPeersOf(const RunPlan& plan);

}  // namespace atolld
