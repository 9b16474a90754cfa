#include "worker/kernels/row_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "worker/kernels/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/kernels/row_kernels.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

#include "worker/kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace atolld {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
// The values behind whole vectors go through the same operations, one at a time.
using OneFloat = hn::CappedTag<float, 1>;

// Runs body(d, i) for whole vectors, then for single values.
template <class Body>
HWY_INLINE void ForEach(size_t values, const Body& body) {
  const Floats d;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= values; i += hn::Lanes(d)) body(d, i);
  for (; i < values; ++i) body(OneFloat(), i);
}

// Returns the sum of value(d, i), vectors first.
template <class Value>
HWY_INLINE float SumOf(size_t values, const Value& value) {
  const Floats d;
  auto sum0 = hn::Zero(d), sum1 = hn::Zero(d);
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + 2 * lanes <= values; i += 2 * lanes) {
    sum0 = hn::Add(sum0, value(d, i));
    sum1 = hn::Add(sum1, value(d, i + lanes));
  }
  for (; i + lanes <= values; i += lanes) sum0 = hn::Add(sum0, value(d, i));
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
  for (; i < values; ++i) sum += hn::GetLane(value(OneFloat(), i));
  return sum;
}

// ------------------------------------------------------------------------------------------------
// Norms.

void NormRows(const NormRule& rule, size_t rows, const float* x, float* y, float* statistics) {
  const size_t width = rule.width;
  const float inverse = 1.0f / static_cast<float>(width);
  for (size_t r = 0; r < rows; ++r, x += width, y += width, statistics += 2) {
    const float mean = !rule.centred ? 0.0f : inverse * SumOf(width, [x](auto d, size_t i) {
                                                return hn::LoadU(d, x + i);
                                              });
    const float squares = SumOf(width, [x, mean](auto d, size_t i) {
      const auto off = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean));
      return hn::Mul(off, off);
    });
    const float root = 1.0f / std::sqrt(squares * inverse + rule.epsilon);
    statistics[0] = mean;
    statistics[1] = root;
    ForEach(width, [&](auto d, size_t i) {
      const auto unit = hn::Mul(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean)), hn::Set(d, root));
      const auto weight = hn::Add(hn::LoadU(d, rule.weight + i), hn::Set(d, rule.shift));
      const auto bias = rule.bias == nullptr ? hn::Zero(d) : hn::LoadU(d, rule.bias + i);
      hn::StoreU(hn::MulAdd(unit, weight, bias), d, y + i);
    });
  }
}

void NormRowsBackward(const NormRule& rule, size_t rows, const float* x, const float* statistics,
                      const float* dy, float* dx, float* dweight, float* dbias) {
  const size_t width = rule.width;
  const float inverse = 1.0f / static_cast<float>(width);
  for (size_t r = 0; r < rows; ++r, x += width, dy += width, statistics += 2) {
    const float mean = statistics[0], root = statistics[1];
    const auto unit = [&](auto d, size_t i) {
      return hn::Mul(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean)), hn::Set(d, root));
    };
    const auto weighted = [&](auto d, size_t i) {
      return hn::Mul(hn::LoadU(d, dy + i),
                     hn::Add(hn::LoadU(d, rule.weight + i), hn::Set(d, rule.shift)));
    };
    if (dx != nullptr) {
      const float along = inverse * SumOf(width, [&](auto d, size_t i) {
                            return hn::Mul(weighted(d, i), unit(d, i));
                          });
      const float level = rule.centred ? inverse * SumOf(width, weighted) : 0.0f;
      ForEach(width, [&](auto d, size_t i) {
        const auto rest = hn::Sub(hn::NegMulAdd(unit(d, i), hn::Set(d, along), weighted(d, i)),
                                  hn::Set(d, level));
        hn::StoreU(hn::Mul(rest, hn::Set(d, root)), d, dx + i);
      });
      dx += width;
    }
    if (dweight != nullptr) {
      ForEach(width, [&](auto d, size_t i) {
        hn::StoreU(hn::MulAdd(hn::LoadU(d, dy + i), unit(d, i), hn::LoadU(d, dweight + i)), d,
                   dweight + i);
      });
    }
    if (dbias != nullptr) {
      ForEach(width, [&](auto d, size_t i) {
        hn::StoreU(hn::Add(hn::LoadU(d, dy + i), hn::LoadU(d, dbias + i)), d, dbias + i);
      });
    }
  }
}

// ------------------------------------------------------------------------------------------------
// Activations: f(x) and f'(x).

template <class V>
struct ValueAndSlope {
  V value, slope;
};

// x times the normal distribution function.
struct Gelu {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE ValueAndSlope<V> Of(D d, V x) {
    const auto half = hn::Set(d, 0.5f);
    const auto share = hn::MulAdd(half, Erf(d, hn::Mul(x, hn::Set(d, 0.707106781f))), half);
    const auto density =
        hn::Mul(Exp(d, hn::Mul(hn::Mul(x, x), hn::Set(d, -0.5f))), hn::Set(d, 0.398942280f));
    return {hn::Mul(x, share), hn::MulAdd(x, density, share)};
  }
};

// The same with tanh: x sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3).
struct GeluTanh {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE ValueAndSlope<V> Of(D d, V x) {
    const auto one = hn::Set(d, 1.0f), twice = hn::Set(d, 1.59576912f);
    const auto square = hn::Mul(x, x);
    const auto u = hn::Mul(hn::Mul(twice, x), hn::MulAdd(square, hn::Set(d, 0.044715f), one));
    const auto share = Sigmoid(d, u);
    const auto growth = hn::Mul(twice, hn::MulAdd(square, hn::Set(d, 0.134145f), one));
    const auto bend = hn::Mul(hn::Mul(share, hn::Sub(one, share)), growth);
    return {hn::Mul(x, share), hn::MulAdd(x, bend, share)};
  }
};

struct Silu {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE ValueAndSlope<V> Of(D d, V x) {
    const auto one = hn::Set(d, 1.0f);
    const auto share = Sigmoid(d, x);
    return {hn::Mul(x, share), hn::Mul(share, hn::MulAdd(x, hn::Sub(one, share), one))};
  }
};

template <class F>
void ActivateValues(size_t values, const float* x, float* y, float* slope) {
  if (slope == nullptr) {
    ForEach(values,
            [&](auto d, size_t i) { hn::StoreU(F::Of(d, hn::LoadU(d, x + i)).value, d, y + i); });
    return;
  }
  ForEach(values, [&](auto d, size_t i) {
    const auto both = F::Of(d, hn::LoadU(d, x + i));
    hn::StoreU(both.value, d, y + i);
    hn::StoreU(both.slope, d, slope + i);
  });
}

template <class F>
void GateValues(size_t values, const float* gate, const float* up, float* y) {
  ForEach(values, [&](auto d, size_t i) {
    hn::StoreU(hn::Mul(F::Of(d, hn::LoadU(d, gate + i)).value, hn::LoadU(d, up + i)), d, y + i);
  });
}

template <class F>
void GateValuesBackward(size_t values, const float* gate, const float* up, const float* dy,
                        float* dgate, float* dup) {
  ForEach(values, [&](auto d, size_t i) {
    const auto both = F::Of(d, hn::LoadU(d, gate + i));
    const auto gradient = hn::LoadU(d, dy + i);
    hn::StoreU(hn::Mul(hn::Mul(gradient, hn::LoadU(d, up + i)), both.slope), d, dgate + i);
    hn::StoreU(hn::Mul(gradient, both.value), d, dup + i);
  });
}

// Runs call(F()) for the activation's F.
template <class Call>
HWY_INLINE void With(Activation activation, const Call& call) {
  if (activation == Activation::kGelu) return call(Gelu());
  if (activation == Activation::kGeluTanh) return call(GeluTanh());
  call(Silu());
}

void ActivateBy(Activation activation, size_t values, const float* x, float* y, float* slope) {
  With(activation, [&](auto f) { ActivateValues<decltype(f)>(values, x, y, slope); });
}

void GateBy(Activation activation, size_t values, const float* gate, const float* up, float* y) {
  With(activation, [&](auto f) { GateValues<decltype(f)>(values, gate, up, y); });
}

void GateBackwardBy(Activation activation, size_t values, const float* gate, const float* up,
                    const float* dy, float* dgate, float* dup) {
  With(activation,
       [&](auto f) { GateValuesBackward<decltype(f)>(values, gate, up, dy, dgate, dup); });
}

void Products(size_t values, const float* a, const float* b, float* y) {
  ForEach(values, [&](auto d, size_t i) {
    hn::StoreU(hn::Mul(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, y + i);
  });
}

void RotateRows(size_t rows, size_t tokens, size_t heads, size_t head, const float* cos,
                const float* sin, bool back, const float* x, float* y) {
  const size_t half = head / 2;
  for (size_t r = 0; r < rows; ++r) {
    const float* const c = cos + r % tokens * half;
    const float* const s = sin + r % tokens * half;
    for (size_t h = 0; h < heads; ++h, x += head, y += head) {
      ForEach(half, [&](auto d, size_t i) {
        const auto a = hn::LoadU(d, x + i), b = hn::LoadU(d, x + half + i);
        const auto cosine = hn::LoadU(d, c + i);
        auto sine = hn::LoadU(d, s + i);
        if (back) sine = hn::Neg(sine);
        hn::StoreU(hn::Sub(hn::Mul(a, cosine), hn::Mul(b, sine)), d, y + i);
        hn::StoreU(hn::Add(hn::Mul(b, cosine), hn::Mul(a, sine)), d, y + half + i);
      });
    }
  }
}

// ------------------------------------------------------------------------------------------------
// Cross-entropy.

float Largest(size_t values, const float* x) {
  const Floats d;
  auto most = hn::Set(d, -std::numeric_limits<float>::infinity());
  size_t i = 0;
  for (; i + hn::Lanes(d) <= values; i += hn::Lanes(d)) most = hn::Max(most, hn::LoadU(d, x + i));
  float largest = hn::GetLane(hn::MaxOfLanes(d, most));
  for (; i < values; ++i) largest = std::max(largest, x[i]);
  return largest;
}

void EntropyRows(size_t rows, size_t width, const float* logits, const int64_t* targets,
                 int64_t ignored, float* lse, float* losses) {
  for (size_t r = 0; r < rows; ++r, logits += width) {
    losses[r] = 0;
    lse[r] = 0;
    if (targets[r] == ignored) continue;
    const float most = Largest(width, logits);
    const float sum = SumOf(width, [&](auto d, size_t i) {
      return Exp(d, hn::Sub(hn::LoadU(d, logits + i), hn::Set(d, most)));
    });
    lse[r] = most + std::log(sum);
    losses[r] = lse[r] - logits[targets[r]];
  }
}

void EntropyRowsBackward(size_t rows, size_t width, const float* logits, const int64_t* targets,
                         int64_t ignored, const float* lse, float scale, float* gradient) {
  for (size_t r = 0; r < rows; ++r, logits += width, gradient += width) {
    if (targets[r] == ignored) {
      std::fill(gradient, gradient + width, 0.0f);
      continue;
    }
    ForEach(width, [&](auto d, size_t i) {
      const auto p = Exp(d, hn::Sub(hn::LoadU(d, logits + i), hn::Set(d, lse[r])));
      hn::StoreU(hn::Mul(p, hn::Set(d, scale)), d, gradient + i);
    });
    gradient[targets[r]] -= scale;
  }
}

// ------------------------------------------------------------------------------------------------
// Sums, and the optimiser.

void AddEachRow(size_t rows, size_t width, const float* x, float* to) {
  for (size_t r = 0; r < rows; ++r, x += width) {
    ForEach(width, [&](auto d, size_t i) {
      hn::StoreU(hn::Add(hn::LoadU(d, to + i), hn::LoadU(d, x + i)), d, to + i);
    });
  }
}

// Uses no fused operation: the bits are those of the plain loop.
void AdamWValues(const AdamWFactors& c, size_t values, float* HWY_RESTRICT parameters,
                 const float* HWY_RESTRICT gradient, float* HWY_RESTRICT first,
                 float* HWY_RESTRICT second) {
  ForEach(values, [&](auto d, size_t i) {
    const auto times = [d](float factor, auto value) { return hn::Mul(hn::Set(d, factor), value); };
    const auto g = times(c.clip, hn::LoadU(d, gradient + i));
    const auto m = hn::Add(times(c.beta1, hn::LoadU(d, first + i)), times(c.one_minus_beta1, g));
    const auto v =
        hn::Add(times(c.beta2, hn::LoadU(d, second + i)), times(c.one_minus_beta2, hn::Mul(g, g)));
    hn::StoreU(m, d, first + i);
    hn::StoreU(v, d, second + i);
    const auto denominator =
        hn::Add(hn::Div(hn::Sqrt(v), hn::Set(d, c.root_correction)), hn::Set(d, c.epsilon));
    const auto kept = times(c.keep, hn::LoadU(d, parameters + i));
    hn::StoreU(hn::Sub(kept, times(c.step_size, hn::Div(m, denominator))), d, parameters + i);
  });
}

double Squares(const float* values, size_t count) {
  constexpr size_t kSums = 16;
  const hn::CappedTag<double, kSums> d;
  const hn::Rebind<float, decltype(d)> df;
  HWY_ALIGN double sums[kSums] = {};
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + kSums <= count; i += kSums) {
    for (size_t lane = 0; lane < kSums; lane += lanes) {
      const auto value = hn::PromoteTo(d, hn::LoadU(df, values + i + lane));
      hn::Store(hn::Add(hn::Load(d, sums + lane), hn::Mul(value, value)), d, sums + lane);
    }
  }
  double sum = 0;
  for (; i < count; ++i) sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  for (const double lane : sums) sum += lane;
  return sum;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace atolld
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace atolld {

HWY_EXPORT(NormRows);
HWY_EXPORT(NormRowsBackward);
HWY_EXPORT(ActivateBy);
HWY_EXPORT(GateBy);
HWY_EXPORT(GateBackwardBy);
HWY_EXPORT(Products);
HWY_EXPORT(RotateRows);
HWY_EXPORT(EntropyRows);
HWY_EXPORT(EntropyRowsBackward);
HWY_EXPORT(AddEachRow);
HWY_EXPORT(AdamWValues);
HWY_EXPORT(Squares);

void NormForward(const NormRule& rule, size_t rows, const float* x, float* y, float* statistics) {
  HWY_DYNAMIC_DISPATCH(NormRows)(rule, rows, x, y, statistics);
}

void NormBackward(const NormRule& rule, size_t rows, const float* x, const float* statistics,
                  const float* y_gradient, float* x_gradient, float* weight_gradient,
                  float* bias_gradient) {
  HWY_DYNAMIC_DISPATCH(NormRowsBackward)
  (rule, rows, x, statistics, y_gradient, x_gradient, weight_gradient, bias_gradient);
}

void Activate(Activation activation, size_t values, const float* x, float* y, float* slope) {
  HWY_DYNAMIC_DISPATCH(ActivateBy)(activation, values, x, y, slope);
}

void GateForward(Activation activation, size_t values, const float* gate, const float* up,
                 float* y) {
  HWY_DYNAMIC_DISPATCH(GateBy)(activation, values, gate, up, y);
}

void GateBackward(Activation activation, size_t values, const float* gate, const float* up,
                  const float* y_gradient, float* gate_gradient, float* up_gradient) {
  HWY_DYNAMIC_DISPATCH(GateBackwardBy)
  (activation, values, gate, up, y_gradient, gate_gradient, up_gradient);
}

void MultiplyValues(size_t values, const float* a, const float* b, float* y) {
  HWY_DYNAMIC_DISPATCH(Products)(values, a, b, y);
}

void Rotate(size_t rows, size_t tokens, size_t heads, size_t head, const float* cos,
            const float* sin, bool back, const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(RotateRows)(rows, tokens, heads, head, cos, sin, back, x, y);
}

void CrossEntropyForward(size_t rows, size_t width, const float* logits, const int64_t* targets,
                         int64_t ignored, float* lse, float* losses) {
  HWY_DYNAMIC_DISPATCH(EntropyRows)(rows, width, logits, targets, ignored, lse, losses);
}

void CrossEntropyBackward(size_t rows, size_t width, const float* logits, const int64_t* targets,
                          int64_t ignored, const float* lse, float scale, float* gradient) {
  HWY_DYNAMIC_DISPATCH(EntropyRowsBackward)
  (rows, width, logits, targets, ignored, lse, scale, gradient);
}

void AddRows(size_t rows, size_t width, const float* x, float* to) {
  HWY_DYNAMIC_DISPATCH(AddEachRow)(rows, width, x, to);
}

void AdamWPass(const AdamWFactors& factors, size_t values, float* parameters, const float* gradient,
               float* first, float* second) {
  HWY_DYNAMIC_DISPATCH(AdamWValues)(factors, values, parameters, gradient, first, second);
}

double SumOfSquares(const float* values, size_t count) {
  return HWY_DYNAMIC_DISPATCH(Squares)(values, count);
}

}  // namespace atolld
#endif  // HWY_ONCE
