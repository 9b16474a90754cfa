// History, the lengths of updates: what their contributors tell of them, and the scales that
// follow.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "tests/sim/history.h"
#include "tests/sim/oracle.h"

namespace atolld {
namespace {

// Scales are rounded to fp32 once.
constexpr double kRounding = 1e-6;

double DoubleOf(uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

}  // namespace

void History::CheckLengths(const std::string& peer, const v1::Ready& ready,
                           const Oracle::Chunks& chunks) {
  if (DoubleOf(ready.squared_norm_bits()) != oracle_->SquaredNorm(chunks)) {
    violate_(3, absl::StrCat(peer, " tells another norm of its update to version ", ready.version(),
                             " than the oracle's"));
  }
  // Nobody who lacks the last mean tells a distance.
  if (ready.squared_distance_bits() == 0 || ready.version() != oracle_->version() + 1) return;
  if (DoubleOf(ready.squared_distance_bits()) != oracle_->SquaredDistance(chunks)) {
    violate_(3, absl::StrCat(peer, " tells another distance of its update to version ",
                             ready.version(), " than the oracle's"));
  }
}

// All that are scaled come to one length, and nobody else is longer.
void History::CheckScales(const v1::EntryHeader& header, const std::vector<Contribution*>& made) {
  double limit = 0;
  double longest = 0;
  for (size_t i = 0; i < made.size(); ++i) {
    const uint32_t bits = header.contributors(static_cast<int>(i)).scale_bits();
    const v1::Ready& ready = made[i]->ready;
    const double length = std::sqrt(DoubleOf(
        header.clipping_steps() == 1 ? ready.squared_distance_bits() : ready.squared_norm_bits()));
    if (bits == 0) {
      longest = std::max(longest, length);
      continue;
    }
    const double scaled = length * static_cast<double>(FloatOf(bits));
    if (limit != 0 && std::fabs(scaled - limit) > kRounding * limit) {
      violate_(3, absl::StrCat("header ", header.version(), ": updates are scaled down to ", limit,
                               " and to ", scaled));
    }
    limit = scaled;
  }
  const bool clips = FloatOf(spec_.exchange().clip_bits()) > 0;
  if (limit != 0 && (!clips || longest > limit * (1 + kRounding))) {
    violate_(3, absl::StrCat("header ", header.version(), ": updates are scaled down to ", limit,
                             ", and one of ", longest, " is not"));
  }
}

bool History::Finite() const {
  return oracle_ == nullptr || std::all_of(oracle_->theta().begin(), oracle_->theta().end(),
                                           [](float value) { return std::isfinite(value); });
}

}  // namespace atolld
