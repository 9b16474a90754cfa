// The loops of the outer step, compiled once a SIMD target and chosen at run time; same bits on
// every target.
//
// Every operation is rounded to fp32 on its own, in the order written here; nothing is fused or
// reordered. Arrays may not overlap.
#pragma once

#include <cstddef>

namespace atolld {

struct NesterovScalars {
  float learning_rate;
  float momentum;
};

// buffer = momentum * buffer + mean;  theta = theta - learning_rate * (mean + momentum * buffer)
void NesterovStep(const NesterovScalars& scalars, const float* mean, size_t elements, float* theta,
                  float* buffer);

// theta = theta - learning_rate * mean
void AverageStep(float learning_rate, const float* mean, size_t elements, float* theta);

// values = values * factor
void ScaleValues(float factor, size_t elements, float* values);

}  // namespace atolld
