// A round in words, for logs and views. Pure functions.
#pragma once

#include <string>

#include "atoll/v1/admin.pb.h"

namespace atolld {

// "1.23 s (predicted 1.10 s), audit 0.20 s"; without what was not predicted or not audited; "-": it
// was not measured.
std::string ExchangeTime(const v1::RoundRecord& round);

}  // namespace atolld
