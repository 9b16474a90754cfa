// Writes a partition to a folder: one file for each party, in the form of the data; a file with the
// data on which all parties evaluate; and partition.json, which lists the files, the settings and
// the digest of the data.
//
//   DIR/party-0001.txt ...    or .jsonl, or folders with features.npy and labels.npy
//   DIR/validation.txt        the data on which all evaluate, in the same form
//   DIR/partition.json
//
// Law: DIR holds a whole partition or none. The partition is made beside DIR and renamed, and
// partition.json is written last. If DIR already holds a partition of the same data with the same
// settings, it is not made again; a different partition is replaced. Other files in DIR are never
// removed. The functions block.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "daemon/env/env.h"
#include "daemon/experiment/partition/partition_report.h"
#include "daemon/experiment/partition/partition_settings.h"

namespace atolld {

inline constexpr char kPartitionFile[] = "partition.json";

// Reads the data and partitions them, without writing anything.
absl::StatusOr<PartitionReport> ShowPartition(Files& files, const PartitionSettings& settings);

// Writes the partition to `folder`, an absolute path, unless it is there already. Fails with
// FAILED_PRECONDITION if `folder` holds something other than a partition.
absl::StatusOr<PartitionReport> WritePartition(Files& files, const PartitionSettings& settings,
                                               const std::string& folder);

}  // namespace atolld
