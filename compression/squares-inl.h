// A block's part of Codec::SquaredNorm for kernels; included once a target.
#include <cstdint>

#if defined(ATOLL_COMPRESSION_SQUARES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATOLL_COMPRESSION_SQUARES_INL_H_
#undef ATOLL_COMPRESSION_SQUARES_INL_H_
#else
#define ATOLL_COMPRESSION_SQUARES_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace atolld {
namespace HWY_NAMESPACE {

// `squares`: the sum of the squares of the block's codes. Of what is computed here the last product
// alone is rounded.
HWY_INLINE double ScaledSquares(int32_t squares, float scale) {
  const double exact = static_cast<double>(scale);
  return (exact * exact) * static_cast<double>(squares);
}

}  // namespace HWY_NAMESPACE
}  // namespace atolld
HWY_AFTER_NAMESPACE();

#endif  // ATOLL_COMPRESSION_SQUARES_INL_H_
