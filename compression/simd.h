// SIMD: which instruction set the kernels of this process use, a way to pin one, and the two loops
// over plain fp32 values that every codec needs.
//
// Kernels are compiled once a target and choose the best target of the CPU by themselves. Tests and
// the simulator pin others to prove the law that every target gives the same bits: replicas on
// different CPUs are replicas under different targets. The choice is one a process and covers the
// kernels of compression/ and optimizer/ alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace atolld {

// The targets that are compiled in and that this CPU has, best first, such as "AVX3", "AVX2",
// "SSE4", "SSSE3".
std::vector<std::string> SimdTargetNames();

// Pins a target while it lives; the end restores the choice that stood before, so scopes nest. Dies
// on a name that SimdTargetNames() does not list. For tests: no other thread may be in a kernel
// while a scope begins or ends.
class ScopedSimdTarget {
 public:
  explicit ScopedSimdTarget(absl::string_view name);
  ~ScopedSimdTarget();

  ScopedSimdTarget(const ScopedSimdTarget&) = delete;
  ScopedSimdTarget& operator=(const ScopedSimdTarget&) = delete;

 private:
  const int64_t previous_;  // Highway's bits of the targets that were allowed before
};

// Whether no value is NaN or infinite; decided on the bits, so no floating-point mode changes the
// answer.
bool AllFinite(const float* values, size_t elements);

// sum[i] = sum[i] + weight * values[i], each operation rounded on its own.
void AccumulateScaled(const float* values, size_t elements, float weight, float* sum);

}  // namespace atolld
