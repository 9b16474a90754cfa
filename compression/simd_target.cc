#include "compression/simd_target.h"

#include <hwy/highway.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace atolld {

std::vector<std::string> SimdTargetNames() {
  std::vector<std::string> names;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    names.emplace_back(hwy::TargetName(target));
  }
  return names;
}

ScopedSimdTarget::ScopedSimdTarget(absl::string_view name) : previous_(hwy::SupportedTargets()) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (name == hwy::TargetName(target)) {
      hwy::SetSupportedTargetsForTest(target);
      return;
    }
  }
  std::fprintf(stderr, "no SIMD target \"%.*s\" in this process\n", static_cast<int>(name.size()),
               name.data());
  std::abort();
}

ScopedSimdTarget::~ScopedSimdTarget() { hwy::SetSupportedTargetsForTest(previous_); }

}  // namespace atolld
