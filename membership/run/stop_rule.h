// StopRule: when a run has come far enough to end before its last round.
//
// Pure, any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "atoll/v1/admin.pb.h"

namespace atolld {

// The first condition that holds counts; 0 stands for never.
struct StopRule {
  double loss_below = 0;        // of the validation text
  uint32_t no_improvement = 0;  // evaluations in a row without a lower loss than before them
  uint64_t tokens = 0;          // of all peers, committed
  absl::Duration time = absl::ZeroDuration();  // of training

  bool any() const {
    return loss_below > 0 || no_improvement > 0 || tokens > 0 || time > absl::ZeroDuration();
  }
};

// Which condition holds, in words for the log and for whoever looks at the run; empty: none does.
// `evaluations`: by version, ascending. A loss that is not finite is no improvement.
std::string WhyEnough(const StopRule& rule, absl::Span<const v1::EvaluationRecord> evaluations,
                      uint64_t tokens, absl::Duration trained);

}  // namespace atolld
