// Where a daemon writes the address of its HTTP port, for whoever wants to open it: DIR/http holds
// one line, "http://127.0.0.1:7080/". It stays after the daemon's end, which takes the same port at
// its next start.
#pragma once

#include <string>

#include "daemon/env/env.h"

namespace atolld {

inline constexpr char kHttpFile[] = "http";

// The address in a daemon's folder; empty: it has none. Blocking.
std::string ReadHttpFile(Files& files, const std::string& dir);

}  // namespace atolld
