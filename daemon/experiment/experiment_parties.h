// Makes the partitions of an experiment in its folder. Each is made once, found again at the next
// start, and shared by all runs with the same settings of [partition].
//
//   DIR/parties/N/          the partition (partition_folder.h)
//   DIR/parties/N-hosted/   links to the parties' files only, read by peers that host parties
//   DIR/parties/N.svg       its picture; N.title: the title above it
//   DIR/parties/N.settings  its settings, by which it is found again when the file has changed
//
// Its calls block. Used by one thread.
#pragma once

#include <set>
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
  // `dir` is the absolute path of the experiment's folder.
  ExperimentParties(Files& files, std::string dir) : files_(files), dir_(std::move(dir)) {}

  // Returns the data of this run's parties, and makes the partition if it does not exist yet.
  // `plan` must have a partition.
  absl::StatusOr<PartyData> DataOf(const RunPlan& plan);

  // Returns the pictures of the partitions that DataOf has made or found, in the order of their
  // first use.
  const std::vector<PartitionPicture>& pictures() const { return pictures_; }
  // Returns the notes about these partitions, each once.
  const std::set<std::string>& notes() const { return notes_; }

 private:
  struct Made {
    std::string settings;  // the settings in the form of PartitionSettings::Text
    size_t number = 0;     // the number of its folder
    PartitionReport report;
  };

  // Returns the number of the folder in which a partition with these settings is or will be stored.
  size_t NumberOf(const std::string& settings) const;

  Files& files_;
  const std::string dir_;
  std::vector<Made> made_;
  std::vector<PartitionPicture> pictures_;
  std::set<std::string> notes_;
};

// Returns the pictures of partitions that are stored in an experiment's folder.
absl::StatusOr<std::vector<PartitionPicture>> ReadPictures(Files& files, const std::string& dir);

}  // namespace atolld
