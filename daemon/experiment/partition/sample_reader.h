// Reads a data set as samples with labels.
//
// Text is cut by `unit`:
//   line        each that is not blank
//   paragraph   lines up to a blank one
//   entry       as of a dictionary: begins at a line that is not indented and follows a blank one
//   speech      as of a play: begins at a line "NAME:" that follows a blank one; its label
//   "speaker"
//               is NAME
//   document    a file
// Its labels come from a pattern's group, or are one of TextLabels(): the speaker, the first
// letter, the name of the file, the name of the file's folder, or the subject that a dictionary's
// entry names, as "(Bot.)" in GCIDE. Lines of JSON have a text and a label field each, "a.b" of a
// nested one. Arrays are a folder with features.npy (rows first) and labels.npy (a whole number a
// row).
//
// A folder is all files under it, in the order of their paths; what is hidden is left out.
// Blocking; the whole set is in memory.
#pragma once

#include "absl/status/statusor.h"
#include "daemon/env/env.h"
#include "daemon/experiment/partition/partition_settings.h"
#include "daemon/experiment/partition/samples.h"

namespace atolld {

inline constexpr char kNoLabel[] = "none";
inline constexpr char kOtherLabel[] = "other";

// INVALID_ARGUMENT names the file, and the line or row, of what is wrong.
absl::StatusOr<SampleSet> ReadSamples(Files& files, const PartitionSettings& settings);

}  // namespace atolld
