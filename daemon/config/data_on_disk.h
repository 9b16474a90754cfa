// The checks of a config's data that look at the disk before any process starts. May be called from
// any thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "daemon/config/config_sections.h"

namespace atolld {

// Fails with INVALID_ARGUMENT if `dir`, in which processes write, lies in a folder of the data. The
// paths of the data must be absolute, as in a config from LoadConfig.
absl::Status CheckDataApart(const DataConfig& data, const std::string& dir);

// Fails with INVALID_ARGUMENT if a plain text file on this machine is empty or, with the tokenizer
// "bytes", is shorter than one training sequence. With private data a short text is one sequence,
// so a file then needs only two bytes. Faults that the size of a file does not show are found by
// the worker.
absl::Status CheckDataSize(const Config& config);

}  // namespace atolld
