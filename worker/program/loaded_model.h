// The model that a command is about: a run's, handed over by the command line, or a folder as
// Hugging Face has it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "atoll/v1/run.pb.h"
#include "worker/base/flags.h"
#include "worker/data/tokenizer.h"

namespace atolld {

struct LoadedModel {
  v1::RunSpec spec;  // of a folder: the model, and data of no run
  v1::Manifest manifest;
  std::vector<float> parameters;  // flat, as the manifest lays them out
  std::string folder;             // empty: a run's
};

// --model FOLDER, or --spec and --parameters with --offset and --elements. INVALID_ARGUMENT: a flag
// is missing; FAILED_PRECONDITION, DATA_LOSS, NOT_FOUND: what is wrong with a file, by name.
absl::StatusOr<LoadedModel> LoadModel(const Flags& flags);

// The flags above, for Flags::Parse.
std::vector<std::string> WithModelFlags(std::vector<std::string> more);

// What --tokenizer names (default: the folder's own, or bytes where that fits).
// FAILED_PRECONDITION: not the run's; it has more tokens than the model; a folder without one.
absl::StatusOr<std::unique_ptr<Tokenizer>> TokenizerOf(const Flags& flags,
                                                       const LoadedModel& model);

// The same as a path, or "bytes".
absl::StatusOr<std::string> TokenizerNameOf(const Flags& flags, const LoadedModel& model);

}  // namespace atolld
