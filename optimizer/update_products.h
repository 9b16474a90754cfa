// UpdateProducts: what a rule has to know of whole updates, as scalars that reducers can add up:
// the squared norms, or all pairs' dot products (of which norms and distances follow).
//
// A reducer holds a shard of each update, chunk by chunk; no one holds two whole ones. So the sums
// of a run are put together in a stated order, with the same bits on every CPU:
//   chunk  = the blocks of aggregation_kernels.h, in double, of exact products
//   shard  = +0, then for each chunk of the shard in grid order: shard = shard + chunk
//   update = +0, then for each shard in the order of the plan:   update = update + shard
// Their error is at most (128 + blocks a chunk + chunks) x 2^-53 of the product of the two norms:
// below 2^-38 for 10^9 parameters in chunks of 65,536. Any thread; one object is one thread's.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace atolld {

class UpdateProducts {
 public:
  enum class Kind { kNone, kNorms, kProducts };

  // All zero. At most kMostContributors + 1 vectors: the updates in roster order, then the centre
  // of a rule that has one.
  UpdateProducts() = default;
  UpdateProducts(Kind kind, size_t vectors);

  // From sums() that came over the wire: vectors doubles of kNorms, vectors (vectors + 1) / 2 of
  // kProducts. INVALID_ARGUMENT unless they can be sums of real vectors: as many as stated, finite,
  // norms not negative, no product greater than its two norms allow; the first culprit is named.
  static absl::StatusOr<UpdateProducts> FromSums(Kind kind, size_t vectors,
                                                 absl::Span<const double> sums);

  // Adds one chunk's: a span a vector, all equally long; an empty one stands for zeros (a centre
  // before there is one). INVALID_ARGUMENT, with nothing added, if the shapes differ.
  absl::Status AddChunk(absl::Span<const absl::Span<const float>> rows);

  // sum = sum + other's, each. INVALID_ARGUMENT unless both are of one kind and size.
  absl::Status Add(const UpdateProducts& other);

  // Those of the vectors multiplied by `factors`, one each.
  UpdateProducts Scaled(absl::Span<const double> factors) const;

  // As FromSums asks of sums.
  absl::Status Check() const;

  Kind kind() const { return kind_; }
  size_t vectors() const { return vectors_; }
  absl::Span<const double> sums() const { return sums_; }

  double SquaredNorm(size_t i) const;
  double Norm(size_t i) const;
  // kProducts alone. A squared distance is taken as (ii - 2 ij) + jj, and 0 where rounding has made
  // that negative.
  double Product(size_t i, size_t j) const { return sums_[Place(i, j)]; }
  double SquaredDistance(size_t i, size_t j) const;

 private:
  static size_t Place(size_t i, size_t j) { return i < j ? Place(j, i) : i * (i + 1) / 2 + j; }
  size_t NormPlace(size_t i) const { return kind_ == Kind::kNorms ? i : Place(i, i); }

  Kind kind_ = Kind::kNone;
  size_t vectors_ = 0;
  std::vector<double> sums_;
};

}  // namespace atolld
