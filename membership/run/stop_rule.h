// StopRule: decides when a run has come far enough to end before its last round.
//
// Pure. May be called from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "atoll/v1/admin.pb.h"

namespace atolld {

// The conditions for stopping; one is enough. A value of 0 turns a condition off.
struct StopRule {
  double loss_below = 0;  // stops if the loss on the validation text is below this
  // Stops after this many evaluations in a row that have not lowered the best loss.
  uint32_t no_improvement = 0;
  uint64_t tokens = 0;  // stops after this many committed tokens of all peers
  absl::Duration time = absl::ZeroDuration();  // stops after this time of training

  bool any() const {
    return loss_below > 0 || no_improvement > 0 || tokens > 0 || time > absl::ZeroDuration();
  }
};

// Returns the condition that holds, in words for the log and for people, or an empty string if none
// does. `evaluations` are ascending by version. A loss that is not finite does not count as an
// improvement. Versions without an evaluation are skipped.
std::string WhyEnough(const StopRule& rule, absl::Span<const v1::EvaluationRecord> evaluations,
                      uint64_t tokens, absl::Duration trained);

}  // namespace atolld
