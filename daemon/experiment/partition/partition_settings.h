// [partition] of an experiment: how its data is cut into samples and who gets which of them.
//
// The settings are read from [partition] and from path, kind and field of [data]. ParsePartition
// takes sections that somebody has read already; LoadPartition reads an experiment's file, where it
// passes over all other sections. Every error is one line, "FILE:LINE: what is wrong", with the
// nearest name for a misspelt one.
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
  std::string name;                 // [experiment] name; may be empty
  std::string path;                 // [data] path, absolute
  std::string kind = "text";        // [data] kind
  std::string field = "text";       // [data] field: where a record's text stands
  std::string scheme = "iid";       // a PartitionSchemes()
  uint32_t parties = 0;             // 0, of scheme "key" alone: as many as there are keys
  std::string unit = "line";        // of text: "paragraph", "entry", "speech", "document"
  std::string label;                // a field, or of text a TextLabels(); empty: none
  std::string label_pattern;        // of text, in place of it
  std::string unlabelled = "keep";  // as the label "none"; or "leave_out"
  uint32_t keep_labels = 0;         // the most common; the rest is "other"; 0: all
  double alpha = 0.5;               // of Dirichlet's distribution
  bool balance = false;             // a party that has its mean share gets no more
  std::string sizes = "equal";      // of inner_dirichlet: or a scheme of sizes
  uint32_t classes = 2;             // of pathological: labels a party
  uint32_t shards = 2;              // of shards: a party's
  double sigma = 1;                 // of log_normal, and how strictly continuous keeps to order
  uint32_t min_samples = 0;         // of each party; 0: 10 with dirichlet, else 1
  uint64_t seed = 1;                // [partition] seed, else [experiment] seed
  double validation = 0.05;         // share that is held out for all, before

  // min_samples, or what it stands for.
  uint32_t fewest() const;
  // All that decides who gets what, a line a value; the same text, the same partition.
  std::string Text() const;
};

// The names, as [partition] scheme takes them.
const std::vector<std::string>& PartitionSchemes();
// Labels that need no field: "speaker", "first_letter", "file", "folder", "subject".
const std::vector<std::string>& TextLabels();

// One key's value and where it stands ("run.toml:12").
struct SectionValue {
  RawValue value;
  std::string place;
};

// A section of a file that somebody has read.
struct FileSection {
  std::string place;  // of its heading; of one that is not there: the file's first line
  std::map<std::string, SectionValue> values;
};

struct PartitionSections {
  std::string folder;  // absolute; relative paths start there
  FileSection data, partition, experiment;
};

absl::StatusOr<PartitionSettings> ParsePartition(const PartitionSections& sections);

// Reads the file. INVALID_ARGUMENT: there is none, it is no TOML, or it has no [partition].
absl::StatusOr<PartitionSettings> LoadPartition(const std::string& path);

}  // namespace atolld
