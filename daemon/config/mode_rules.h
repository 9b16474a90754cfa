// What must hold between the keys of [mode] and the others of a run. Pure; any thread.
#pragma once

#include <string>

#include "daemon/config/config_sections.h"

namespace atolld {

struct ModeFault {
  std::string key;
  std::string what;  // empty: nothing is wrong
  std::string section = "mode";
};

ModeFault ModeFaultOf(const Config& config);

}  // namespace atolld
