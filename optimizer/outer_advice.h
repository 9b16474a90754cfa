// Advice on the outer step: finds settings that are known to cost loss, and says how much they cost
// and what to set instead.
//
// Two things are known: the table of outer rates (outer_rates.h), with which the rates of a run are
// compared, and a few measured costs, each with its source. A run that has its default settings
// gets no advice. Pure. May be called from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "optimizer/outer_rates.h"

namespace atolld {

// The settings of a run that the advice depends on.
struct OuterSetting {
  std::string rule;  // of the outer step; empty for a run that gets no advice on it
  double learning_rate = 0;
  double momentum = 0;
  // Peers or steps of 0 are unknown; the rates are then not compared with the table.
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
// - The rates of rule "nesterov" are far from those of the nearest row of the table. A mean update
//   that stays the same moves the parameters by learning_rate / (1 - momentum) in the end. That
//   gain is far if it is more than twice the row's; or less than half of it and below 1, so that a
//   run learns less than by plain averaging.
// - In modes "eager" and "delayed", the learning rate of rule "nesterov" is above the share of the
//   row's that they bear (RateInMode).
// - Rule "nesterov" is used in mode "async", where runs of several peers diverge.
// - In mode "streaming", the overlap is most of the steps between two exchanges of a fragment.
std::vector<OuterAdvice> AdviseOuterStep(const OuterSetting& setting);

// Returns the advice as one line: "...; set [outer] learning_rate = 0.4 and [outer] momentum =
// 0.9".
std::string DescribeOuterAdvice(const OuterAdvice& advice);

}  // namespace atolld
