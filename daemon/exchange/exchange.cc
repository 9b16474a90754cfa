#include "daemon/exchange/exchange.h"

#include <utility>

#include "daemon/exchange/exchange_state.h"
#include "membership/trust/contribution_proof.h"

namespace atolld {

Exchange::Exchange(Env env, const ExchangeSettings& settings, const v1::Plan& plan,
                   std::shared_ptr<const Contribution> contribution, Events events)
    : state_(std::make_shared<State>(env, settings, std::move(contribution), std::move(events))) {
  absl::StatusOr<ExchangePlan> made = ExchangePlan::Make(plan, settings.grid);
  absl::Status status = made.status();
  if (status.ok() && state_->contribution != nullptr &&
      state_->contribution->chunks.size() != settings.grid.chunks()) {
    status = absl::InvalidArgumentError("the contribution is not cut by the run's grid");
  }
  if (status.ok()) status = CheckContributionProofs(settings.run_id, plan);
  state_->version = plan.version();
  state_->epoch = plan.epoch();
  state_->keeps_inputs = !plan.audit_commitment().empty();
  if (status.ok()) {
    state_->Adopt(*std::move(made));
  } else {
    state_->Fail(std::move(status));
  }
}

Exchange::~Exchange() = default;

void Exchange::Update(const v1::Plan& plan) { state_->Update(plan); }

void Exchange::Accept(const v1::ExchangeOpen& open, std::unique_ptr<Call> call, absl::Time opened) {
  state_->Accept(open, std::move(call), opened);
}

absl::StatusOr<std::vector<Frame>> Exchange::Inputs(const v1::InputsRequest& request) const {
  return state_->Inputs(request);
}

void Exchange::Audit(const v1::Audit& order, std::function<void(v1::AuditReport)> tell) {
  state_->Audit(order, std::move(tell));
}

uint64_t Exchange::version() const { return state_->version; }
uint64_t Exchange::epoch() const { return state_->epoch; }
ExchangeFigures Exchange::figures() const { return state_->Figures(); }

}  // namespace atolld
