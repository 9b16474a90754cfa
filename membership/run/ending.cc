#include "membership/run/ending.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace atolld {
Evaluation::Evaluation(uint64_t version, uint32_t shares, double elapsed_seconds)
    : version_(version), elapsed_seconds_(elapsed_seconds), shares_(shares) {}

bool Evaluation::complete() const {
  return std::all_of(shares_.begin(), shares_.end(), [](const Share& share) { return share.in; });
}

std::optional<uint32_t> Evaluation::FirstFree() const {
  for (size_t i = 0; i < shares_.size(); ++i) {
    if (!shares_[i].in && shares_[i].peer.empty()) return static_cast<uint32_t>(i);
  }
  return std::nullopt;
}

v1::Evaluate Evaluation::Give(uint32_t share, const std::string& peer) {
  shares_[share].peer = peer;
  v1::Evaluate evaluate;
  evaluate.set_version(version_);
  evaluate.set_share(share);
  evaluate.set_shares(static_cast<uint32_t>(shares_.size()));
  return evaluate;
}

size_t Evaluation::Open(const std::string& peer) const {
  return static_cast<size_t>(std::count_if(shares_.begin(), shares_.end(), [&](const Share& share) {
    return !share.in && share.peer == peer;
  }));
}

void Evaluation::TakeBack(const std::string& peer) {
  for (Share& share : shares_) {
    if (!share.in && share.peer == peer) share.peer.clear();
  }
}

void Evaluation::OnEvaluated(const v1::Evaluated& evaluated) {
  if (evaluated.version() != version_ || evaluated.shares() != shares_.size() ||
      evaluated.share() >= shares_.size()) {
    return;
  }
  Share& share = shares_[evaluated.share()];
  if (share.in) return;
  share.in = true;
  share.loss_sum = evaluated.loss_sum();
  share.tokens = evaluated.tokens();
}

v1::EvaluationRecord Evaluation::Record() const {
  double loss_sum = 0;
  uint64_t tokens = 0;
  // In order of the shares, so that the sum does not depend on who answered first.
  for (const Share& share : shares_) {
    loss_sum += share.loss_sum;
    tokens += share.tokens;
  }
  v1::EvaluationRecord record;
  record.set_version(version_);
  record.set_loss(tokens == 0 ? 0 : loss_sum / static_cast<double>(tokens));
  record.set_tokens(tokens);
  record.set_elapsed_seconds(elapsed_seconds_);
  return record;
}

std::string LossUnit(const v1::RunSpec& spec) {
  const v1::DataSpec& data = spec.data();
  if (data.kind() == "arrays" || data.kind() == "external" || data.kind() == "none") return "";
  // Token files do not say of what they are; bytes have ids below 256.
  const uint32_t ids = spec.model().vocabulary();
  const bool bytes = data.kind() != "bin" && data.kind() != "npy" && data.width() == 0 &&
                     (ids == 0 || ids == 256) &&
                     (data.tokenizer().empty() || data.tokenizer() == "bytes") &&
                     data.tokenizer_digest().empty();
  return bytes ? "nats a byte" : "nats a token";
}

bool EvaluationDue(const v1::RunSpec& spec, uint64_t version, uint64_t last) {
  if (version == 0 || version == last) return true;
  const uint32_t every = spec.evaluation().every_rounds();
  return every > 0 && version % every == 0;
}

// -----------------------------------------------------------------------------------------------

Ending::Ending(const RunSettings& settings, bool sealed, absl::Time now) : settings_(settings) {
  if (sealed) sealed_at_ = now;
}

void Ending::Evaluate(absl::Time now, uint64_t last, const Ledger& ledger, const Members& members,
                      const Round& round, RunOutput* out) {
  const uint64_t version = ledger.version();
  if (evaluation_ && evaluation_->version() != version && evaluation_->FirstFree()) {
    out->Say(absl::StrCat("version ", evaluation_->version(),
                          ": its evaluation is incomplete and was dropped"),
             RunOutput::Severity::kWarning);
    evaluation_.reset();
  }
  const std::vector<std::string> evaluators = round.Evaluators(members.roster(), version);
  const bool due = EvaluationDue(ledger.spec(), version, last) && !ledger.Evaluated(version);
  if (due && !evaluators.empty() && !evaluating(version)) {
    evaluation_.emplace(version, static_cast<uint32_t>(evaluators.size()), ledger.Elapsed(now));
  }
  if (!evaluating(version) || evaluators.empty()) return;
  for (auto share = evaluation_->FirstFree(); share; share = evaluation_->FirstFree()) {
    const std::string& peer = *std::min_element(
        evaluators.begin(), evaluators.end(),
        [&](const auto& a, const auto& b) { return evaluation_->Open(a) < evaluation_->Open(b); });
    v1::CoordinatorMessage message;
    *message.mutable_evaluate() = evaluation_->Give(*share, peer);
    members.SendTo(peer, std::move(message), out);
  }
}

void Ending::OnEvaluated(const v1::Evaluated& evaluated, Ledger* ledger, RunOutput* out) {
  if (!evaluation_) return;
  evaluation_->OnEvaluated(evaluated);
  if (!evaluation_->complete()) return;
  const v1::EvaluationRecord record = evaluation_->Record();
  evaluation_.reset();
  ledger->AddEvaluation(record, &out->update);
  const std::string unit = LossUnit(ledger->spec());
  out->Say(absl::StrFormat("version %d: validation loss %.4f%s%s", record.version(), record.loss(),
                           unit.empty() ? "" : " ", unit),
           RunOutput::Severity::kRecord);
}

void Ending::TakeBack(const std::string& peer) {
  if (evaluation_) evaluation_->TakeBack(peer);
}

void Ending::Advance(absl::Time now, Ledger* ledger, Members* members, const Round& round,
                     RunOutput* out, std::string* reason) {
  const uint64_t version = ledger->version();
  if (last_reached_ == absl::InfiniteFuture()) last_reached_ = now;
  Evaluate(now, version, *ledger, *members, round, out);
  if (!ledger->Evaluated(version)) {
    if (!evaluation_) *reason = "no peer is here to evaluate the last version";
    return;
  }
  const Roster& roster = members->roster();
  if (roster.in_grace(now)) return;
  std::vector<std::string> missing;
  size_t reports = 0;
  for (const auto& [peer, member] : roster.members()) {
    const PeerInfo* info = members->FindInfo(peer);
    const bool reported = info != nullptr && info->Reported(version);
    reports += reported ? 1 : 0;
    if (!reported && member.present() && member.has_state) missing.push_back(peer);
  }
  const bool waited = now >= last_reached_ + settings_.failure_timeout;
  if (reports == 0 || (!missing.empty() && !waited)) {
    *reason = absl::StrCat("waiting for the digest of the last version from ",
                           missing.empty() ? "a peer" : absl::StrJoin(missing, ", "));
    return;
  }
  Seal(now, ledger, members, out);
  AdvanceSealed(now, *ledger->seal(), *members, out, reason);
}

void Ending::Seal(absl::Time now, Ledger* ledger, Members* members, RunOutput* out) {
  const uint64_t version = ledger->version();
  std::map<std::string, std::vector<std::string>> by_digest;
  for (const auto& [peer, info] : members->infos()) {
    if (info.Reported(version)) by_digest[info.state_digest].push_back(peer);
  }
  const auto most = std::max_element(
      by_digest.begin(), by_digest.end(),
      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  for (const auto& [digest, peers] : by_digest) {
    if (digest == most->first) continue;
    out->Say(absl::StrCat("version ", version, ": ", absl::StrJoin(peers, ", "),
                          " hold another state than ", absl::StrJoin(most->second, ", ")),
             RunOutput::Severity::kError);
  }
  v1::Seal seal;
  seal.set_run_id(ledger->spec().run_id());
  seal.set_version(version);
  seal.set_state_digest(most->first);
  seal.set_header_digest(ledger->digest());
  if (settings_.sign_seal) seal.set_signature(settings_.sign_seal(seal));
  ledger->SetSeal(seal, &out->update);
  sealed_at_ = now;
  v1::CoordinatorMessage message;
  *message.mutable_sealed()->mutable_seal() = seal;
  members->SendToAll(message, out);
  members->NoteChange();  // the roster names those that are waited for
  out->Say(absl::StrCat("the run is sealed at version ", version));
}

void Ending::AdvanceSealed(absl::Time now, const v1::Seal& seal, const Members& members,
                           RunOutput* out, std::string* reason) {
  const bool somebody = members.AnybodyConnected();
  seen_since_seal_ = seen_since_seal_ || somebody;
  const std::vector<std::string> awaited = members.Awaited(seal);
  if (!awaited.empty()) {
    *reason = absl::StrCat("the run is sealed, but ", absl::StrJoin(awaited, ", "),
                           awaited.size() == 1 ? " does" : " do", " not hold version ",
                           seal.version(), " yet");
  }
  const bool over = awaited.empty() && ((seen_since_seal_ && !somebody) ||
                                        now >= sealed_at_ + settings_.failure_timeout);
  if (!over || finished_) return;
  finished_ = true;
  out->finished = true;
}

void Ending::OnHistoryAdopted(uint64_t version) {
  if (evaluation_ && evaluation_->version() != version) evaluation_.reset();
  last_reached_ = absl::InfiniteFuture();
}

}  // namespace atolld
