// The loops of the adaptive outer rules, compiled once a SIMD target and chosen at run time; same
// bits on every target.
//
// outer_rule.h writes the formulas. Every operation is rounded to fp32 on its own, in the order
// written here; nothing is fused or reordered. Square root and division are those of IEEE 754,
// rounded correctly, on every 64-bit x86 and Arm. Arrays do not overlap. Any thread.
#pragma once

#include <cstddef>

namespace atolld {

struct AdaptiveFactors {
  float learning_rate;
  float beta1;
  float beta2;       // not of Adagrad
  float adaptivity;  // tau
  float discount;    // of Cgad alone
};

// One range of a replica's state. `second` holds v - tau^2, so that it starts as zeros.
struct AdaptiveState {
  const float* mean;
  size_t elements;
  float* theta;
  float* first;
  float* second;
};

void StepAdagrad(const AdaptiveFactors& factors, const AdaptiveState& state);
void StepAdam(const AdaptiveFactors& factors, const AdaptiveState& state);
void StepYogi(const AdaptiveFactors& factors, const AdaptiveState& state);
void StepCgad(const AdaptiveFactors& factors, const AdaptiveState& state);

}  // namespace atolld
