// What a partition looks like: sizes, labels, and how far parties are from each other; as a table,
// as JSON, and (partition_picture.h) as a picture. Pure functions, any thread.
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

using LabelCount = std::pair<uint32_t, uint64_t>;  // in PartitionReport::labels, and samples

struct PartyShare {
  std::string name;                // "party-0001"
  std::string key;                 // of a party by key
  std::vector<std::string> files;  // in the partition's folder
  uint64_t samples = 0;
  uint64_t bytes = 0;              // of the data
  std::vector<LabelCount> labels;  // the most common first
  std::string digest;              // of its files, hexadecimal; empty: they were not made
};

struct PartitionReport {
  PartitionSettings settings;
  std::vector<std::string> labels;
  std::vector<uint64_t> label_counts;  // of all parties together
  std::vector<PartyShare> parties;
  PartyShare validation;  // what is held out for all; no samples: nothing is
  std::vector<LeftOver> left_over;
  uint64_t samples = 0;  // read
  uint64_t draws = 1;    // of dirichlet
  std::string data;      // digest of what was read, hexadecimal

  uint64_t smallest = 0, median = 0, largest = 0;  // samples of a party
  // Mean over parties of exp(entropy) of their mix of labels: Hill's number of order 1, the number
  // of equally common labels with the same entropy.
  double effective_labels = 0;
  // Mean over parties of the total variation distance, half the sum of |p - q|, between their mix
  // and that of all parties together: 0 is alike, 1 is disjoint.
  double distance = 0;

  std::string folder;  // where it lies; empty: it was not written
  bool found = false;  // it lay there before
};

// Names of parties as their files have them: they sort in the order of their numbers.
std::string PartyName(uint64_t number, uint64_t parties);

PartitionReport DescribePartition(const PartitionSettings& settings, const SampleSet& set,
                                  const Assignment& assignment);

// Of at most `most_parties` parties, the first ones.
nlohmann::ordered_json PartitionJson(const PartitionReport& report, size_t most_parties);

}  // namespace atolld
