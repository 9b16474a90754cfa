// What must hold between the keys of [http]. Pure, any thread.
#pragma once

#include <string>

#include "daemon/config/config_sections.h"

namespace atolld {

struct HttpFault {
  std::string key;   // of [http]: the one to change
  std::string what;  // empty: nothing is wrong
};

// Beyond loopback the port needs TLS and a token: whoever can read it learns who takes part, and
// how. A certificate needs its key.
HttpFault FaultOf(const Config::Http& http);

}  // namespace atolld
