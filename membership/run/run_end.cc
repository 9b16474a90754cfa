// Evaluations and the seal.
#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "membership/run/run.h"

namespace atolld {

uint64_t Run::LastVersion() const {
  if (!control_.stopping()) return spec_.rounds();
  // What is being exchanged is still committed, unless that fails.
  return version() + (exchange_ ? 1 : 0);
}

bool Run::Evaluated(uint64_t version) const {
  return std::any_of(
      evaluations_.begin(), evaluations_.end(),
      [&](const v1::EvaluationRecord& record) { return record.version() == version; });
}

std::vector<std::string> Run::Evaluators() const {
  std::vector<std::string> idle;
  std::vector<std::string> busy;
  for (const auto& [peer, member] : roster_.members()) {
    const TrainingState* trainer = round_.Find(peer);
    if (!member.connected() || !member.present() || trainer == nullptr || !trainer->worker_ready)
      continue;
    if (!member.has_state || member.version != version()) continue;
    (trainer->activity == Activity::kIdle ? idle : busy).push_back(peer);
  }
  return idle.empty() ? busy : idle;  // a busy worker answers when its steps are done
}

void Run::Evaluate(absl::Time now) {
  if (evaluation_ && evaluation_->version() != version() && evaluation_->FirstFree()) {
    Say(absl::StrCat("version ", evaluation_->version(),
                     ": its evaluation is incomplete and was dropped"),
        RunOutput::Severity::kWarning);
    evaluation_.reset();
  }
  const std::vector<std::string> evaluators = Evaluators();
  const bool due = EvaluationDue(spec_, version(), LastVersion()) && !Evaluated(version());
  if (due && !evaluators.empty() && (!evaluation_ || evaluation_->version() != version())) {
    evaluation_.emplace(version(), static_cast<uint32_t>(evaluators.size()), Elapsed(now));
  }
  if (!evaluation_ || evaluation_->version() != version() || evaluators.empty()) return;
  for (auto share = evaluation_->FirstFree(); share; share = evaluation_->FirstFree()) {
    const std::string& peer = *std::min_element(
        evaluators.begin(), evaluators.end(),
        [&](const auto& a, const auto& b) { return evaluation_->Open(a) < evaluation_->Open(b); });
    v1::CoordinatorMessage message;
    *message.mutable_evaluate() = evaluation_->Give(*share, peer);
    SendTo(peer, std::move(message));
  }
}

void Run::AdvanceEnd(absl::Time now) {
  if (last_reached_ == absl::InfiniteFuture()) last_reached_ = now;
  Evaluate(now);
  if (!Evaluated(version())) {
    if (!evaluation_) reason_ = "no peer is here to evaluate the last version";
    return;
  }
  if (roster_.in_grace(now)) return;
  std::vector<std::string> missing;
  size_t reports = 0;
  for (const auto& [peer, member] : roster_.members()) {
    const auto info = peers_.find(peer);
    const bool reported = info != peers_.end() && !info->second.state_digest.empty() &&
                          info->second.state_version == version();
    reports += reported ? 1 : 0;
    if (!reported && member.present() && member.has_state) missing.push_back(peer);
  }
  const bool waited = now >= last_reached_ + settings_.failure_timeout;
  if (reports == 0 || (!missing.empty() && !waited)) {
    reason_ = absl::StrCat("waiting for the digest of the last version from ",
                           missing.empty() ? "a peer" : absl::StrJoin(missing, ", "));
    return;
  }
  SealRun(now);
}

void Run::SealRun(absl::Time now) {
  std::map<std::string, std::vector<std::string>> by_digest;
  for (const auto& [peer, info] : peers_) {
    if (!info.state_digest.empty() && info.state_version == version())
      by_digest[info.state_digest].push_back(peer);
  }
  const auto most = std::max_element(
      by_digest.begin(), by_digest.end(),
      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  for (const auto& [digest, peers] : by_digest) {
    if (digest == most->first) continue;
    Say(absl::StrCat("version ", version(), ": ", absl::StrJoin(peers, ", "),
                     " hold another state than ", absl::StrJoin(most->second, ", ")),
        RunOutput::Severity::kError);
  }
  v1::Seal seal;
  seal.set_run_id(spec_.run_id());
  seal.set_version(version());
  seal.set_state_digest(most->first);
  seal.set_header_digest(digests_.back());
  if (settings_.sign_seal) seal.set_signature(settings_.sign_seal(seal));
  seal_ = seal;
  sealed_at_ = now;
  out_.update.seal = seal;
  v1::CoordinatorMessage message;
  *message.mutable_sealed()->mutable_seal() = seal;
  SendToAll(message);
  roster_changed_ = true;  // it names those that are waited for
  Say(absl::StrCat("the run is sealed at version ", version()));
  AdvanceSealed(now);
}

// A peer that does not hold the last state may need what the others have; that it is alive is known
// as always. Whoever comes back with less, or without a state, is waited for as well.
std::vector<std::string> Run::Awaited() const {
  std::vector<std::string> awaited;
  if (!seal_) return awaited;
  for (const auto& [peer, member] : roster_.members()) {
    if (!member.present()) continue;
    const auto info = peers_.find(peer);
    const bool drifted = info != peers_.end() && !info->second.state_digest.empty() &&
                         info->second.state_version == seal_->version() &&
                         info->second.state_digest != seal_->state_digest();
    if (drifted || !member.has_state || member.version < seal_->version()) awaited.push_back(peer);
  }
  return awaited;
}

void Run::AdvanceSealed(absl::Time now) {
  const bool somebody = std::any_of(
      roster_.members().begin(), roster_.members().end(),
      [](const auto& entry) { return entry.second.connected() && entry.second.present(); });
  seen_since_seal_ = seen_since_seal_ || somebody;
  const std::vector<std::string> awaited = Awaited();
  if (!awaited.empty()) {
    reason_ = absl::StrCat("the run is sealed, but ", absl::StrJoin(awaited, ", "),
                           awaited.size() == 1 ? " does" : " do", " not hold version ",
                           seal_->version(), " yet");
  }
  const bool over = awaited.empty() && ((seen_since_seal_ && !somebody) ||
                                        now >= sealed_at_ + settings_.failure_timeout);
  if (!over || finished_) return;
  finished_ = true;
  out_.finished = true;
}

}  // namespace atolld
