// Converts a value of a TOML file to the form that a field takes.
//
// It is used for config files, and for the files of experiments and partitions. Pure. May be called
// from any thread.
#pragma once

#include <toml++/toml.h>

#include "daemon/config/config_value.h"

namespace atolld {

// Returns a text, a number or a flag as it is, and any other value as an OtherValue that describes
// its type: "a list".
RawValue RawOf(const toml::node& node);

}  // namespace atolld
