// Random bytes of the environment: for keys and nonces.
#pragma once

#include <string>

#include "daemon/env/env.h"

namespace atolld {

// 32 of them.
inline std::string RandomBytes(Executor& executor) {
  std::string bytes;
  while (bytes.size() < 32) {
    const uint64_t random = executor.Random();
    for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(random >> (8 * i)));
  }
  return bytes;
}

}  // namespace atolld
