#include "compression/simd.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compression/simd.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace atolld {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
// The rest of a span after its whole vectors goes through the same operations, one lane at a time.
using OneFloat = hn::CappedTag<float, 1>;

template <class D>
HWY_INLINE hn::Vec<hn::RebindToSigned<D>> LoadMagnitude(D d, const float* values) {
  const hn::RebindToSigned<D> di;
  return hn::And(hn::BitCast(di, hn::LoadU(d, values)), hn::Set(di, 0x7fffffff));
}

bool Finite(const float* values, size_t elements) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  const size_t lanes = hn::Lanes(d);
  auto max0 = hn::Zero(di);
  auto max1 = hn::Zero(di);
  size_t i = 0;
  for (; i + 2 * lanes <= elements; i += 2 * lanes) {
    max0 = hn::Max(max0, LoadMagnitude(d, values + i));
    max1 = hn::Max(max1, LoadMagnitude(d, values + i + lanes));
  }
  int32_t max = hn::GetLane(hn::MaxOfLanes(di, hn::Max(max0, max1)));
  for (; i < elements; ++i) {
    const int32_t magnitude = hn::GetLane(LoadMagnitude(OneFloat(), values + i));
    max = max < magnitude ? magnitude : max;
  }
  return max < 0x7f800000;
}

template <class D>
HWY_INLINE void AccumulateLanes(D d, const float* values, float weight, float* sum) {
  const auto product = hn::Mul(hn::Set(d, weight), hn::LoadU(d, values));
  hn::StoreU(hn::Add(hn::LoadU(d, sum), product), d, sum);
}

void Accumulate(const float* values, size_t elements, float weight, float* sum) {
  const Floats d;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= elements; i += hn::Lanes(d))
    AccumulateLanes(d, values + i, weight, sum + i);
  for (; i < elements; ++i) AccumulateLanes(OneFloat(), values + i, weight, sum + i);
}

}  // namespace HWY_NAMESPACE
}  // namespace atolld
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace atolld {

HWY_EXPORT(Finite);
HWY_EXPORT(Accumulate);

bool AllFinite(const float* values, size_t elements) {
  return HWY_DYNAMIC_DISPATCH(Finite)(values, elements);
}

void AccumulateScaled(const float* values, size_t elements, float weight, float* sum) {
  HWY_DYNAMIC_DISPATCH(Accumulate)(values, elements, weight, sum);
}

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
#endif  // HWY_ONCE
