// RoundRunner, a plan has come: whether it is one that the round can follow.
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/peer/round_runner.h"

namespace atolld {

absl::Status RoundRunner::OnPlan(const v1::Plan& plan) {
  next_plan_.reset();
  if (!keeper_.has_state() || plan.version() > keeper_.version() + 1) {
    next_plan_ = plan;  // an aggregator is not waited for: commits are still to come
    return absl::OkStatus();
  }
  if (plan.version() <= keeper_.version()) return absl::OkStatus();
  ASSIGN_OR_RETURN(ExchangePlan made, ExchangePlan::Make(plan, keeper_.grid()));
  const bool same = exchange_ != nullptr && exchange_->version() == plan.version() &&
                    exchange_->epoch() == plan.epoch();
  if (same && plan.revision() == revision_) return absl::OkStatus();
  if (same && plan.revision() < revision_) {
    return absl::FailedPreconditionError(absl::StrCat("round ", plan.version(),
                                                      ": its plan goes back from revision ",
                                                      revision_, " to ", plan.revision()));
  }
  if (same) RETURN_IF_ERROR(plan_.CheckSuccessor(made));
  plan_ = std::move(made);
  waker_.OnPlan(plan_, keeper_.grid().elements(), self_, lanes_);
  if (!same) {
    StartExchange(plan);
    return absl::OkStatus();
  }
  revision_ = plan.revision();
  exchange_->Update(plan);
  return absl::OkStatus();
}

}  // namespace atolld
