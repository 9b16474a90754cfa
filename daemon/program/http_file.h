// The file in which a daemon writes the address of its HTTP port: DIR/http holds one line,
// "http://127.0.0.1:7080/". It stays after the daemon's end; the daemon takes the same port at its
// next start.
#pragma once

#include <string>

#include "daemon/env/env.h"

namespace atolld {

inline constexpr char kHttpFile[] = "http";

// Returns the address in a daemon's folder, or an empty text if there is none. Blocks.
std::string ReadHttpFile(Files& files, const std::string& dir);

}  // namespace atolld
