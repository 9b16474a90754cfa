// What can be said of a config's data by looking at the disk, before any process starts.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "daemon/config/config_sections.h"

namespace atolld {

// INVALID_ARGUMENT: a folder of the data (absolute, as LoadConfig gives it) holds `dir`, where
// processes write.
absl::Status CheckDataApart(const DataConfig& data, const std::string& dir);

// INVALID_ARGUMENT: a file of plain text that is here is empty or, as bytes, has no whole sequence
// to train on. Whatever needs more than a file's size is for the worker to find.
absl::Status CheckDataSize(const Config& config);

}  // namespace atolld
