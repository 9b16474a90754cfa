// How training and the exchange of updates interleave: [mode].
//
// Plain data; all of it belongs to the run.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace atolld {

struct ModeConfig {  // [mode]
  // "streaming", "eager", "delayed", "async"; or "auto": what the four below say
  // (mode_resolution.h)
  std::string kind = "sync";
  uint32_t fragments = 1;     // streaming: that entries cover in turn
  uint32_t overlap = 1;       // streaming: inner steps until an entry is merged (tau)
  double merge = 0.5;         // streaming: share of a peer's own values (alpha)
  bool gap_penalty = false;   // delayed (CO2)
  double momentum_clip = 0;   // delayed: largest value of the momentum; 0: none
  double age_decay = 0;       // delayed, async: of an update's weight, for each missed entry
  uint32_t age_cutoff = 0;    // delayed, async: from this age on it counts nothing; 0: never
  double utilisation = 0.95;  // auto: share of the time that is to be training
  absl::Duration step_time = absl::ZeroDuration();  // auto: of one inner step; 0: not told
  uint64_t line_rate = 0;  // auto: of each peer, bytes a second; 0: not told
  absl::Duration round_trip = absl::Milliseconds(20);  // auto: between two peers
};

}  // namespace atolld
