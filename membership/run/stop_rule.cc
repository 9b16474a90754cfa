#include "membership/run/stop_rule.h"

#include <cmath>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compression/base/words.h"
#include "membership/run/losses.h"

namespace atolld {
namespace {

struct Best {
  double loss = std::numeric_limits<double>::infinity();
  uint64_t version = 0;
  uint32_t since = 0;  // the number of evaluations after it
};

Best BestOf(absl::Span<const v1::EvaluationRecord> evaluations) {
  Best best;
  for (const v1::EvaluationRecord& evaluation : evaluations) {
    const std::optional<double> loss = EvaluatedLoss(evaluation);
    if (!loss) continue;
    ++best.since;
    if (*loss < best.loss) best = {*loss, evaluation.version(), 0};
  }
  return best;
}

}  // namespace

std::string WhyEnough(const StopRule& rule, absl::Span<const v1::EvaluationRecord> evaluations,
                      uint64_t tokens, absl::Duration trained) {
  const Best best = BestOf(evaluations);
  if (rule.loss_below > 0 && best.loss < rule.loss_below) {
    return absl::StrFormat("the validation loss of version %d is %.4f, below %g", best.version,
                           best.loss, rule.loss_below);
  }
  if (rule.no_improvement > 0 && best.since >= rule.no_improvement) {
    const std::string counted = Counted(best.since, "evaluation");
    if (!std::isfinite(best.loss)) {
      return absl::StrCat(counted, " in a row found no loss that is a number");
    }
    return absl::StrCat(counted, " in a row found no lower loss than ", LossText(best.loss),
                        " of version ", best.version);
  }
  if (rule.tokens > 0 && tokens >= rule.tokens) {
    return absl::StrCat(tokens, " tokens are trained on, of ", rule.tokens);
  }
  if (rule.time > absl::ZeroDuration() && trained >= rule.time) {
    return absl::StrCat("it has trained for ",
                        absl::FormatDuration(absl::Trunc(trained, absl::Seconds(1))));
  }
  return "";
}

}  // namespace atolld
