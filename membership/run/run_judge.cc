// Which updates make an exchange, and who is left out.
#include <algorithm>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "membership/run/run.h"
#include "membership/trust/contribution_proof.h"
#include "membership/trust/contribution_weight.h"

namespace atolld {
// Those whose updates were refused or outsized again and again sit the round out, as far as the
// quorum is there without them.
void Run::LeaveOutOffenders() {
  for (const std::string& peer :
       round_.LeaveOut(roster_, judge_.Offenders(), judge_.settings().least)) {
    Say(absl::StrCat("round ", round_.version(), ": peer ", peer,
                     " is left out for what its updates were"),
        RunOutput::Severity::kWarning);
  }
}

// Nothing can be made of it: the peer trains anew.
void Run::DropUpdate(const std::string& peer, const std::string& why) {
  judge_.NoteRefused(peer, why);
  Say(absl::StrCat("round ", round_.version(), ": the update of peer ", peer,
                   " is not taken: ", why, "; it trains anew"),
      RunOutput::Severity::kWarning);
  round_.trainer(peer).activity = Activity::kIdle;
  leases_.Return(peer);
  leases_changed_ = true;
}

void Run::SayOffences(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    Say(absl::StrCat("round ", round_.version(), ": ", line), RunOutput::Severity::kWarning);
  }
}

// Of the next exchange, with their scales; fewer than the quorum where it cannot begin yet.
std::vector<ExchangeContributor> Run::Contributors(absl::Time now) {
  std::vector<ExchangeContributor> ready_ones;
  std::vector<uint32_t> ages;
  for (const std::string& peer : round_.Ready(roster_)) {
    const v1::Ready& ready = round_.trainer(peer).ready;
    ExchangeContributor contributor;
    contributor.member =
        PlanMemberOf(peer, roster_.Find(peer)->address, peers_[peer].signing_key, ready);
    contributor.may_reduce = peers_[peer].spared_until < round_.version();
    contributor.dialled_in_vain = now < peers_[peer].dialled_in_vain_until;
    contributor.region = roster_.Find(peer)->region;
    // Who averages may lack the centre, as an aggregator that came by a snapshot: after an attempt
    // that failed all is measured from zeros.
    if (given_up_ > 0) contributor.member.clear_squared_distance_bits();
    ready_ones.push_back(std::move(contributor));
    ages.push_back(ready.age());
  }
  std::vector<ExchangeContributor> contributors;
  for (const size_t i : judge_.Choose(ready_ones, ages, settings_.round.quorum)) {
    contributors.push_back(std::move(ready_ones[i]));
  }
  std::vector<float> weights;
  for (const ExchangeContributor& contributor : contributors) {
    const v1::Ready& ready = round_.trainer(contributor.member.peer()).ready;
    weights.push_back(ContributionWeight(ready.tokens(), ready.age()));
  }
  CapWeights(settings_.weight_cap, &weights);
  for (size_t i = 0; i < weights.size(); ++i) {
    contributors[i].member.set_weight_bits(absl::bit_cast<uint32_t>(weights[i]));
  }
  for (const std::string& peer : judge_.Scale(&contributors)) {
    DropUpdate(peer, "it is too long for any scale");
    contributors.erase(std::find_if(contributors.begin(), contributors.end(),
                                    [&](const auto& one) { return one.member.peer() == peer; }));
  }
  return contributors;
}

void Run::OnUpdateRefused(absl::Time now, const std::string& peer,
                          const v1::UpdateRefused& refused) {
  const bool current =
      exchange_ && refused.version() == round_.version() && refused.epoch() == epoch_;
  if (!current) return;
  const bool counts = judge_.NoteReport(exchange_->plan(), peer, refused);
  Act(now, exchange_->OnRefused(peer, refused));
  if (!counts) return;
  Say(absl::StrCat("round ", round_.version(), ": the update of peer ", refused.contributor(),
                   " was refused where it was averaged: chunk ", refused.chunk(), ": ",
                   refused.reason().substr(0, 200)),
      RunOutput::Severity::kWarning);
}

void Run::OnAuditReport(absl::Time now, const std::string& peer, const v1::AuditReport& report) {
  if (last_exchange_) {
    const auto liars = last_exchange_->OnLateReport(peer, report);
    for (const auto& [liar, evidence] : liars) EvictLiar(now, liar, evidence);
  }
  if (exchange_) Act(now, exchange_->OnAuditReport(peer, report));
}

}  // namespace atolld
