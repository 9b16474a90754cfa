#include "optimizer/adaptive_kernels.h"

#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimizer/adaptive_kernels.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace atolld {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
// The elements that remain after the whole vectors go through the same operations, one lane at a
// time.
using OneFloat = hn::CappedTag<float, 1>;

// Computes `second` from the square of the mean. Min and Max are avoided: their result for a NaN
// differs by CPU.

struct Adagrad {
  static constexpr bool kDiscounts = false;
  template <class D, class V>
  HWY_INLINE V Next(D, const AdaptiveFactors&, float, V second, V square) const {
    return hn::Add(second, square);
  }
};

struct Adam {
  static constexpr bool kDiscounts = false;
  template <class D, class V>
  HWY_INLINE V Next(D d, const AdaptiveFactors& factors, float tau_squared, V second,
                    V square) const {
    const auto kept = hn::Mul(hn::Set(d, factors.beta2), second);
    const auto above = hn::Sub(square, hn::Set(d, tau_squared));
    return hn::Add(kept, hn::Mul(hn::Set(d, 1.0f - factors.beta2), above));
  }
};

struct Yogi {
  static constexpr bool kDiscounts = false;
  template <class D, class V>
  HWY_INLINE V Next(D d, const AdaptiveFactors& factors, float tau_squared, V second,
                    V square) const {
    const auto v = hn::Add(second, hn::Set(d, tau_squared));
    const auto change = hn::Mul(hn::Set(d, 1.0f - factors.beta2), square);
    const auto grown = hn::IfThenElse(hn::Lt(v, square), hn::Add(second, change), second);
    return hn::IfThenElse(hn::Gt(v, square), hn::Sub(second, change), grown);
  }
};

struct Cgad : Adam {
  static constexpr bool kDiscounts = true;
};

// Returns the mean as the moments take it.
template <class Moment, class D>
HWY_INLINE hn::Vec<D> LoadMean(D d, const AdaptiveFactors& factors, const float* mean) {
  const auto whole = hn::LoadU(d, mean);
  if constexpr (Moment::kDiscounts) return hn::Mul(hn::Set(d, factors.discount), whole);
  return whole;
}

template <class Moment, class D>
HWY_INLINE void StepLanes(D d, const AdaptiveFactors& factors, const AdaptiveState& state,
                          size_t i) {
  const float tau_squared = factors.adaptivity * factors.adaptivity;
  const auto mean = LoadMean<Moment>(d, factors, state.mean + i);
  const auto kept = hn::Mul(hn::Set(d, factors.beta1), hn::LoadU(d, state.first + i));
  const auto first = hn::Add(kept, hn::Mul(hn::Set(d, 1.0f - factors.beta1), mean));
  const auto second =
      Moment().Next(d, factors, tau_squared, hn::LoadU(d, state.second + i), hn::Mul(mean, mean));
  const auto v = hn::Add(second, hn::Set(d, tau_squared));
  // Rounding may make v slightly negative, which has no square root.
  const auto root = hn::Sqrt(hn::IfThenElse(hn::Gt(v, hn::Zero(d)), v, hn::Zero(d)));
  const auto below = hn::Add(root, hn::Set(d, factors.adaptivity));
  const auto change = hn::Div(hn::Mul(hn::Set(d, factors.learning_rate), first), below);
  hn::StoreU(first, d, state.first + i);
  hn::StoreU(second, d, state.second + i);
  hn::StoreU(hn::Sub(hn::LoadU(d, state.theta + i), change), d, state.theta + i);
}

template <class Moment>
HWY_INLINE void StepAll(const AdaptiveFactors& factors, const AdaptiveState& state) {
  const Floats d;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= state.elements; i += hn::Lanes(d))
    StepLanes<Moment>(d, factors, state, i);
  for (; i < state.elements; ++i) StepLanes<Moment>(OneFloat(), factors, state, i);
}

void AdagradStep(const AdaptiveFactors& factors, const AdaptiveState& state) {
  StepAll<Adagrad>(factors, state);
}

void AdamStep(const AdaptiveFactors& factors, const AdaptiveState& state) {
  StepAll<Adam>(factors, state);
}

void YogiStep(const AdaptiveFactors& factors, const AdaptiveState& state) {
  StepAll<Yogi>(factors, state);
}

void CgadStep(const AdaptiveFactors& factors, const AdaptiveState& state) {
  StepAll<Cgad>(factors, state);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace atolld
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace atolld {

HWY_EXPORT(AdagradStep);
HWY_EXPORT(AdamStep);
HWY_EXPORT(YogiStep);
HWY_EXPORT(CgadStep);

void StepAdagrad(const AdaptiveFactors& factors, const AdaptiveState& state) {
  HWY_DYNAMIC_DISPATCH(AdagradStep)(factors, state);
}

void StepAdam(const AdaptiveFactors& factors, const AdaptiveState& state) {
  HWY_DYNAMIC_DISPATCH(AdamStep)(factors, state);
}

void StepYogi(const AdaptiveFactors& factors, const AdaptiveState& state) {
  HWY_DYNAMIC_DISPATCH(YogiStep)(factors, state);
}

void StepCgad(const AdaptiveFactors& factors, const AdaptiveState& state) {
  HWY_DYNAMIC_DISPATCH(CgadStep)(factors, state);
}

}  // namespace atolld
#endif  // HWY_ONCE
