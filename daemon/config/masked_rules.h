// The settings that masked updates ([privacy] masked) cannot be combined with, and why.
//
// With masks a single update is never visible, so every rule that judges, cuts, recomputes or
// shortens single updates is excluded. An update's weight must also be known before its owner masks
// it. Pure. May be called from any thread.
#pragma once

#include <string>

#include "daemon/config/config_sections.h"

namespace atolld {

// The first key that cannot be combined with `masked`, and the reason. `what` is empty if nothing
// is wrong or if updates are not masked.
struct MaskedFault {
  std::string section;
  std::string key;
  std::string what;
};

MaskedFault MaskedFaultOf(const Config& config);

}  // namespace atolld
