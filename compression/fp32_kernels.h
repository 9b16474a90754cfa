// Loops over plain fp32 values, compiled once a SIMD target and chosen at run time; same bits on
// every target.
#pragma once

#include <cstddef>

namespace atolld {

// Whether no value is NaN or infinite; decided on the bits, so no floating-point mode changes the
// answer.
bool AllFinite(const float* values, size_t elements);

// sum[i] = sum[i] + weight * values[i], each operation rounded on its own.
void AccumulateScaled(const float* values, size_t elements, float weight, float* sum);

}  // namespace atolld
