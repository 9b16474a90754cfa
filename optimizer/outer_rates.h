// The outer learning rate and momentum that a run uses if its config has none: a table of published
// and measured rates, and the rule that picks a row of it for a run.
//
// A row has the rates that its source found to be good for a number of peers, a number of inner
// steps a round, and a kind of inner optimiser. A run uses the nearest of the rows that fit its
// optimiser, its mode and its model's size, which is the one with the smallest |log2(peers / row's
// peers)| + |log2(steps / row's steps)|. If two rows are equally near, the one with fewer peers is
// used. A run with more peers or steps than all rows uses the last of them. Nothing is
// interpolated, so every rate that a run uses has been tried. Pure. May be called from any thread.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace atolld {

// One row of the table, for the rule "nesterov".
struct OuterRates {
  enum class Inner { kAdamW, kMuon };
  // Models of at least 335M parameters are large; kAny covers both sizes.
  enum class Size { kAny, kSmall, kLarge };

  double peers;  // the peers that train in a round
  double steps;  // the inner steps of a round
  Inner inner;
  bool streaming;  // true for mode "streaming", whose rounds cover one fragment each
  Size size;
  double learning_rate;
  double momentum;
  absl::string_view source;
};

// A model with at least this many parameters is large. It is the smallest size for which Charles et
// al. (arXiv:2503.09799, figure 7) find that the best rate no longer depends on the size.
inline constexpr double kLargeModel = 335e6;

absl::Span<const OuterRates> OuterRatesTable();

// The properties of a run by which its row is found.
struct OuterRatesQuery {
  double peers = 1;   // a value below 1 counts as 1
  double steps = 1;   // a value below 1 counts as 1
  bool muon = false;  // if false, the rows of AdamW are used, also for plain SGD
  bool streaming = false;
  double parameters = 0;  // 0 if unknown, which counts as a small model
};

const OuterRates& NearestOuterRates(const OuterRatesQuery& query);

// Returns the learning rate of a run that uses this row in this mode. This is the row's rate,
// except in the modes "eager" and "delayed", which need a lower rate because the state has moved
// between the start of an update and its use. arXiv:2502.12996 uses 0.4 where other modes use 0.7;
// docs/experiments.md (modes.toml) says how much loss a higher rate costs.
double RateInMode(absl::string_view mode, const OuterRates& row);

// Returns the learning rate, the momentum and their source, for example "0.7 / 0.9 (3 peers, 25
// steps, adamw; docs/benchmarks.md)".
std::string DescribeOuterRates(const OuterRates& rates);

}  // namespace atolld
