// The names of the deliberate mistakes of compression/base/planted_bug.h, and how one is switched
// on.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace atolld {

// One a line.
std::string PlantedBugNames();

// From now on, in this process. INVALID_ARGUMENT: an unknown name; it tells the nearest.
// FAILED_PRECONDITION: this build has none of them.
absl::Status PlantBug(absl::string_view name);

}  // namespace atolld
