// The loops of the adaptive outer rules (see outer_rule.h for the formulas). Each loop is compiled
// once for every SIMD target, and the target is chosen at run time. The result has the same bits on
// every target.
//
// Every operation is rounded to fp32 on its own, in the order of the formulas; nothing is fused or
// reordered. Every 64-bit x86 and Arm CPU rounds square roots and divisions correctly, as IEEE 754
// requires. Arrays must not overlap. May be called from any thread.
#pragma once

#include <cstddef>

namespace atolld {

struct AdaptiveFactors {
  float learning_rate;
  float beta1;
  float beta2;       // not used by Adagrad
  float adaptivity;  // tau
  float discount;    // used only by Cgad
};

// One range of a replica's state. `second` holds v - tau^2, so that it can start as zeros.
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
