// The "model" of a worker that only measures the system: a fixed vector, which every update moves
// the parameters towards.
//
//   update = 0.3 x (theta - target) + noise,     |noise| <= 0.005
//
// Nothing is kept: target, noise and initial parameters are computed where they are needed, a few
// integer operations a value, in loops that a compiler can vectorise. Pure functions, any thread.
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace atolld {

// What is to be learned: value `i` of the target, in [-2, 2).
float StubTarget(uint64_t i);

// The initial parameters of a run with this seed, in [-0.5, 0.5).
void FillStubParameters(uint64_t seed, absl::Span<float> parameters);

// The pseudo-gradient of one training that began at `theta`. `data` stands for the samples that it
// was done on: other data, other noise. Spans of one size.
void FillStubUpdate(absl::Span<const float> theta, uint64_t data, absl::Span<float> update);

// Sum of (theta_i - target_i)^2; `theta` is the part of the vector that begins at value `first`.
double StubSquaredDistance(absl::Span<const float> theta, uint64_t first);

}  // namespace atolld
