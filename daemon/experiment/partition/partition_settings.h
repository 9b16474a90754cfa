// The section [partition] of an experiment: how the data are cut into samples, and how the samples
// are distributed to parties.
//
// The settings are read from [partition] and from path, kind and field of [data]. ParsePartition
// takes sections that were read before; LoadPartition reads an experiment's file and ignores all
// its other sections. Every error is one line, "FILE:LINE: what is wrong"; for a misspelt name it
// gives the nearest valid name. May be called from any thread; LoadPartition blocks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/config/config_value.h"

namespace atolld {

struct PartitionSettings {
  std::string name;            // [experiment] name; may be empty
  std::string path;            // [data] path, made absolute
  std::string kind = "text";   // [data] kind
  std::string field = "text";  // [data] field, which holds a record's text
  std::string scheme = "iid";  // one of PartitionSchemes()
  uint32_t parties = 0;        // 0 means one for each key, and is only allowed with scheme "key"
  std::string unit = "line";   // for text: or "paragraph", "entry", "speech", "document"
  // A field, or for text one of TextLabels(); empty if samples have no label.
  std::string label;
  std::string label_pattern;        // for text: a regular expression, used in place of `label`
  std::string unlabelled = "keep";  // samples without a label get the label "none"; or "leave_out"
  // The number of most common labels that are kept; others become "other"; 0 means all.
  uint32_t keep_labels = 0;
  double alpha = 0.5;  // the parameter of the Dirichlet distribution
  // For dirichlet: true if a party that has the mean number of samples gets no more.
  bool balance = false;
  // For inner_dirichlet: "equal" or one of the schemes that set sizes.
  std::string sizes = "equal";
  uint32_t classes = 2;  // for pathological: the number of labels of a party
  uint32_t shards = 2;   // for shards: the number of shards of a party
  // The sigma of log_normal. For continuous, 1 keeps the order of the labels and 0 ignores it.
  double sigma = 1;
  // The fewest samples of a party; 0 means 10 with dirichlet, otherwise 1.
  uint32_t min_samples = 0;
  // [partition] seed or, if it is not set, the seed of the experiment
  uint64_t seed = 1;
  // The share that is held out first, on which all parties evaluate.
  double validation = 0.05;

  // Returns min_samples, or its default if it is 0.
  uint32_t fewest() const;
  // Returns every setting that affects the partition, one line for each value. The same text means
  // the same partition.
  std::string Text() const;
};

// Returns the legal values of [partition] scheme.
const std::vector<std::string>& PartitionSchemes();
// Returns the labels of text that need no field: "speaker", "first_letter", "file", "folder",
// "subject".
const std::vector<std::string>& TextLabels();

// The value of a key, and its place ("run.toml:12").
struct SectionValue {
  RawValue value;
  std::string place;
};

// A section of a file that was read before.
struct FileSection {
  std::string place;  // the place of the heading; the file's first line if there is no such section
  std::map<std::string, SectionValue> values;
};

struct PartitionSections {
  std::string folder;  // the absolute path of the folder in which relative paths start
  FileSection data, partition, experiment;
};

absl::StatusOr<PartitionSettings> ParsePartition(const PartitionSections& sections);

// Reads an experiment's file. Fails with INVALID_ARGUMENT if the file does not exist, is not TOML,
// or has no section [partition].
absl::StatusOr<PartitionSettings> LoadPartition(const std::string& path);

}  // namespace atolld
