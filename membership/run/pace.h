// Pace: how many inner steps a peer does in one round.
//
//   fixed  H for everybody
//   time   as many as fit the round's time at the peer's measured speed
//   auto   H at the median speed and in proportion at any other, so that all are ready together
//
// (DiLoCo's H; unequal H_i weigh by their tokens.) A peer whose speed is not known yet does H. Pure
// functions.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "absl/types/span.h"

namespace atolld {

struct PaceSettings {
  enum class Kind { kFixed, kTime, kAuto };
  Kind kind = Kind::kFixed;
  absl::Duration time;  // of a round's training, with kTime
};

// `step_time` is the peer's own, zero if it is not known; `all` are the known ones of all trainers.
// Between 1 and 16 H with kAuto (a wrong measurement must not keep the others waiting), between 1
// and a million with kTime.
uint32_t StepsFor(const PaceSettings& pace, uint32_t fixed_steps, absl::Duration step_time,
                  absl::Span<const absl::Duration> all);

}  // namespace atolld
