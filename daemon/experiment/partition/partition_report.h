// Describes a partition: the sizes and labels of the parties, and how much the parties differ.
// partition_text.h prints the description as a table, and partition_picture.h draws it. Pure. May
// be called from any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "daemon/experiment/partition/partition_settings.h"
#include "daemon/experiment/partition/partitioner.h"
#include "daemon/experiment/partition/samples.h"

namespace atolld {

// The index in PartitionReport::labels, and the number of samples with this label.
using LabelCount = std::pair<uint32_t, uint64_t>;

struct PartyShare {
  std::string name;                // "party-0001"
  std::string key;                 // the party's key, if each party has one key
  std::vector<std::string> files;  // paths in the partition's folder
  uint64_t samples = 0;
  uint64_t bytes = 0;              // the bytes of its samples
  std::vector<LabelCount> labels;  // the most common label first
  // The digest of its files, in hexadecimal; empty if they were not written.
  std::string digest;
};

struct PartitionReport {
  PartitionSettings settings;
  std::vector<std::string> labels;
  std::vector<uint64_t> label_counts;  // the samples of each label, over all parties
  std::vector<PartyShare> parties;
  PartyShare validation;  // the data on which all evaluate; may have no samples
  std::vector<LeftOver> left_over;
  uint64_t samples = 0;     // the number of samples that were read
  uint64_t unlabelled = 0;  // the number of samples without a label, which count as "none"
  uint64_t draws = 1;       // the number of draws that dirichlet needed
  std::string data;         // the digest of the data, in hexadecimal

  uint64_t smallest = 0, median = 0, largest = 0;  // numbers of samples of a party
  // The mean over the parties of exp(entropy) of the party's mix of labels. This is Hill's number
  // of order 1: the number of equally common labels that would have the same entropy.
  double effective_labels = 0;
  // The mean over the parties of the total variation distance (half the sum of |p - q|) between the
  // party's mix of labels and the mix of all parties together. 0 if they are equal, 1 if they are
  // disjoint.
  double distance = 0;

  std::string folder;  // the partition's folder; empty if it was not written
  bool found = false;  // true if the folder held this partition already
};

// Returns the name of a party in file names. The names sort in the order of the numbers.
std::string PartyName(uint64_t number, uint64_t parties);

PartitionReport DescribePartition(const PartitionSettings& settings, const SampleSet& set,
                                  const Assignment& assignment);

// Returns the report as JSON with the first `most_parties` parties.
nlohmann::ordered_json PartitionJson(const PartitionReport& report, size_t most_parties);

}  // namespace atolld
