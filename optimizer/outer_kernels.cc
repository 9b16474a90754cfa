#include "optimizer/outer_kernels.h"

#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimizer/outer_kernels.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace atolld {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
// What is left of a span once whole vectors are done goes through the same operations, a lane at a
// time.
using OneFloat = hn::CappedTag<float, 1>;

template <class D>
HWY_INLINE void NesterovLanes(D d, const NesterovScalars& scalars, const float* mean, float* theta,
                              float* buffer) {
  const auto learning_rate = hn::Set(d, scalars.learning_rate);
  const auto momentum = hn::Set(d, scalars.momentum);
  const auto gradient = hn::LoadU(d, mean);
  const auto moved = hn::Add(hn::Mul(momentum, hn::LoadU(d, buffer)), gradient);
  const auto direction = hn::Add(gradient, hn::Mul(momentum, moved));
  hn::StoreU(moved, d, buffer);
  hn::StoreU(hn::Sub(hn::LoadU(d, theta), hn::Mul(learning_rate, direction)), d, theta);
}

void Nesterov(const NesterovScalars& scalars, const float* mean, size_t elements, float* theta,
              float* buffer) {
  const Floats d;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= elements; i += hn::Lanes(d))
    NesterovLanes(d, scalars, mean + i, theta + i, buffer + i);
  for (; i < elements; ++i) NesterovLanes(OneFloat(), scalars, mean + i, theta + i, buffer + i);
}

template <class D>
HWY_INLINE void AverageLanes(D d, float learning_rate, const float* mean, float* theta) {
  const auto change = hn::Mul(hn::Set(d, learning_rate), hn::LoadU(d, mean));
  hn::StoreU(hn::Sub(hn::LoadU(d, theta), change), d, theta);
}

void Average(float learning_rate, const float* mean, size_t elements, float* theta) {
  const Floats d;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= elements; i += hn::Lanes(d))
    AverageLanes(d, learning_rate, mean + i, theta + i);
  for (; i < elements; ++i) AverageLanes(OneFloat(), learning_rate, mean + i, theta + i);
}

template <class D>
HWY_INLINE void ScaleLanes(D d, float factor, float* values) {
  hn::StoreU(hn::Mul(hn::LoadU(d, values), hn::Set(d, factor)), d, values);
}

void Scale(float factor, size_t elements, float* values) {
  const Floats d;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= elements; i += hn::Lanes(d)) ScaleLanes(d, factor, values + i);
  for (; i < elements; ++i) ScaleLanes(OneFloat(), factor, values + i);
}

}  // namespace HWY_NAMESPACE
}  // namespace atolld
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace atolld {

HWY_EXPORT(Nesterov);
HWY_EXPORT(Average);
HWY_EXPORT(Scale);

void NesterovStep(const NesterovScalars& scalars, const float* mean, size_t elements, float* theta,
                  float* buffer) {
  HWY_DYNAMIC_DISPATCH(Nesterov)(scalars, mean, elements, theta, buffer);
}

void AverageStep(float learning_rate, const float* mean, size_t elements, float* theta) {
  HWY_DYNAMIC_DISPATCH(Average)(learning_rate, mean, elements, theta);
}

void ScaleValues(float factor, size_t elements, float* values) {
  HWY_DYNAMIC_DISPATCH(Scale)(factor, elements, values);
}

}  // namespace atolld
#endif  // HWY_ONCE
