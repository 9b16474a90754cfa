// SIMD: selects the instruction set (the target) that the kernels of this process use. This header
// also has the two loops over plain fp32 values that every codec needs.
//
// Kernels are compiled once for each target and choose the best target of the CPU themselves. Law:
// every target gives the same bits, because replicas run on different CPUs. Tests and the simulator
// select other targets to prove this. The choice holds for the whole process, and for the kernels
// of compression/ and optimizer/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace atolld {

// Returns the compiled targets that this CPU supports, best first, such as "AVX3", "AVX2", "SSE4",
// "SSSE3".
std::vector<std::string> SimdTargetNames();

// Selects a target until the object is destroyed, which restores the previous choice; scopes may
// therefore be nested. Aborts if SimdTargetNames() does not list the name. It is only for tests,
// since no other thread may run a kernel while a scope begins or ends.
class ScopedSimdTarget {
 public:
  explicit ScopedSimdTarget(absl::string_view name);
  ~ScopedSimdTarget();

  ScopedSimdTarget(const ScopedSimdTarget&) = delete;
  ScopedSimdTarget& operator=(const ScopedSimdTarget&) = delete;

 private:
  const int64_t previous_;  // Highway's bits for the targets that were allowed before
};

// Returns true if no value is NaN or infinite. It tests the bits, so the result does not depend on
// floating-point modes.
bool AllFinite(const float* values, size_t elements);

// Sets sum[i] = sum[i] + weight * values[i], with each operation rounded on its own.
void AccumulateScaled(const float* values, size_t elements, float weight, float* sum);

}  // namespace atolld
