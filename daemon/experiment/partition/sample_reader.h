// Reads a data set as samples with labels.
//
// Text is cut by `unit`:
//   line        a line that is not blank
//   paragraph   the lines up to a blank line
//   entry       an entry of a dictionary: begins at a line that is not indented and follows a
//               blank line
//   speech      a speech of a play: begins at a line "NAME:" that follows a blank line; its label
//               "speaker" is NAME
//   document    a whole file
// The labels of text come from the group of a pattern, or are one of TextLabels(): the speaker, the
// first letter, the name of the file, the name of the file's folder, or the subject that an entry
// of a dictionary names, such as "(Bot.)" in GCIDE. A line of JSON has a text field and a label
// field; "a.b" names a nested field. Arrays are in a folder with features.npy, whose first
// dimension is the rows, and labels.npy, with one whole number for each row.
//
// A folder means all files under it except hidden ones, in the order of their paths. The whole data
// set is held in memory. ReadSamples blocks.
#pragma once

#include "absl/status/statusor.h"
#include "daemon/env/env.h"
#include "daemon/experiment/partition/partition_settings.h"
#include "daemon/experiment/partition/samples.h"

namespace atolld {

inline constexpr char kNoLabel[] = "none";
inline constexpr char kOtherLabel[] = "other";

// Fails with INVALID_ARGUMENT if the data are wrong; the message names the file and the line or
// row.
absl::StatusOr<SampleSet> ReadSamples(Files& files, const PartitionSettings& settings);

}  // namespace atolld
