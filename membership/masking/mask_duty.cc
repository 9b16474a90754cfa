#include "membership/masking/mask_duty.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "membership/masking/mask_announcement.h"

namespace atolld {

MaskDuty::MaskDuty(std::string run_id, std::string peer, const SigningKey* signing_key,
                   const MaskRosterRule& rule, std::function<std::string()> draw,
                   std::function<KnownSigningKeys()> known)
    : run_id_(std::move(run_id)),
      peer_(std::move(peer)),
      signing_key_(signing_key),
      rule_(rule),
      draw_(std::move(draw)),
      known_(std::move(known)) {}

void MaskDuty::Forget() {
  party_.reset();
  roster_.Clear();
  masks_.clear();
  contributors_.clear();
  delivered_ = false;
}

MaskDuty::Output MaskDuty::Begin(const v1::MaskAttempt& attempt) {
  Output out;
  const bool repeated = party_ != nullptr && SameAttempt(party_->attempt(), attempt);
  if (!repeated) {
    if (attempt.run_id() != run_id_ || (last_ && attempt.attempt() <= *last_)) {
      out.event = absl::StrCat("masks: ", Describe(attempt), " is not one to take part in");
      return out;
    }
    const absl::StatusOr<MaskSecret> secret = MaskSecret::FromBytes(draw_());
    if (!secret.ok()) {
      out.event = std::string(secret.status().message());
      return out;
    }
    if (party_ != nullptr) out.action = Action::kForget;
    Forget();
    last_ = attempt.attempt();
    party_ = std::make_unique<MaskParty>(attempt, peer_, signing_key_, rule_, known_(), *secret);
  }
  *out.sends.emplace_back().mutable_keys() = party_->keys();
  return out;
}

MaskDuty::Output MaskDuty::GiveUp(const absl::Status& why) {
  Output out;
  if (party_ == nullptr) return out;
  out.event = absl::StrCat("masks of ", Describe(party_->attempt()), ": ", why.message());
  *out.sends.emplace_back().mutable_refused() = party_->attempt();
  out.action = Action::kForget;
  Forget();
  return out;
}

MaskDuty::Output MaskDuty::Unmask(const v1::Unmasking& unmasking) {
  Output out;
  absl::StatusOr<std::vector<LeftMask>> masks = LeftMasks(roster_, unmasking);
  if (!masks.ok()) return GiveUp(masks.status());
  masks_ = *std::move(masks);
  contributors_ = {unmasking.contributors().begin(), unmasking.contributors().end()};
  out.action = Action::kUnmask;
  return out;
}

MaskDuty::Output MaskDuty::OnMessage(const v1::MaskToParty& message) {
  Output out;
  if (message.has_begin()) return Begin(message.begin());
  if (party_ == nullptr) return out;  // a message of an attempt that has ended here
  switch (message.message_case()) {
    case v1::MaskToParty::kRoster: {
      absl::StatusOr<v1::MaskShares> shares = party_->OnRoster(message.roster());
      if (!shares.ok()) return GiveUp(shares.status());
      roster_ = message.roster();
      *out.sends.emplace_back().mutable_shares() = *std::move(shares);
      return out;
    }
    case v1::MaskToParty::kDelivery: {
      const absl::Status taken = party_->OnDelivery(message.delivery());
      if (!taken.ok()) return GiveUp(taken);
      // A repeated message was handled before: no chunk is masked twice in one attempt.
      if (!std::exchange(delivered_, true)) out.action = Action::kMask;
      return out;
    }
    case v1::MaskToParty::kFrozen: {
      absl::StatusOr<v1::MaskAgreed> agreed = party_->OnFrozen(message.frozen());
      if (!agreed.ok()) return GiveUp(agreed.status());
      *out.sends.emplace_back().mutable_agreed() = *std::move(agreed);
      return out;
    }
    case v1::MaskToParty::kRequest: {
      absl::StatusOr<v1::UnmaskShares> shares = party_->OnRequest(message.request());
      if (!shares.ok()) return GiveUp(shares.status());
      *out.sends.emplace_back().mutable_opened() = *std::move(shares);
      return out;
    }
    case v1::MaskToParty::kUnmasking:
      return Unmask(message.unmasking());
    case v1::MaskToParty::kDiscarded:
      if (!SameAttempt(message.discarded(), party_->attempt())) return out;
      out.action = Action::kForget;
      Forget();
      return out;
    case v1::MaskToParty::kBegin:
    case v1::MaskToParty::MESSAGE_NOT_SET:
      break;
  }
  return out;
}

MaskDuty::Output MaskDuty::Masked(std::string root, std::string signature) const {
  Output out;
  if (party_ == nullptr || !delivered_) return out;
  v1::MaskedUpdate* const masked = out.sends.emplace_back().mutable_masked();
  *masked->mutable_attempt() = party_->attempt();
  masked->set_contribution_root(std::move(root));
  masked->set_signature(std::move(signature));
  return out;
}

MaskDuty::Output MaskDuty::Summed(v1::MaskedSum sum) const {
  Output out;
  if (party_ == nullptr) return out;
  *sum.mutable_attempt() = party_->attempt();
  *out.sends.emplace_back().mutable_sum() = std::move(sum);
  return out;
}

}  // namespace atolld
