#include "optimizer/aggregation_kernels.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimizer/aggregation_kernels.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace atolld {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Ints = hn::ScalableTag<int32_t>;
// The elements that remain after the whole vectors go through the same operations, one lane at a
// time.
using OneFloat = hn::CappedTag<float, 1>;

// The columns that go through a network together: 64 rows of them fill the smallest L1 caches.
constexpr size_t kColumns = 128;
constexpr size_t kMostRows = kMostContributors + 1;  // and a centre
// 8 rows of a block fill the smallest L1 caches, and each lane has 128 additions in it.
constexpr size_t kBlock = 1024;
constexpr size_t kLanes = 8;
constexpr size_t kGroup = 8;

// Adds rows to the sum so far, which is in `out` unless these are the first. Finishes the sum after
// the last rows.
struct Group {
  const ScaledRow* rows;
  size_t count;
  bool first;
  bool last;
};

template <class D>
HWY_INLINE void SumLanes(D d, const Group& group, float finish, size_t i, float* out) {
  auto sum = group.first ? hn::Zero(d) : hn::LoadU(d, out + i);
  for (size_t r = 0; r < group.count; ++r) {
    const auto values = hn::LoadU(d, group.rows[r].values + i);
    sum = hn::Add(sum, hn::Mul(hn::Set(d, group.rows[r].factor), values));
  }
  if (group.last) sum = hn::Mul(sum, hn::Set(d, finish));
  hn::StoreU(sum, d, out + i);
}

// Sums rows in groups, block by block, because a CPU can prefetch only a few rows at a time.
void SumRows(const ScaledRow* rows, size_t count, float finish, size_t elements, float* out) {
  const Floats d;
  for (size_t begin = 0; begin < elements; begin += kBlock) {
    const size_t end = std::min(elements, begin + kBlock);
    size_t r = 0;
    do {
      const size_t taken = std::min(kGroup, count - r);
      const Group group = {rows + r, taken, r == 0, r + taken == count};
      size_t i = begin;
      for (; i + hn::Lanes(d) <= end; i += hn::Lanes(d)) SumLanes(d, group, finish, i, out);
      for (; i < end; ++i) SumLanes(OneFloat(), group, finish, i, out);
      r += taken;
    } while (r < count);
  }
}

// Converts a float's bits to an integer of the same order, -0 before +0, and back. Minima and
// maxima of floats treat zeros differently by target; those of integers do not.
template <class D, class V>
HWY_INLINE V Ordered(D d, V bits) {
  return hn::Xor(bits, hn::And(hn::ShiftRight<31>(bits), hn::Set(d, 0x7fffffff)));
}

template <class D>
HWY_INLINE void LoadKey(D d, const float* values, float factor, int32_t* keys) {
  const hn::RebindToSigned<D> di;
  const auto scaled = hn::Mul(hn::Set(d, factor), hn::LoadU(d, values));
  hn::StoreU(Ordered(di, hn::BitCast(di, scaled)), di, keys);
}

template <class D>
HWY_INLINE hn::Vec<D> LoadRank(D d, const int32_t* keys) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, Ordered(di, hn::LoadU(di, keys)));
}

template <class D>
HWY_INLINE void StoreMean(D d, const int32_t* keys, size_t first, size_t end, float share,
                          float* out) {
  auto sum = LoadRank(d, keys + first * kColumns);
  for (size_t r = first + 1; r < end; ++r) sum = hn::Add(sum, LoadRank(d, keys + r * kColumns));
  hn::StoreU(hn::Mul(sum, hn::Set(d, share)), d, out);
}

HWY_INLINE void Compare(const Comparator& comparator, size_t columns, int32_t* keys) {
  const Ints d;
  int32_t* const low = keys + comparator.low * kColumns;
  int32_t* const high = keys + comparator.high * kColumns;
  for (size_t i = 0; i < columns; i += hn::Lanes(d)) {
    const auto a = hn::LoadU(d, low + i);
    const auto b = hn::LoadU(d, high + i);
    if (comparator.needs_low) hn::StoreU(hn::Min(a, b), d, low + i);
    if (comparator.needs_high) hn::StoreU(hn::Max(a, b), d, high + i);
  }
}

void AverageRanks(const ScaledRow* rows, size_t count, const std::vector<Comparator>& network,
                  size_t first, size_t end, size_t elements, float* out) {
  const Floats d;
  const OneFloat one;
  const size_t lanes = hn::Lanes(d);
  const float share = 1.0f / static_cast<float>(end - first);
  HWY_ALIGN int32_t keys[kMostContributors * kColumns];
  for (size_t begin = 0; begin < elements; begin += kColumns) {
    const size_t columns = std::min(kColumns, elements - begin);
    const size_t whole = columns - columns % lanes;
    // The padding of the last vector is compared as well, and never read.
    const size_t padded = whole == columns ? whole : whole + lanes;
    for (size_t r = 0; r < count; ++r) {
      const float* const values = rows[r].values + begin;
      int32_t* const row = keys + r * kColumns;
      for (size_t i = 0; i < whole; i += lanes) LoadKey(d, values + i, rows[r].factor, row + i);
      for (size_t i = whole; i < columns; ++i) LoadKey(one, values + i, rows[r].factor, row + i);
      std::fill(row + columns, row + padded, 0);
    }
    for (const Comparator& comparator : network) Compare(comparator, padded, keys);
    for (size_t i = 0; i < whole; i += lanes)
      StoreMean(d, keys + i, first, end, share, out + begin + i);
    for (size_t i = whole; i < columns; ++i)
      StoreMean(one, keys + i, first, end, share, out + begin + i);
  }
}

template <class D>
HWY_INLINE void AverageSentLanes(D d, const SentRow* rows, size_t count, size_t i, float* out) {
  auto sum = hn::Zero(d);
  auto total = hn::Zero(d);
  for (size_t r = 0; r < count; ++r) {
    const auto values = hn::LoadU(d, rows[r].values + i);
    const auto sent = hn::Ne(values, hn::Zero(d));
    const auto product = hn::Mul(hn::Set(d, rows[r].factor), values);
    sum = hn::Add(sum, hn::IfThenElseZero(sent, product));
    total = hn::Add(total, hn::IfThenElseZero(sent, hn::Set(d, rows[r].weight)));
  }
  const auto nobody = hn::Eq(total, hn::Zero(d));
  const auto divisor = hn::IfThenElse(nobody, hn::Set(d, 1.0f), total);
  hn::StoreU(hn::IfThenZeroElse(nobody, hn::Div(sum, divisor)), d, out + i);
}

void AverageSent(const SentRow* rows, size_t count, size_t elements, float* out) {
  const Floats d;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= elements; i += hn::Lanes(d)) AverageSentLanes(d, rows, count, i, out);
  for (; i < elements; ++i) AverageSentLanes(OneFloat(), rows, count, i, out);
}

double Folded(const double* l) {
  return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]));
}

// Returns values as doubles, or their differences from y's.
template <bool kFromY, class D>
HWY_INLINE hn::Vec<D> Widened(D d, const float* x, const float* y) {
  const hn::Rebind<float, D> df;
  const auto value = hn::PromoteTo(d, hn::LoadU(df, x));
  if constexpr (!kFromY) return value;
  return hn::Sub(value, hn::PromoteTo(d, hn::LoadU(df, y)));
}

// Returns one block's sum of squares, in passes over as many lanes as a vector has; the lanes' sums
// do not depend on that number. `elements` is a multiple of kLanes.
template <bool kFromY>
double BlockSquares(const float* x, const float* y, size_t elements) {
  const hn::CappedTag<double, kLanes> d;
  double lanes[kLanes];
  for (size_t lane = 0; lane < kLanes; lane += hn::Lanes(d)) {
    auto sum = hn::Zero(d);
    for (size_t i = lane; i < elements; i += kLanes) {
      const auto value = Widened<kFromY>(d, x + i, y + i);
      sum = hn::Add(sum, hn::Mul(value, value));
    }
    hn::StoreU(sum, d, lanes + lane);
  }
  return Folded(lanes);
}

// Does the same as BlockSquares for four consecutive whole blocks, so that their additions overlap.
template <bool kFromY>
void FourBlockSquares(const float* x, const float* y, double* sums) {
  const hn::CappedTag<double, kLanes> d;
  double lanes[4][kLanes];
  for (size_t lane = 0; lane < kLanes; lane += hn::Lanes(d)) {
    auto sum0 = hn::Zero(d), sum1 = hn::Zero(d), sum2 = hn::Zero(d), sum3 = hn::Zero(d);
    for (size_t i = lane; i < kBlock; i += kLanes) {
      const auto value0 = Widened<kFromY>(d, x + i, y + i);
      const auto value1 = Widened<kFromY>(d, x + i + kBlock, y + i + kBlock);
      const auto value2 = Widened<kFromY>(d, x + i + 2 * kBlock, y + i + 2 * kBlock);
      const auto value3 = Widened<kFromY>(d, x + i + 3 * kBlock, y + i + 3 * kBlock);
      sum0 = hn::Add(sum0, hn::Mul(value0, value0));
      sum1 = hn::Add(sum1, hn::Mul(value1, value1));
      sum2 = hn::Add(sum2, hn::Mul(value2, value2));
      sum3 = hn::Add(sum3, hn::Mul(value3, value3));
    }
    hn::StoreU(sum0, d, lanes[0] + lane);
    hn::StoreU(sum1, d, lanes[1] + lane);
    hn::StoreU(sum2, d, lanes[2] + lane);
    hn::StoreU(sum3, d, lanes[3] + lane);
  }
  for (size_t j = 0; j < 4; ++j) sums[j] = Folded(lanes[j]);
}

// Without kFromY, y is x, so that its addresses are valid.
template <bool kFromY>
double Squares(const float* x, const float* y, size_t elements) {
  double sum = 0;
  size_t begin = 0;
  for (; begin + 4 * kBlock <= elements; begin += 4 * kBlock) {
    double blocks[4];
    FourBlockSquares<kFromY>(x + begin, y + begin, blocks);
    for (const double block : blocks) sum = sum + block;
  }
  for (; begin < elements; begin += kBlock) {
    const size_t length = std::min(kBlock, elements - begin);
    if (length % kLanes == 0) {
      sum = sum + BlockSquares<kFromY>(x + begin, y + begin, length);
      continue;
    }
    // The rest is filled with zeros, which change no sum.
    float rows[2][kBlock] = {};
    std::memcpy(rows[0], x + begin, length * sizeof(float));
    std::memcpy(rows[1], y + begin, length * sizeof(float));
    sum = sum + BlockSquares<kFromY>(rows[0], rows[1], (length + kLanes - 1) / kLanes * kLanes);
  }
  return sum;
}

double NormOf(const float* x, size_t elements) { return Squares<false>(x, x, elements); }

double DistanceOf(const float* x, const float* y, size_t elements) {
  return Squares<true>(x, y, elements);
}

// Computes one block's products of x with each of four rows: x is widened once, and additions
// overlap.
void FourProducts(const float* x, const float* const* y, size_t elements, double* sums) {
  const hn::CappedTag<double, kLanes> d;
  const hn::Rebind<float, decltype(d)> df;
  double lanes[4][kLanes];
  for (size_t lane = 0; lane < kLanes; lane += hn::Lanes(d)) {
    auto sum0 = hn::Zero(d), sum1 = hn::Zero(d), sum2 = hn::Zero(d), sum3 = hn::Zero(d);
    for (size_t i = lane; i < elements; i += kLanes) {
      const auto left = hn::PromoteTo(d, hn::LoadU(df, x + i));
      sum0 = hn::Add(sum0, hn::Mul(left, hn::PromoteTo(d, hn::LoadU(df, y[0] + i))));
      sum1 = hn::Add(sum1, hn::Mul(left, hn::PromoteTo(d, hn::LoadU(df, y[1] + i))));
      sum2 = hn::Add(sum2, hn::Mul(left, hn::PromoteTo(d, hn::LoadU(df, y[2] + i))));
      sum3 = hn::Add(sum3, hn::Mul(left, hn::PromoteTo(d, hn::LoadU(df, y[3] + i))));
    }
    hn::StoreU(sum0, d, lanes[0] + lane);
    hn::StoreU(sum1, d, lanes[1] + lane);
    hn::StoreU(sum2, d, lanes[2] + lane);
    hn::StoreU(sum3, d, lanes[3] + lane);
  }
  for (size_t j = 0; j < 4; ++j) sums[j] = Folded(lanes[j]);
}

// The rows of one block, each a multiple of kLanes long: the last block is copied and filled up
// with zeros, which change no sum.
class BlockRows {
 public:
  BlockRows(const float* const* rows, size_t count, size_t begin, size_t elements)
      : elements_((elements + kLanes - 1) / kLanes * kLanes) {
    if (elements_ != elements) copy_.assign(count * elements_, 0.0f);
    for (size_t r = 0; r < count; ++r) {
      at_[r] = rows[r] + begin;
      if (copy_.empty()) continue;
      float* const copied = copy_.data() + r * elements_;
      std::memcpy(copied, at_[r], elements * sizeof(float));
      at_[r] = copied;
    }
  }

  const float* at(size_t r) const { return at_[r]; }
  size_t elements() const { return elements_; }

 private:
  const size_t elements_;
  const float* at_[kMostRows];
  std::vector<float> copy_;
};

void Products(const float* const* rows, size_t count, size_t elements, double* sums) {
  std::fill(sums, sums + count * (count + 1) / 2, 0.0);
  for (size_t begin = 0; begin < elements; begin += kBlock) {
    const BlockRows block(rows, count, begin, std::min(kBlock, elements - begin));
    double* out = sums;
    for (size_t r = 0; r < count; ++r) {
      for (size_t s = 0; s <= r; s += 4) {
        // The results for the rows that fill up the last four are not used.
        const float* others[4];
        for (size_t j = 0; j < 4; ++j) others[j] = block.at(std::min(s + j, r));
        double products[4];
        FourProducts(block.at(r), others, block.elements(), products);
        const size_t used = std::min<size_t>(4, r + 1 - s);
        for (size_t j = 0; j < used; ++j) out[j] = out[j] + products[j];
        out += used;
      }
    }
  }
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

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace atolld
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace atolld {

HWY_EXPORT(Scale);
HWY_EXPORT(SumRows);
HWY_EXPORT(AverageRanks);
HWY_EXPORT(AverageSent);
HWY_EXPORT(NormOf);
HWY_EXPORT(DistanceOf);
HWY_EXPORT(Products);

namespace {

std::vector<Comparator> MergeExchange(size_t rows) {
  std::vector<Comparator> comparators;
  size_t top = 1;
  while (2 * top < rows) top *= 2;
  if (rows < 2) return comparators;
  for (size_t p = top; p > 0; p /= 2) {
    size_t distance = p;
    size_t rest = 0;
    for (size_t q = top;; q /= 2) {
      for (size_t i = 0; i + distance < rows; ++i) {
        if ((i & p) != rest) continue;
        comparators.push_back(
            {static_cast<uint8_t>(i), static_cast<uint8_t>(i + distance), true, true});
      }
      if (q == p) break;
      distance = q - p;
      rest = p;
    }
  }
  return comparators;
}

}  // namespace

std::vector<Comparator> SelectionNetwork(size_t rows, size_t first_rank, size_t end_rank) {
  const std::vector<Comparator> whole = MergeExchange(rows);
  std::vector<bool> needed(rows, false);
  for (size_t r = first_rank; r < std::min(end_rank, rows); ++r) needed[r] = true;
  std::vector<Comparator> kept;
  for (auto it = whole.rbegin(); it != whole.rend(); ++it) {
    Comparator comparator = *it;
    comparator.needs_low = needed[comparator.low];
    comparator.needs_high = needed[comparator.high];
    if (!comparator.needs_low && !comparator.needs_high) continue;
    needed[comparator.low] = needed[comparator.high] = true;
    kept.push_back(comparator);
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

void ScaleValues(float factor, size_t elements, float* values) {
  HWY_DYNAMIC_DISPATCH(Scale)(factor, elements, values);
}

void WeightedSum(const ScaledRow* rows, size_t count, float finish, size_t elements, float* out) {
  HWY_DYNAMIC_DISPATCH(SumRows)(rows, count, finish, elements, out);
}

void MeanOfRanks(const ScaledRow* rows, size_t count, const std::vector<Comparator>& network,
                 size_t first, size_t end, size_t elements, float* out) {
  HWY_DYNAMIC_DISPATCH(AverageRanks)(rows, count, network, first, end, elements, out);
}

void MeanOfSent(const SentRow* rows, size_t count, size_t elements, float* out) {
  HWY_DYNAMIC_DISPATCH(AverageSent)(rows, count, elements, out);
}

double SquaredNorm(const float* values, size_t elements) {
  return HWY_DYNAMIC_DISPATCH(NormOf)(values, elements);
}

double SquaredDistance(const float* values, const float* from, size_t elements) {
  return HWY_DYNAMIC_DISPATCH(DistanceOf)(values, from, elements);
}

void SquaredNorms(const float* const* rows, size_t count, size_t elements, double* sums) {
  for (size_t r = 0; r < count; ++r) sums[r] = SquaredNorm(rows[r], elements);
}

void PairProducts(const float* const* rows, size_t count, size_t elements, double* sums) {
  HWY_DYNAMIC_DISPATCH(Products)(rows, count, elements, sums);
}

}  // namespace atolld
#endif  // HWY_ONCE
