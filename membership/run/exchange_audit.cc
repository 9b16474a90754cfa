// ExchangeRound: what is wrong with updates and means, and who says so.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "membership/run/admission.h"
#include "membership/run/exchange_round.h"

namespace atolld {
namespace {}  // namespace

ExchangeRound::Outcome ExchangeRound::OnRefused(const std::string& reporter,
                                                const v1::UpdateRefused& refused) {
  Outcome outcome;
  const std::string& contributor = refused.contributor();
  if (refused.version() != terms_.version || refused.epoch() != terms_.epoch) return outcome;
  if (!TakesPart(reporter) || !Contributes(contributor) || reporter == contributor) return outcome;
  if (!refused_.insert({reporter, contributor}).second) return outcome;
  outcome.errors.push_back(absl::StrCat("peer ", reporter, " does not take the update of peer ",
                                        contributor, ": ",
                                        refused.reason().substr(0, kLongestReason)));
  outcome.suspects[contributor] = absl::StrCat("peer ", reporter, " did not take its update");
  outcome.suspects[reporter] = absl::StrCat("it did not take the update of peer ", contributor);
  return outcome;
}

void ExchangeRound::DrawNonce() {
  if (terms_.audit_share <= 0) return;
  nonce_ = terms_.draw_nonce();
  plan_.Commit(AuditCommitment(nonce_));
}

// The voters hold the payload, so they can say whether it is what follows from the inputs.
void ExchangeRound::BeginAudit(Outcome* outcome) {
  Audit::Terms terms;
  terms.previous_header_digest = terms_.previous_header_digest;
  terms.nonce = nonce_;
  terms.share = terms_.audit_share;
  for (const std::string& peer : agreed_) {
    if (!Lost(peer) && barred_.count(peer) == 0) terms.auditors.insert(peer);
  }
  audit_ = std::make_unique<Audit>(std::move(terms), plan(), agreement_);
  extended_ = false;
  outcome->verdict = Verdict::kAudit;
  SettleAudit(outcome);
}

void ExchangeRound::SettleAudit(Outcome* outcome) {
  if (!audit_->complete()) return;
  const Audit::Result result = audit_->Judge();
  outcome->errors.insert(outcome->errors.end(), result.events.begin(), result.events.end());
  outcome->suspects.insert(result.suspects.begin(), result.suspects.end());
  outcome->liars = result.liars;
  for (const auto& [liar, evidence] : result.liars) {
    outcome->errors.push_back(absl::StrCat("peer ", liar, " has lied: ", evidence));
    plan_.Lose(liar);
  }
  barred_.insert(result.accusers.begin(), result.accusers.end());
  if (!result.redo.empty() && Redo(result, outcome)) return;
  outcome->verdict = Verdict::kCommit;
}

// False: what there is has to be taken.
bool ExchangeRound::Redo(const Audit::Result& result, Outcome* outcome) {
  if (plan_.Present().size() < terms_.quorum) {
    outcome->verdict = Verdict::kGiveUp;
    return true;
  }
  for (const std::string& peer : result.redo) plan_.MarkUnreachable(peer);
  if (plan_.Redo(result.redo)) {
    outcome->events.push_back(
        absl::StrCat("the shards of ", absl::StrJoin(result.redo, ", "), " are redone elsewhere"));
    Revise(outcome);
    return true;
  }
  if (!result.liars.empty()) {
    outcome->verdict = Verdict::kGiveUp;
    return true;
  }
  outcome->errors.push_back(absl::StrCat("nobody else can redo the shards of ",
                                         absl::StrJoin(result.redo, ", "),
                                         "; what was voted for is taken"));
  return false;
}

ExchangeRound::Outcome ExchangeRound::OnAuditReport(const std::string& peer,
                                                    const v1::AuditReport& report) {
  Outcome outcome;
  if (audit_ == nullptr) return outcome;
  audit_->OnReport(peer, report);
  // Those that are asked now have as much time as those that were asked first.
  if (audit_->disputed() && !std::exchange(extended_, true)) outcome.verdict = Verdict::kAudit;
  SettleAudit(&outcome);
  return outcome;
}

std::map<std::string, std::string> ExchangeRound::OnLateReport(const std::string& peer,
                                                               const v1::AuditReport& report) {
  if (audit_ == nullptr) return {};
  audit_->OnReport(peer, report);
  return audit_->Judge().liars;
}

std::map<std::string, v1::Audit> ExchangeRound::TakeAuditOrders() {
  std::map<std::string, v1::Audit> orders;
  if (audit_ != nullptr) orders = audit_->TakeOrders();
  for (auto& [peer, order] : orders) {
    order.set_deadline_milliseconds(plan().deadline_milliseconds() / 2);
  }
  return orders;
}

std::optional<v1::Audit> ExchangeRound::AuditOrderOf(const std::string& peer) const {
  if (audit_ == nullptr) return std::nullopt;
  v1::Audit order = audit_->OrderOf(peer);
  if (order.chunks().empty()) return std::nullopt;
  order.set_deadline_milliseconds(plan().deadline_milliseconds() / 2);
  return order;
}

// Half of what an exchange may take is an auditor's; the rest is for its answer to come.
absl::Duration ExchangeRound::AuditPatience() const { return terms_.deadline * 3 / 4; }

}  // namespace atolld
