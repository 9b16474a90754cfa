// The rules that differential privacy imposes on the other settings of a run. They refuse every
// setting that would let through an update that is not clipped, or give it more weight than its
// noise covers. docs/privacy.md says why. Pure. May be called from any thread.
#pragma once

#include "absl/status/status.h"
#include "daemon/config/config_places.h"
#include "daemon/config/config_sections.h"

namespace atolld {

// Fails with INVALID_ARGUMENT if a setting is refused; the message gives the file and line, what is
// wrong, and why.
absl::Status CheckPrivacy(const Config& config, const ConfigPlaces& places);

}  // namespace atolld
