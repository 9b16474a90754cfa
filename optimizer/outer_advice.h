// Advice on the outer step: finds settings that are known to cost loss, and says how much they cost
// and what to set instead.
//
// Two things are known: the table of outer rates (outer_rates.h), and the measured costs of a few
// settings, each with its source. The rates of a run are compared with the table. A run that has
// its default settings gets no advice. Pure. May be called from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "optimizer/outer_rates.h"

namespace atolld {

// An overlap of at most this many steps costs no loss (arXiv:2501.18512, section 3.3.2).
inline constexpr uint32_t kFreeOverlapSteps = 5;

// The settings of a run that the advice depends on.
struct OuterSetting {
  std::string rule;  // the rule of the outer step; if empty, the outer step gets no advice
  double learning_rate = 0;
  double momentum = 0;
  // If the number of peers or of steps is 0, it is unknown, and the rates are not compared with the
  // table.
  OuterRatesQuery rates;
  std::string mode = "sync";   // "sync", "streaming", "eager", "delayed" or "async"
  bool gap_penalty = false;    // only with "delayed"
  uint32_t fragments = 1;      // only with "streaming"
  uint32_t overlap_steps = 0;  // only with "streaming"
};

struct OuterAdvice {
  // A key of the config, such as "[outer] learning_rate", and the value to give it.
  struct Change {
    std::string key;
    std::string value;
  };

  std::string what;             // what the setting costs, with the figure and its source
  std::vector<Change> changes;  // at least one; all of them belong together
};

// Returns one piece of advice for each setting that is known to cost loss:
//
// - The rates of rule "nesterov" are far from those of the nearest row of the table. If the mean
//   update stays the same, the parameters move by learning_rate / (1 - momentum) times it in the
//   end. This gain is far if it is more than twice the row's gain. It is also far if it is less
//   than half of the row's gain and below 1, so that the run learns less than by plain averaging.
// - In modes "eager" and "delayed", the learning rate of rule "nesterov" is above RateInMode of the
//   nearest row.
// - Rule "nesterov" is used in mode "async", where runs of several peers diverge.
// - In mode "streaming", the overlap is most of the steps between two exchanges of a fragment.
std::vector<OuterAdvice> AdviseOuterStep(const OuterSetting& setting);

// Returns the advice as one line: "...; set [outer] learning_rate = 0.4 and [outer] momentum =
// 0.9".
std::string DescribeOuterAdvice(const OuterAdvice& advice);

}  // namespace atolld
