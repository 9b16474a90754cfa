// `atoll bench churn`: how a run fares when processes die, freeze, are cut off and come back.
//
// The same run twice on this machine, first left alone and then under faults, and what the faults
// cost. It leaves no process behind.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/config/config.h"

namespace atolld {

struct ChurnOptions {
  std::optional<int64_t> peers;  // instead of the config's
  double minutes = 2;            // of each run; a real model's runs last as long as they take
  double every_seconds = 15;     // a fault in each such span
  uint64_t seed = 1;
  std::string config_path;  // empty: DefaultChurnConfig()
  std::string data;         // instead of the config's
  std::string dir;          // empty: a temporary folder, kept only if something went wrong
  std::string json;         // empty: nowhere, "-": standard output
};

// What configs/churn.toml says.
Config DefaultChurnConfig();

// Returns the exit code: 0 both runs came to their end and all replicas are equal, 1 not, 2 the
// call or the config is wrong.
int BenchChurn(const ChurnOptions& options);

}  // namespace atolld
