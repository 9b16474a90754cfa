// The section [mode]: how training and the exchange of updates interleave.
//
// Plain data. All of it belongs to the run.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace atolld {

struct ModeConfig {  // [mode]
  // "sync", "streaming", "eager", "delayed" or "async"; or "auto", which chooses one of these by
  // the last four keys below (see mode_resolution.h).
  std::string kind = "sync";
  uint32_t fragments = 1;  // streaming: the number of parts of the model, exchanged in turn
  // With "streaming": inner steps from the exchange of a fragment until it is merged (tau).
  uint32_t overlap = 1;
  // With "streaming": the share of a peer's own values in the merged ones (alpha).
  double merge = 0.5;
  bool gap_penalty = false;  // delayed: divides a mean by how far the state has moved since (CO2)
  double momentum_clip = 0;  // delayed: the largest value of the momentum; 0 means no limit
  // With "delayed" and "async": reduces an update's weight for each entry that it missed.
  double age_decay = 0;
  // With "delayed" and "async": updates of this age or more have no weight; 0 means no limit.
  uint32_t age_cutoff = 0;
  double utilisation = 0.95;  // auto: the wanted share of the time that is spent on training
  // With "auto": the duration of an inner step; 0 means unknown.
  absl::Duration step_time = absl::ZeroDuration();
  uint64_t line_rate = 0;  // auto: the rate of each peer's line, bytes a second; 0 means unknown
  absl::Duration round_trip = absl::Milliseconds(20);  // auto: the round trip between two peers
};

}  // namespace atolld
