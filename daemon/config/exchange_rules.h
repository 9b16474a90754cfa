// The rules between the keys of [exchange] and the other keys of a run. Pure. May be called from
// any thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "daemon/config/config_sections.h"

namespace atolld {

struct ExchangeFault {
  // The keys concerned, each with its section. The first key is the wrong one.
  std::vector<std::pair<std::string, std::string>> keys;
  std::string what;  // empty if nothing is wrong
};

ExchangeFault ExchangeFaultOf(const Config& config);

}  // namespace atolld
