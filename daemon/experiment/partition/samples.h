// A data set as samples with labels: the input of a partition. Plain data.
//
// A sample is a range of the bytes that were read, so that parties get exactly these bytes. Samples
// are in the order of the data.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "membership/history/sha256.h"

namespace atolld {

enum class DataForm {
  kText,       // a party's file is party-0001.txt
  kJsonLines,  // a party's file is party-0001.jsonl
  kArrays,     // a party's folder is party-0001, with features.npy and labels.npy
};

inline constexpr char kFeaturesFile[] = "features.npy";
inline constexpr char kLabelsFile[] = "labels.npy";

struct Sample {
  uint64_t begin = 0;  // the offset in SampleSet::bytes; for arrays the number of the row
  uint64_t bytes = 0;
  uint32_t label = 0;  // the index in SampleSet::labels
  double number = 0;   // the label as a number, for the continuous scheme
};

// A number of samples that no party gets, and the reason.
struct LeftOver {
  std::string reason;
  uint64_t samples = 0;
};

struct SampleSet {
  DataForm form = DataForm::kText;
  std::string bytes;
  std::string between;              // for text: the bytes that follow each sample
  std::vector<std::string> labels;  // sorted by number if all are whole numbers, otherwise by name
  std::vector<Sample> samples;
  std::vector<LeftOver> left_over;  // the samples that were left out when reading
  uint64_t unlabelled = 0;          // the number of samples that have no label and count as "none"
  Digest digest = {};               // the digest of all files with their names
  // For arrays: the types of features and labels ("<f4"), the shape of a row ({28, 28}), and the
  // labels' bytes as they are stored.
  std::string feature_type, label_type;
  std::vector<uint64_t> row_shape;
  std::string label_bytes;
  uint64_t label_width = 0;

  absl::string_view Text(const Sample& sample) const {
    return absl::string_view(bytes).substr(sample.begin, sample.bytes);
  }
};

}  // namespace atolld
