// A data set as samples with labels: what a partition deals out. Plain data.
//
// A sample is a range of the bytes that were read, so that what parties get are bytes of the data
// itself. Samples stand in the order of the data.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "membership/history/sha256.h"

namespace atolld {

enum class DataForm {
  kText,       // a party's is party-0001.txt
  kJsonLines,  // party-0001.jsonl
  kArrays,     // a folder party-0001 with features.npy and labels.npy
};

inline constexpr char kFeaturesFile[] = "features.npy";
inline constexpr char kLabelsFile[] = "labels.npy";

struct Sample {
  uint64_t begin = 0;  // in SampleSet::bytes; of arrays: its row
  uint64_t bytes = 0;
  uint32_t label = 0;  // in SampleSet::labels
  double number = 0;   // the label as a number, for the continuous scheme
};

// Samples that no party gets, and why.
struct LeftOver {
  std::string reason;
  uint64_t samples = 0;
};

struct SampleSet {
  DataForm form = DataForm::kText;
  std::string bytes;
  std::string between;              // what text has after each sample
  std::vector<std::string> labels;  // by number where all are whole numbers, else by name
  std::vector<Sample> samples;
  std::vector<LeftOver> left_over;  // that reading left out
  Digest digest = {};               // of all files with their names
  // Of arrays: the rows' types and shapes ("<f4", {28, 28}), and the labels as they are stored.
  std::string feature_type, label_type;
  std::vector<uint64_t> row_shape;
  std::string label_bytes;
  uint64_t label_width = 0;

  absl::string_view Text(const Sample& sample) const {
    return absl::string_view(bytes).substr(sample.begin, sample.bytes);
  }
};

}  // namespace atolld
