// [limits]: what any one other process may ask of this one. None of them can make it hold or do
// more than that, whatever it sends; who stays below them notices nothing.
#pragma once

#include <cstdint>

namespace atolld {

struct ConfigLimits {
  uint32_t calls_per_peer = 256;      // peer: open at a time, of one other peer
  uint32_t sessions_per_minute = 60;  // coordinator: begun by one peer
  uint32_t session_messages = 500;    // coordinator: read a second, of one peer's Session
  uint32_t enrolments = 50;           // coordinator: signed a second, of all that join or renew
};

}  // namespace atolld
