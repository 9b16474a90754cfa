// Functions of a vector of fp32 values, accurate to a few units in the last place. They are
// compiled once for each instruction set.

#if defined(ATOLL_WORKER_KERNELS_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATOLL_WORKER_KERNELS_VECTOR_MATH_INL_H_
#undef ATOLL_WORKER_KERNELS_VECTOR_MATH_INL_H_
#else
#define ATOLL_WORKER_KERNELS_VECTOR_MATH_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace atolld {
namespace HWY_NAMESPACE {
namespace {

// Returns x, but low if x is below it and high if x is above it; NaN for NaN.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V Clamp(D d, V x, float low, float high) {
  namespace hn = hwy::HWY_NAMESPACE;
  const auto clamped = hn::Min(hn::Set(d, high), hn::Max(hn::Set(d, low), x));
#if HWY_ARCH_X86
  return clamped;  // Min and Max return the second operand if one of the two is NaN.
#else
  return hn::IfThenElse(hn::IsNaN(x), x, clamped);  // On ARM they return the one that is a number.
#endif
}

// Returns e^x. The result is 0 below -88, e^88 above 88, and NaN for NaN. Uses the polynomial of
// Cephes, scaled by a shift of the exponent.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V Exp(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToSigned<D> di;
  x = Clamp(d, x, -88.0f, 88.0f);
  const auto n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504f)));
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  auto p = hn::MulAdd(hn::Set(d, 1.9875691500e-4f), r, hn::Set(d, 1.3981999507e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 8.3334519073e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.1665795894e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.6666665459e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 5.0000001201e-1f));
  p = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), hn::Set(d, 1.0f));
  const auto exponent = hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127));
  return hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(exponent)));
}

// Returns 1 / (1 + e^-x).
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V Sigmoid(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const auto one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, Exp(d, hn::Neg(x))));
}

// Returns the error function of x, by the rational minimax approximation that Eigen and XLA use.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V Erf(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  x = Clamp(d, x, -4.0f, 4.0f);
  const auto square = hn::Mul(x, x);
  auto p =
      hn::MulAdd(hn::Set(d, -2.72614225801306e-10f), square, hn::Set(d, 2.77068142495902e-08f));
  p = hn::MulAdd(p, square, hn::Set(d, -2.10102402082508e-06f));
  p = hn::MulAdd(p, square, hn::Set(d, -5.69250639462346e-05f));
  p = hn::MulAdd(p, square, hn::Set(d, -7.34990630326855e-04f));
  p = hn::MulAdd(p, square, hn::Set(d, -2.95459980854025e-03f));
  p = hn::MulAdd(p, square, hn::Set(d, -1.60960333262415e-02f));
  auto q =
      hn::MulAdd(hn::Set(d, -1.45660718464996e-05f), square, hn::Set(d, -2.13374055278905e-04f));
  q = hn::MulAdd(q, square, hn::Set(d, -1.68282697438203e-03f));
  q = hn::MulAdd(q, square, hn::Set(d, -7.37332916720468e-03f));
  q = hn::MulAdd(q, square, hn::Set(d, -1.42647390514189e-02f));
  return hn::Div(hn::Mul(x, p), q);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace atolld
HWY_AFTER_NAMESPACE();

#endif  // ATOLL_WORKER_KERNELS_VECTOR_MATH_INL_H_
