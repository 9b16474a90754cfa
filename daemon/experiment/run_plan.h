// PlanRun: makes the config of a run from one setting and one seed of an experiment.
//
// Law: every error is one line "FILE:LINE: what is wrong; what would be right", with the line in
// the experiment's file. It looks at the files that the config names, and blocks. May be called
// from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/config/config.h"
#include "daemon/experiment/experiment.h"
#include "daemon/experiment/partition/partition_settings.h"

namespace atolld {

// The files that the partition of a run has made.
struct PartyData {
  // The parties' files, with "{peer}" for the number; with hosts, the folder.
  std::string path;
  std::string validation;  // the file on which all evaluate; empty if there is none
  uint32_t parties = 0;
};

// The plan for one setting with one seed.
struct RunPlan {
  size_t setting = 0;
  uint64_t seed = 1;
  std::string id;  // the id of the run and of its folder: "03-fedprox-seed-2"
  Config config;   // the config that `atoll local` gets
  ExperimentKeys keys;
  std::optional<PartitionSettings> partition;
};

// `data` holds the files of the run's partition. If it is not set because the partition is not made
// yet, the plan uses the whole data in their place.
absl::StatusOr<RunPlan> PlanRun(const Experiment& experiment, size_t setting, uint64_t seed,
                                const std::optional<PartyData>& data);

// Returns the largest number of peers that the run has at any time.
uint32_t MostPeersOf(const RunPlan& plan);

}  // namespace atolld
