// The outer rates that a run begins with where nobody says any: a table of published and measured
// ones, and which of them is a run's.
//
// A row is what its source found good for so many peers, so many inner steps a round, and one kind
// of inner optimiser. A run's row is the nearest of those that fit its optimiser, its mode and its
// model's size: the one with the smallest |log2(peers / row's)| + |log2(steps / row's)|, of two
// that are equally near the one with fewer peers. Beyond the table's ends that is its last row;
// nothing is interpolated, so that every rate that is used is one that somebody has tried. Pure,
// any thread.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace atolld {

// Of nesterov's rule.
struct OuterRates {
  enum class Inner { kAdamW, kMuon };
  // Models from 335M parameters on, smaller ones, or both.
  enum class Size { kAny, kSmall, kLarge };

  double peers;  // that train in a round
  double steps;  // inner ones of a round
  Inner inner;
  bool streaming;  // of mode "streaming", whose rounds cover a fragment each
  Size size;
  double learning_rate;
  double momentum;
  absl::string_view source;
};

// From here on a model is a large one: the smallest for which Charles et al. (arXiv:2503.09799,
// figure 7) find that the best rate does not depend on the size any more.
inline constexpr double kLargeModel = 335e6;

// All rows.
absl::Span<const OuterRates> OuterRatesTable();

// What a run is, as far as the table asks.
struct OuterRatesQuery {
  double peers = 1;   // below 1 counts as 1
  double steps = 1;   // likewise
  bool muon = false;  // else the rows of AdamW, which are plain SGD's too
  bool streaming = false;
  double parameters = 0;  // 0: not known, which counts as a small model
};

const OuterRates& NearestOuterRates(const OuterRatesQuery& query);

// "0.7 / 0.9 (3 peers, 25 steps, adamw; docs/benchmarks.md)": learning rate / momentum, and where
// they are from.
std::string DescribeOuterRates(const OuterRates& rates);

}  // namespace atolld
