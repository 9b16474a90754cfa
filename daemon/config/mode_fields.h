// The keys of [mode], as entries of the table of all keys.
#pragma once

#include <vector>

#include "daemon/config/config_field.h"

namespace atolld {

// Returns the entries. They point into `config`, which must outlive them.
std::vector<ConfigField> ModeFields(Config& config);

}  // namespace atolld
