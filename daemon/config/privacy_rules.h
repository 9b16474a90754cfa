// What differential privacy asks of the rest of a run: each rule that would let an update through
// without its clip, or count it for more than its noise covers, is refused. docs/privacy.md says
// why. Pure, any thread.
#pragma once

#include "absl/status/status.h"
#include "daemon/config/config_places.h"
#include "daemon/config/config_sections.h"

namespace atolld {

// INVALID_ARGUMENT: file and line, what is wrong, and why.
absl::Status CheckPrivacy(const Config& config, const ConfigPlaces& places);

}  // namespace atolld
