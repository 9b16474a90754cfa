// What masked updates ([privacy] masked) do not go with, and why.
//
// Nobody sees a single update then, so all that judges, cuts, redoes or shortens single updates is
// out; and a weight has to be known before its owner masks. Pure functions, any thread.
#pragma once

#include <string>

#include "daemon/config/config_sections.h"

namespace atolld {

// The first key that is wrong beside `masked`, and what is wrong with it; `what` is empty if
// nothing is, or if updates are not masked.
struct MaskedFault {
  std::string section;
  std::string key;
  std::string what;
};

MaskedFault MaskedFaultOf(const Config& config);

}  // namespace atolld
