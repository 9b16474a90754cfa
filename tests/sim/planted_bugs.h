// The names of the deliberate mistakes of compression/base/planted_bug.h, and how to switch one on.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace atolld {

// Returns the names, one per line.
std::string PlantedBugNames();

// The runs in which a bug shows.
struct RunsOfBug {
  std::string store;  // the store that DrawPlan takes; empty means any
  uint64_t seed = 1;  // a seed that has found the bug, to be tried first
};
RunsOfBug FindRunsOfBug(absl::string_view name);  // Returns all runs for an unknown name.

// Plants the bug in this process from now on. Fails with INVALID_ARGUMENT if the name is unknown
// (the message suggests the nearest), and with FAILED_PRECONDITION if this build has no planted
// bugs.
absl::Status PlantBug(absl::string_view name);

}  // namespace atolld
