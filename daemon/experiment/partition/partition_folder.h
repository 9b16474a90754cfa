// A partition as files: a folder with one file a party in the data's own form, the share that all
// evaluate on, and partition.json, which says what lies there and what it was made of.
//
//   DIR/party-0001.txt ...    or .jsonl, or folders with features.npy and labels.npy
//   DIR/validation.txt        likewise
//   DIR/partition.json
//
// Law: DIR holds a whole partition or none. It is made beside DIR and renamed, and partition.json
// is written last. Made again of the same data with the same settings it is found done; of others,
// it is replaced. What DIR holds beside a partition is never removed. Blocking.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "daemon/env/env.h"
#include "daemon/experiment/partition/partition_report.h"
#include "daemon/experiment/partition/partition_settings.h"

namespace atolld {

inline constexpr char kPartitionFile[] = "partition.json";

// Reads and deals, and writes nothing.
absl::StatusOr<PartitionReport> ShowPartition(Files& files, const PartitionSettings& settings);

// FAILED_PRECONDITION: `folder`, an absolute path, holds something else than a partition.
absl::StatusOr<PartitionReport> WritePartition(Files& files, const PartitionSettings& settings,
                                               const std::string& folder);

// The same with this machine's files.
absl::StatusOr<PartitionReport> ShowPartition(const PartitionSettings& settings);
absl::StatusOr<PartitionReport> WritePartition(const PartitionSettings& settings,
                                               const std::string& folder);

}  // namespace atolld
