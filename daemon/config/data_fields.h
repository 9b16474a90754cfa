// The keys of [data], as the table of all keys has them.
#pragma once

#include <vector>

#include "daemon/config/config_field.h"

namespace atolld {

// They borrow `config`.
std::vector<ConfigField> DataFields(Config& config);

}  // namespace atolld
