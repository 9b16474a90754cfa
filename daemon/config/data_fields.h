// The keys of [data], as entries of the table of all keys.
#pragma once

#include <vector>

#include "daemon/config/config_field.h"

namespace atolld {

// Returns the entries. They point into `config`, which must outlive them.
std::vector<ConfigField> DataFields(Config& config);

}  // namespace atolld
