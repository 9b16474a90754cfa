// The rules between the keys of [mode] and the other keys of a run. Pure. May be called from any
// thread.
#pragma once

#include <string>

#include "daemon/config/config_sections.h"

namespace atolld {

struct ModeFault {
  std::string key;
  std::string what;  // empty if nothing is wrong
  std::string section = "mode";
};

ModeFault ModeFaultOf(const Config& config);

}  // namespace atolld
