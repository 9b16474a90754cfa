// What must hold between the keys of [exchange] and the others of a run. Pure; any thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "daemon/config/config_sections.h"

namespace atolld {

struct ExchangeFault {
  std::vector<std::pair<std::string, std::string>> keys;  // section and key, the wrong one first
  std::string what;                                       // empty: nothing is wrong
};

ExchangeFault ExchangeFaultOf(const Config& config);

}  // namespace atolld
