// The names of the deliberate mistakes of compression/base/planted_bug.h, and how one is switched
// on.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace atolld {

// One a line.
std::string PlantedBugNames();

// The runs in which it shows.
struct RunsOfBug {
  std::string store;  // as DrawPlan takes it; empty: of all
  uint64_t seed = 1;  // one that has found it, to be tried first
};
RunsOfBug FindRunsOfBug(absl::string_view name);  // an unknown name: all

// From now on, in this process. INVALID_ARGUMENT: an unknown name; it tells the nearest.
// FAILED_PRECONDITION: this build has none of them.
absl::Status PlantBug(absl::string_view name);

}  // namespace atolld
