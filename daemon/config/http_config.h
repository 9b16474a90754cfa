// The rules between the keys of [http]. Pure. May be called from any thread.
#pragma once

#include <string>

#include "daemon/config/config_sections.h"

namespace atolld {

struct HttpFault {
  std::string key;   // the key of [http] to change
  std::string what;  // empty if nothing is wrong
};

// Checks that a port on other addresses than loopback has TLS and a token, because its readers
// learn which peers take part, and how. A certificate also needs its key.
HttpFault FaultOf(const Config::Http& http);

}  // namespace atolld
