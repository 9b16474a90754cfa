#include "optimizer/control_variate.h"

#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimizer/control_variate.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace atolld {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE void ControlLanes(D d, float rate, float share, const float* mean, float* control) {
  const auto old = hn::LoadU(d, control);
  const auto target = hn::Mul(hn::Set(d, rate), hn::LoadU(d, mean));
  const auto change = hn::Mul(hn::Set(d, share), hn::Sub(target, old));
  hn::StoreU(hn::Add(old, change), d, control);
}

void StepControl(float rate, float share, const float* mean, size_t elements, float* control) {
  const hn::ScalableTag<float> d;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= elements; i += hn::Lanes(d))
    ControlLanes(d, rate, share, mean + i, control + i);
  for (; i < elements; ++i)
    ControlLanes(hn::CappedTag<float, 1>(), rate, share, mean + i, control + i);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace atolld
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace atolld {

HWY_EXPORT(StepControl);

absl::StatusOr<ControlVariate> ControlVariate::Make(const OuterScalars& scalars) {
  const auto rate = scalars.find(kControlRate);
  const auto share = scalars.find(kControlShare);
  if (rate == scalars.end() && share == scalars.end()) {
    return absl::NotFoundError("the entry steps no control variate");
  }
  if (rate == scalars.end() || share == scalars.end()) {
    return absl::InvalidArgumentError(absl::StrCat("the entry has one of the scalars \"",
                                                   kControlRate, "\" and \"", kControlShare,
                                                   "\" without the other"));
  }
  if (!std::isfinite(rate->second) || !(rate->second > 0.0f)) {
    return absl::InvalidArgumentError(
        absl::StrCat(kControlRate, " ", rate->second, " is not finite and above 0"));
  }
  if (!(share->second > 0.0f && share->second <= 1.0f)) {
    return absl::InvalidArgumentError(
        absl::StrCat(kControlShare, " ", share->second, " is not above 0 and up to 1"));
  }
  return ControlVariate(rate->second, share->second);
}

void ControlVariate::Step(absl::Span<const float> mean, absl::Span<float> control) const {
  HWY_DYNAMIC_DISPATCH(StepControl)
  (rate_, share_, mean.data(), mean.size(), control.data());
}

}  // namespace atolld
#endif  // HWY_ONCE
