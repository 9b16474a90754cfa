// UpdateProducts: what a rule must know about whole updates, as scalars that reducers can add up.
// These are the squared norms, or the dot products of all pairs, from which norms and distances can
// be computed.
//
// A reducer has only its shard of each update. The sums of all reducers are therefore added in a
// fixed order, which gives the same bits on every CPU:
//   chunk  = the blocks of aggregation_kernels.h, in double, of exact products
//   shard  = +0, then for each chunk of the shard in grid order: shard = shard + chunk
//   update = +0, then for each shard in the order of the plan:   update = update + shard
// Their error is at most (128 + blocks a chunk + chunks) x 2^-53 of the product of the two norms:
// below 2^-38 for 10^9 parameters in chunks of 65,536. An object is used by one thread.
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

  // Starts with all sums zero. `vectors` is at most kMostContributors + 1: the updates in roster
  // order, then the centre if the rule has one.
  UpdateProducts() = default;
  UpdateProducts(Kind kind, size_t vectors);

  // Adds one chunk. `rows` has one span for each vector, and all spans have the same length; an
  // empty span means zeros (for example the centre before the first round). Fails with
  // INVALID_ARGUMENT, and adds nothing, if the shapes differ.
  absl::Status AddChunk(absl::Span<const absl::Span<const float>> rows);

  // Adds each sum of `other` to the same sum of this object. Fails with INVALID_ARGUMENT unless
  // both have the same kind and size.
  absl::Status Add(const UpdateProducts& other);

  // Returns the products of the scaled vectors, if vector i is multiplied by factors[i].
  UpdateProducts Scaled(absl::Span<const double> factors) const;

  // Fails with INVALID_ARGUMENT if no vectors can have these sums: a norm is negative or not
  // finite, or a product is greater than its two norms allow. The message names the first bad
  // value.
  absl::Status Check() const;

  Kind kind() const { return kind_; }
  size_t vectors() const { return vectors_; }
  absl::Span<const double> sums() const { return sums_; }

  double SquaredNorm(size_t i) const;
  double Norm(size_t i) const;
  // The next two functions require kProducts. A squared distance is computed as (ii - 2 ij) + jj,
  // or is 0 if rounding made that negative.
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
