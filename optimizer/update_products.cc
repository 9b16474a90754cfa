#include "optimizer/update_products.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "optimizer/aggregation_kernels.h"

namespace atolld {
namespace {

size_t SumsOf(UpdateProducts::Kind kind, size_t vectors) {
  switch (kind) {
    case UpdateProducts::Kind::kNone:
      return 0;
    case UpdateProducts::Kind::kNorms:
      return vectors;
    case UpdateProducts::Kind::kProducts:
      return vectors * (vectors + 1) / 2;
  }
  return 0;
}

// The factor by which a product may exceed the bound of Cauchy and Schwarz: far above the error of
// honest sums, far below any change that would affect a rule.
constexpr double kSlack = 1.0 + 0x1p-20;

}  // namespace

UpdateProducts::UpdateProducts(Kind kind, size_t vectors)
    : kind_(kind), vectors_(vectors), sums_(SumsOf(kind, vectors), 0.0) {}

absl::Status UpdateProducts::Check() const {
  if (kind_ == Kind::kNone) return absl::OkStatus();
  for (size_t i = 0; i < vectors_; ++i) {
    const double norm = SquaredNorm(i);
    if (std::isfinite(norm) && norm >= 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the squared norm of update ", i, " is ", norm, ", not finite and 0 or more"));
  }
  if (kind_ == Kind::kNorms) return absl::OkStatus();
  for (size_t i = 0; i < vectors_; ++i) {
    for (size_t j = 0; j < i; ++j) {
      // False for a NaN.
      if (std::fabs(Product(i, j)) <= Norm(i) * Norm(j) * kSlack) continue;
      return absl::InvalidArgumentError(absl::StrCat("the product of the updates ", j, " and ", i,
                                                     " is ", Product(i, j), ", with norms ",
                                                     Norm(j), " and ", Norm(i)));
    }
  }
  return absl::OkStatus();
}

absl::Status UpdateProducts::AddChunk(absl::Span<const absl::Span<const float>> rows) {
  if (rows.size() != vectors_ || vectors_ > kMostContributors + 1) {
    return absl::InvalidArgumentError(absl::StrCat("a chunk of ", rows.size(), " updates, not ",
                                                   vectors_, " of at most ",
                                                   kMostContributors + 1));
  }
  size_t elements = 0;
  const float* present[kMostContributors + 1] = {};
  size_t index[kMostContributors + 1];
  size_t count = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].empty()) continue;
    if (count > 0 && rows[i].size() != elements) {
      return absl::InvalidArgumentError(
          absl::StrCat("update ", i, " has ", rows[i].size(), " values in a chunk of ", elements));
    }
    elements = rows[i].size();
    present[count] = rows[i].data();
    index[count++] = i;
  }
  std::vector<double> chunk(SumsOf(kind_, count));
  if (kind_ == Kind::kNorms) {
    SquaredNorms(present, count, elements, chunk.data());
    for (size_t r = 0; r < count; ++r) sums_[index[r]] = sums_[index[r]] + chunk[r];
  } else if (kind_ == Kind::kProducts) {
    PairProducts(present, count, elements, chunk.data());
    for (size_t r = 0; r < count; ++r) {
      for (size_t s = 0; s <= r; ++s) {
        double& sum = sums_[Place(index[r], index[s])];
        sum = sum + chunk[Place(r, s)];
      }
    }
  }
  return absl::OkStatus();
}

absl::Status UpdateProducts::Add(const UpdateProducts& other) {
  if (other.kind_ != kind_ || other.vectors_ != vectors_) {
    return absl::InvalidArgumentError(absl::StrCat("sums of ", other.vectors_,
                                                   " updates are added to those of ", vectors_,
                                                   ", or to sums of another kind"));
  }
  for (size_t i = 0; i < sums_.size(); ++i) sums_[i] = sums_[i] + other.sums_[i];
  return absl::OkStatus();
}

UpdateProducts UpdateProducts::Scaled(absl::Span<const double> factors) const {
  UpdateProducts scaled = *this;
  for (size_t i = 0; i < vectors_; ++i) {
    if (kind_ == Kind::kNorms) scaled.sums_[i] = sums_[i] * (factors[i] * factors[i]);
    if (kind_ != Kind::kProducts) continue;
    for (size_t j = 0; j <= i; ++j) {
      scaled.sums_[Place(i, j)] = sums_[Place(i, j)] * (factors[i] * factors[j]);
    }
  }
  return scaled;
}

double UpdateProducts::SquaredNorm(size_t i) const { return sums_[NormPlace(i)]; }

// A square root is rounded correctly everywhere, by IEEE 754.
double UpdateProducts::Norm(size_t i) const { return std::sqrt(SquaredNorm(i)); }

double UpdateProducts::SquaredDistance(size_t i, size_t j) const {
  const double distance = (SquaredNorm(i) - 2.0 * Product(i, j)) + SquaredNorm(j);
  return distance < 0 ? 0 : distance;
}

}  // namespace atolld
