// The keys of [mode], as the table of all keys has them.
#pragma once

#include <vector>

#include "daemon/config/config_field.h"

namespace atolld {

// They borrow `config`.
std::vector<ConfigField> ModeFields(Config& config);

}  // namespace atolld
