// The partitions of an experiment in its folder: made once, found done on the next start, and
// shared by the runs that are dealt the same.
//
//   DIR/parties/N/          the partition (partition_folder.h)
//   DIR/parties/N-hosted/   the parties alone, as links: what peers that host parties read
//   DIR/parties/N.svg       its picture; N.title: what stands above that
//
// Blocking.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/env/env.h"
#include "daemon/experiment/experiment_report.h"
#include "daemon/experiment/partition/partition_report.h"
#include "daemon/experiment/run_plan.h"

namespace atolld {

class ExperimentParties {
 public:
  // `dir`: the experiment's folder, absolute.
  ExperimentParties(Files& files, std::string dir) : files_(files), dir_(std::move(dir)) {}

  // The data of this run's parties. `plan` has a partition.
  absl::StatusOr<PartyData> DataOf(const RunPlan& plan);

  // Those that were made, in the order of their first use.
  const std::vector<PartitionPicture>& pictures() const { return pictures_; }

 private:
  struct Made {
    std::string settings;  // as PartitionSettings::Text has them
    PartitionReport report;
  };

  Files& files_;
  const std::string dir_;
  std::vector<Made> made_;
  std::vector<PartitionPicture> pictures_;
};

// Those that an experiment has left in its folder.
absl::StatusOr<std::vector<PartitionPicture>> ReadPictures(Files& files, const std::string& dir);

}  // namespace atolld
