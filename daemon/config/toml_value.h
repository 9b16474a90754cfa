// A value of a TOML file as a field takes it.
//
// For whoever reads a file beside config.cc: an experiment's, a partition's. Pure, any thread.
#pragma once

#include <toml++/toml.h>

#include "daemon/config/config_value.h"

namespace atolld {

// Text, numbers and flags as they are; anything else by what it is called: "a list".
RawValue RawOf(const toml::node& node);

}  // namespace atolld
