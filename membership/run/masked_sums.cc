#include "membership/run/masked_sums.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "compression/base/words.h"
#include "membership/masking/masked_terms.h"

namespace atolld {
namespace {

// The numbers reserved for the attempts of one epoch: more than there can be before the next one
// begins.
constexpr uint64_t kAttemptsAnEpoch = uint64_t{1} << 32;

// The most peers that one reason names.
constexpr size_t kMostAwaitedNamed = 4;

bool SameSum(const v1::MaskedSum& a, const v1::MaskedSum& b) {
  return !a.ragged() && !b.ragged() && a.payload_digest() == b.payload_digest() &&
         std::equal(a.contributors().begin(), a.contributors().end(), b.contributors().begin(),
                    b.contributors().end());
}

// Returns what the step waits for; empty if it waits for no party's message.
absl::string_view Wanted(MaskRound::Step step, bool exchanging) {
  switch (step) {
    case MaskRound::Step::kKeys:
      return "the keys";
    case MaskRound::Step::kShares:
      return "the shares";
    case MaskRound::Step::kUpdates:
      return exchanging ? "" : "the masked updates";
    case MaskRound::Step::kConsent:
      return "the signatures under the contributors";
    case MaskRound::Step::kShareOpening:
      return "the revealed shares";
    case MaskRound::Step::kUnmasked:
    case MaskRound::Step::kDiscarded:
      break;
  }
  return "";
}

// Returns the attempt that a message names, or nullptr if it names none or this kind of message
// never does.
const v1::MaskAttempt* AttemptOf(const v1::MaskFromParty& message) {
  switch (message.message_case()) {
    case v1::MaskFromParty::kShares:
      return &message.shares().attempt();
    case v1::MaskFromParty::kMasked:
      return &message.masked().attempt();
    case v1::MaskFromParty::kAgreed:
      return &message.agreed().attempt();
    case v1::MaskFromParty::kOpened:
      return &message.opened().attempt();
    case v1::MaskFromParty::kRefused:
      return &message.refused();
    default:
      return nullptr;
  }
}

}  // namespace

bool MaskedSums::frozen() const {
  return round_ != nullptr && (round_->step() == MaskRound::Step::kConsent ||
                               round_->step() == MaskRound::Step::kShareOpening);
}

bool MaskedSums::unmasked() const {
  return round_ != nullptr && round_->step() == MaskRound::Step::kUnmasked;
}

bool MaskedSums::AwaitsUpdate(const std::string& peer, const v1::MaskedUpdate& update) const {
  return round_ != nullptr && round_->step() == MaskRound::Step::kUpdates && !began_exchange_ &&
         SameAttempt(update.attempt(), attempt_) && awaited_.count(peer) != 0;
}

std::vector<std::string> MaskedSums::WithoutSum(const std::vector<std::string>& voters,
                                                uint32_t revision) const {
  std::vector<std::string> without;
  for (const std::string& voter : voters) {
    if (revision != revision_ || sums_.count(voter) == 0) without.push_back(voter);
  }
  return without;
}

std::string MaskedSums::WaitingFor() const {
  const absl::string_view wanted =
      round_ == nullptr || awaited_.empty() ? "" : Wanted(round_->step(), began_exchange_);
  if (wanted.empty()) return "";
  std::vector<std::string> named;
  for (const std::string& peer : awaited_) {
    if (named.size() < kMostAwaitedNamed) named.push_back(peer);
  }
  const size_t more = awaited_.size() - named.size();
  return absl::StrCat("masks: waiting for ", wanted, " of ", absl::StrJoin(named, ", "),
                      more == 0 ? "" : absl::StrCat(" and ", more, " more"));
}

void MaskedSums::Send(const std::string& peer, v1::MaskToParty message, Output* out) {
  said_[peer].push_back(message);
  out->sends.emplace_back(peer, std::move(message));
}

void MaskedSums::Await(absl::Time now, const std::vector<std::string>& peers) {
  awaited_ = {peers.begin(), peers.end()};
  deadline_ = now + patience_;
}

MaskedSums::Output MaskedSums::Begin(absl::Time now, uint64_t version, uint64_t epoch,
                                     const std::map<std::string, float>& weights) {
  Output out = End();
  if (epoch != epoch_) attempts_ = 0;
  epoch_ = epoch;
  std::vector<float> numbers;
  std::vector<std::string> peers;
  for (const auto& [peer, weight] : weights) {
    peers.push_back(peer);
    numbers.push_back(weight);
  }
  attempt_.set_run_id(run_id_);
  attempt_.set_version(version);
  attempt_.set_attempt(epoch * kAttemptsAnEpoch + attempts_++);
  attempt_.set_weight_exponent(WeightExponentOf(numbers));
  attempt_.set_first_range(refused_ == version);
  round_ = std::make_unique<MaskRound>(attempt_, rule_);
  v1::MaskToParty begin;
  *begin.mutable_begin() = attempt_;
  for (const std::string& peer : peers) Send(peer, begin, &out);
  Await(now, peers);
  GoOn(now, false, &out);
  return out;
}

void MaskedSums::Drop(const std::string& peer, const absl::Status& status, Output* out) {
  if (status.ok()) return;
  out->events.push_back(absl::StrCat("masks: ", status.message()));
  awaited_.erase(peer);
}

MaskedSums::Output MaskedSums::OnMessage(absl::Time now, const std::string& peer,
                                         const v1::MaskFromParty& message) {
  Output out;
  if (round_ == nullptr) return out;
  // An answer to an earlier attempt, which was then discarded, says nothing about this one.
  const v1::MaskAttempt* const named = AttemptOf(message);
  if (named != nullptr && !SameAttempt(*named, attempt_)) return out;
  const MaskRound::Step step = round_->step();
  bool answers = false;  // to the question of this step
  switch (message.message_case()) {
    case v1::MaskFromParty::kKeys:
      // Keys name no attempt, but are signed for one.
      answers = step == MaskRound::Step::kKeys && CheckMaskKeys(attempt_, message.keys()).ok();
      if (answers) Drop(peer, round_->OnKeys(peer, message.keys()), &out);
      break;
    case v1::MaskFromParty::kShares:
      answers = step == MaskRound::Step::kShares;
      if (answers) Drop(peer, round_->OnShares(peer, message.shares()), &out);
      break;
    case v1::MaskFromParty::kMasked:
      answers = AwaitsUpdate(peer, message.masked());
      if (answers) acknowledged_.insert(peer);
      break;
    case v1::MaskFromParty::kAgreed:
      answers = step == MaskRound::Step::kConsent;
      if (answers) Drop(peer, round_->OnAgreed(peer, message.agreed()), &out);
      break;
    case v1::MaskFromParty::kOpened:
      answers = step == MaskRound::Step::kShareOpening;
      if (answers) Drop(peer, round_->OnUnmaskShares(peer, message.opened()), &out);
      break;
    case v1::MaskFromParty::kRefused:
      answers = true;
      if (!began_exchange_) acknowledged_.erase(peer);
      if (step == MaskRound::Step::kKeys) refused_ = attempt_.version();
      out.events.push_back(absl::StrCat("peer ", peer, " has given its masks up"));
      break;
    case v1::MaskFromParty::kSum:  // handled by OnSum
    case v1::MaskFromParty::MESSAGE_NOT_SET:
      break;
  }
  if (answers) awaited_.erase(peer);
  GoOn(now, false, &out);
  return out;
}

MaskedSums::Output MaskedSums::OnGone(absl::Time now, const std::string& peer) {
  Output out;
  awaited_.erase(peer);
  if (!began_exchange_) acknowledged_.erase(peer);
  if (round_ != nullptr && said_.erase(peer) > 0) {
    v1::MaskToParty message;
    *message.mutable_discarded() = attempt_;
    out.sends.emplace_back(peer, std::move(message));
  }
  GoOn(now, false, &out);
  return out;
}

MaskedSums::Output MaskedSums::OnDeadline(absl::Time now) {
  Output out;
  if (now < deadline_) return out;
  GoOn(now, true, &out);
  return out;
}

// Ends the step when no party is waited for. The next step ends at once if no party is left.
void MaskedSums::GoOn(absl::Time now, bool waited, Output* out) {
  while (round_ != nullptr && deadline_ != absl::InfiniteFuture() && (waited || awaited_.empty())) {
    waited = false;
    EndStep(now, out);
  }
}

void MaskedSums::EndStep(absl::Time now, Output* out) {
  deadline_ = absl::InfiniteFuture();
  v1::MaskToParty message;
  switch (round_->step()) {
    case MaskRound::Step::kKeys: {
      const auto roster = round_->FreezeRoster();
      if (!roster.ok()) return Discard(std::string(roster.status().message()), out);
      *message.mutable_roster() = *roster;
      std::vector<std::string> parties;
      for (const v1::MaskKeys& keys : roster->parties()) parties.push_back(keys.peer());
      for (const std::string& peer : parties) Send(peer, message, out);
      return Await(now, parties);
    }
    case MaskRound::Step::kShares: {
      const auto deliveries = round_->FreezeMasking();
      if (!deliveries.ok()) return Discard(std::string(deliveries.status().message()), out);
      for (const auto& [peer, delivery] : *deliveries) {
        *message.mutable_delivery() = delivery;
        Send(peer, message, out);
      }
      return Await(now, round_->masking());
    }
    case MaskRound::Step::kUpdates:
      return BeginExchange(out);
    case MaskRound::Step::kConsent: {
      const auto request = round_->FreezeConsent();
      if (!request.ok()) return Discard(std::string(request.status().message()), out);
      *message.mutable_request() = *request;
      std::vector<std::string> signers;
      for (const v1::MaskConsent& consent : request->consents()) signers.push_back(consent.peer());
      for (const std::string& peer : signers) Send(peer, message, out);
      return Await(now, signers);
    }
    case MaskRound::Step::kShareOpening: {
      const auto unmasking = round_->Finish();
      out->suspects = round_->suspects();
      for (const ShareSuspect& suspect : out->suspects) {
        out->events.push_back(absl::StrCat("masks: peer ", suspect.peer, " ", suspect.why));
      }
      if (!unmasking.ok()) return Discard(std::string(unmasking.status().message()), out);
      *message.mutable_unmasking() = *unmasking;
      for (const std::string& peer : round_->masking()) Send(peer, message, out);
      out->news = News::kUnmasked;
      return;
    }
    case MaskRound::Step::kUnmasked:
    case MaskRound::Step::kDiscarded:
      return;
  }
}

// A party that has not masked its update by now cannot be in the sum.
void MaskedSums::BeginExchange(Output* out) {
  if (acknowledged_.size() < round_->roster().threshold()) {
    return Discard(
        absl::StrCat(Counted(acknowledged_.size(), "party"),
                     " masked an update, and the masks need ", round_->roster().threshold()),
        out);
  }
  masked_ = {acknowledged_.begin(), acknowledged_.end()};
  began_exchange_ = true;
  out->news = News::kMasked;
}

MaskedSums::Output MaskedSums::OnSum(absl::Time now, const std::string& peer,
                                     const v1::MaskedSum& sum, uint32_t revision,
                                     const std::vector<std::string>& voters) {
  Output out;
  if (round_ == nullptr || !began_exchange_ || !SameAttempt(sum.attempt(), attempt_) ||
      sum.revision() != revision) {
    return out;
  }
  if (round_->step() != MaskRound::Step::kUpdates) {
    // After the freeze the plan may have changed, but the sum for which the secrets are revealed
    // must not.
    if (!SameSum(sum, frozen_)) {
      Discard(absl::StrCat("peer ", peer, " has come to another sum than the one that is unmasked"),
              &out);
    }
    return out;
  }
  if (revision != revision_) sums_.clear();
  revision_ = revision;
  sums_[peer] = sum;
  bool same = true;
  for (const std::string& voter : voters) {
    const auto found = sums_.find(voter);
    if (found == sums_.end()) return out;
    same = same && SameSum(found->second, sum);
  }
  if (!same) {
    sums_.clear();
    if (redone_) {
      Discard("updates are in parts of the sum only, even after it was redone", &out);
    } else {
      redone_ = true;
      out.events.push_back("an update is in parts of the masked sum only: it is summed again");
      out.news = News::kRedo;
    }
    return out;
  }
  const auto frozen = round_->FreezeContributors(
      std::set<std::string>(sum.contributors().begin(), sum.contributors().end()));
  if (!frozen.ok()) {
    Discard(std::string(frozen.status().message()), &out);
    return out;
  }
  frozen_ = sum;
  v1::MaskToParty message;
  *message.mutable_frozen() = *frozen;
  for (const std::string& contributor : frozen->contributors()) Send(contributor, message, &out);
  // A party may have died since its update arrived. It is then in the sum, but will not answer.
  std::vector<std::string> here;
  for (const std::string& contributor : frozen->contributors()) {
    if (std::find(voters.begin(), voters.end(), contributor) != voters.end()) {
      here.push_back(contributor);
    }
  }
  Await(now, here);
  GoOn(now, false, &out);
  return out;
}

MaskedSums::Output MaskedSums::GiveUp(const std::string& why) {
  Output out;
  if (round_ != nullptr) Discard(why, &out);
  return out;
}

void MaskedSums::Discard(const std::string& why, Output* out) {
  round_->Discard(why);
  out->events.push_back(absl::StrCat("this attempt's masks are discarded: ", why));
  Output end = End();
  for (auto& send : end.sends) out->sends.push_back(std::move(send));
  out->news = News::kDiscarded;
}

MaskedSums::Output MaskedSums::Resend(const std::string& peer) const {
  Output out;
  const auto said = said_.find(peer);
  if (said == said_.end()) return out;
  for (const v1::MaskToParty& message : said->second) out.sends.emplace_back(peer, message);
  return out;
}

MaskedSums::Output MaskedSums::End() {
  Output out;
  if (round_ != nullptr) {
    v1::MaskToParty message;
    *message.mutable_discarded() = attempt_;
    for (const auto& [peer, said] : said_) out.sends.emplace_back(peer, message);
  }
  round_.reset();
  deadline_ = absl::InfiniteFuture();
  awaited_.clear();
  masked_.clear();
  acknowledged_.clear();
  began_exchange_ = false;
  redone_ = false;
  revision_ = 0;
  sums_.clear();
  frozen_.Clear();
  said_.clear();
  return out;
}

}  // namespace atolld
