#include "membership/masking/mask_round.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "membership/masking/unmasking.h"

namespace atolld {
namespace {

absl::string_view NameOf(MaskRound::Step step) {
  switch (step) {
    case MaskRound::Step::kKeys:
      return "announcing keys";
    case MaskRound::Step::kShares:
      return "sealing shares";
    case MaskRound::Step::kUpdates:
      return "masking updates";
    case MaskRound::Step::kConsent:
      return "signing the contributors";
    case MaskRound::Step::kShareOpening:
      return "revealing shares";
    case MaskRound::Step::kUnmasked:
      return "unmasked";
    case MaskRound::Step::kDiscarded:
      return "discarded";
  }
  return "";
}

bool In(const std::vector<std::string>& peers, const std::string& peer) {
  return std::binary_search(peers.begin(), peers.end(), peer);
}

}  // namespace

MaskRound::MaskRound(v1::MaskAttempt attempt, const MaskRosterRule& rule)
    : attempt_(std::move(attempt)), rule_(rule) {}

void MaskRound::Discard(std::string reason) {
  if (step_ == Step::kUnmasked || step_ == Step::kDiscarded) return;
  step_ = Step::kDiscarded;
  reason_ = std::move(reason);
}

absl::Status MaskRound::CheckStep(Step step) const {
  if (step_ == step) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(Describe(attempt_), " is at the step '",
                                                    NameOf(step_), "', not '", NameOf(step), "'",
                                                    reason_.empty() ? "" : ": ", reason_));
}

absl::Status MaskRound::TooFew(size_t left, absl::string_view what) {
  const uint32_t needed = roster_.threshold() != 0
                              ? roster_.threshold()
                              : std::max({uint32_t{2}, rule_.threshold, rule_.fewest});
  Discard(absl::StrCat(Counted(left, "party"), " ", what, ", and the masks need ", needed));
  return absl::FailedPreconditionError(reason_);
}

absl::Status MaskRound::Drop(const std::string& peer, absl::Status status) {
  dropped_.insert(peer);
  return status;
}

absl::Status MaskRound::OnKeys(const std::string& peer, const v1::MaskKeys& keys) {
  if (step_ != Step::kKeys || dropped_.count(peer) != 0) return absl::OkStatus();
  const absl::Status right = CheckMaskKeys(attempt_, keys);
  if (!right.ok()) return Drop(peer, right);
  if (keys.peer() != peer) {
    return Drop(peer, absl::InvalidArgumentError(
                          absl::StrCat(peer, " announces the mask keys of ", keys.peer())));
  }
  keys_.emplace(peer, keys);
  return absl::OkStatus();
}

absl::StatusOr<v1::MaskRoster> MaskRound::FreezeRoster() {
  RETURN_IF_ERROR(CheckStep(Step::kKeys));
  for (const std::string& peer : dropped_) keys_.erase(peer);
  while (keys_.size() > kMostMaskedParties) keys_.erase(std::prev(keys_.end()));
  if (keys_.size() < std::max({uint32_t{2}, rule_.threshold, rule_.fewest})) {
    return TooFew(keys_.size(), "announced keys");
  }
  *roster_.mutable_attempt() = attempt_;
  roster_.set_threshold(MaskThreshold(static_cast<uint32_t>(keys_.size()), rule_.threshold));
  for (const auto& [peer, keys] : keys_) *roster_.add_parties() = keys;
  step_ = Step::kShares;
  return roster_;
}

absl::Status MaskRound::OnShares(const std::string& peer, const v1::MaskShares& shares) {
  if (step_ != Step::kShares || dropped_.count(peer) != 0) return absl::OkStatus();
  const int place = PlaceIn(roster_, peer);
  if (place < 0 || !SameAttempt(shares.attempt(), attempt_)) return absl::OkStatus();
  bool right = shares.shares_size() == roster_.parties_size() - 1;
  for (int i = 0; right && i < shares.shares_size(); ++i) {
    const v1::SealedShares& sealed = shares.shares(i);
    const int to = i < place ? i : i + 1;
    right = sealed.from() == peer && sealed.to() == roster_.parties(to).peer();
  }
  if (!right) {
    return Drop(peer, absl::InvalidArgumentError(absl::StrCat(
                          peer, " has not sealed one share for each other party, in order")));
  }
  shares_.emplace(peer, shares);
  return absl::OkStatus();
}

absl::StatusOr<std::map<std::string, v1::MaskDelivery>> MaskRound::FreezeMasking() {
  RETURN_IF_ERROR(CheckStep(Step::kShares));
  for (const std::string& peer : dropped_) shares_.erase(peer);
  if (shares_.size() < roster_.threshold()) return TooFew(shares_.size(), "sealed shares");
  std::map<std::string, v1::MaskDelivery> deliveries;
  for (const auto& [from, shares] : shares_) {
    masking_.push_back(from);
    *deliveries[from].mutable_attempt() = attempt_;
  }
  for (const auto& [from, shares] : shares_) {  // ascending, so each delivery is in order
    for (const v1::SealedShares& sealed : shares.shares()) {
      if (In(masking_, sealed.to())) *deliveries[sealed.to()].add_shares() = sealed;
    }
  }
  step_ = Step::kUpdates;
  return deliveries;
}

absl::StatusOr<v1::MaskFrozen> MaskRound::FreezeContributors(
    const std::set<std::string>& complete) {
  RETURN_IF_ERROR(CheckStep(Step::kUpdates));
  for (const std::string& peer : masking_) {
    if (complete.count(peer) != 0) contributors_.push_back(peer);
  }
  if (contributors_.size() < roster_.threshold()) {
    return TooFew(contributors_.size(), "gave a whole update");
  }
  v1::MaskFrozen frozen;
  *frozen.mutable_attempt() = attempt_;
  for (const std::string& peer : contributors_) frozen.add_contributors(peer);
  step_ = Step::kConsent;
  return frozen;
}

absl::Status MaskRound::OnAgreed(const std::string& peer, const v1::MaskAgreed& agreed) {
  if (step_ != Step::kConsent || !In(contributors_, peer)) return absl::OkStatus();
  if (!SameAttempt(agreed.attempt(), attempt_)) return absl::OkStatus();
  const v1::MaskKeys& party = roster_.parties(PlaceIn(roster_, peer));
  if (!HasSigned(party, roster_, contributors_, agreed.signature())) {
    return Drop(peer, absl::InvalidArgumentError(
                          absl::StrCat(peer, " has signed other contributors than it was told")));
  }
  consents_.emplace(peer, agreed.signature());
  return absl::OkStatus();
}

absl::StatusOr<v1::UnmaskRequest> MaskRound::FreezeConsent() {
  RETURN_IF_ERROR(CheckStep(Step::kConsent));
  if (consents_.size() < roster_.threshold()) {
    return TooFew(consents_.size(), "signed the contributors");
  }
  v1::UnmaskRequest request;
  *request.mutable_attempt() = attempt_;
  for (const auto& [peer, signature] : consents_) {
    v1::MaskConsent* const consent = request.add_consents();
    consent->set_peer(peer);
    consent->set_signature(signature);
  }
  step_ = Step::kShareOpening;
  return request;
}

absl::Status MaskRound::OnUnmaskShares(const std::string& peer, const v1::UnmaskShares& shares) {
  if (step_ != Step::kShareOpening || consents_.count(peer) == 0) return absl::OkStatus();
  if (!SameAttempt(shares.attempt(), attempt_)) return absl::OkStatus();
  bool right = static_cast<size_t>(shares.shares_size()) == masking_.size();
  for (int i = 0; right && i < shares.shares_size(); ++i) {
    const v1::OpenShare& share = shares.shares(i);
    right = share.of() == masking_[static_cast<size_t>(i)] &&
            share.contributed() == In(contributors_, share.of()) &&
            share.value().size() == kMaskSecretBytes;
  }
  if (!right) {
    return Drop(peer, absl::InvalidArgumentError(absl::StrCat(
                          peer, " has not revealed the one share of each party that was asked")));
  }
  opened_.emplace(peer, shares);
  return absl::OkStatus();
}

// Returns the secrets of all parties that masked, in their order, with the shares of all parties
// that revealed theirs.
absl::StatusOr<std::vector<OpenedSecret>> MaskRound::Opened() const {
  std::vector<OpenedSecret> secrets;
  for (size_t i = 0; i < masking_.size(); ++i) {
    OpenedSecret& secret = secrets.emplace_back();
    secret.of = masking_[i];
    for (const auto& [peer, opened] : opened_) {
      ASSIGN_OR_RETURN(const MaskSecret value,
                       MaskSecret::FromBytes(opened.shares(static_cast<int>(i)).value()));
      secret.shares.push_back({static_cast<uint32_t>(PlaceIn(roster_, peer)) + 1, value});
    }
    const v1::MaskKeys* const party = &roster_.parties(PlaceIn(roster_, secret.of));
    const bool contributed = In(contributors_, secret.of);
    secret.check = [party, contributed](const MaskSecret& found) {
      return contributed ? CheckSeed(*party, found) : CheckMaskingKey(*party, found);
    };
  }
  return secrets;
}

absl::Status MaskRound::TooManyFalse(const SharesJudged& judged) {
  std::vector<std::string> hidden;
  for (size_t i = 0; i < masking_.size(); ++i) {
    if (!judged.secrets[i].has_value()) hidden.push_back(masking_[i]);
  }
  const std::string of = absl::StrCat("the shares that ", Counted(opened_.size(), "party"),
                                      " revealed do not give back ");
  if (suspects_.empty()) {
    Discard(
        absl::StrCat(of, "any secret: ", roster_.threshold(),
                     " are needed, and more of the others are false than can be found, so nobody "
                     "can be named"));
  } else {
    Discard(absl::StrCat(of, "the secret of ", absl::StrJoin(hidden, ", ")));
  }
  return absl::FailedPreconditionError(reason_);
}

absl::StatusOr<v1::Unmasking> MaskRound::Finish() {
  RETURN_IF_ERROR(CheckStep(Step::kShareOpening));
  const uint32_t threshold = roster_.threshold();
  if (opened_.size() < threshold) return TooFew(opened_.size(), "revealed shares");
  ASSIGN_OR_RETURN(const std::vector<OpenedSecret> opened, Opened());
  SharesJudged judged;
  bool right = true;
  for (const OpenedSecret& one : opened) {
    ASSIGN_OR_RETURN(const MaskSecret secret, CombineShares(one.shares, threshold));
    right = right && one.check(secret).ok();
    judged.secrets.emplace_back(secret);
  }
  if (!right) {
    std::vector<std::string> holders;
    for (const auto& [peer, shares] : opened_) holders.push_back(peer);
    judged = JudgeShares(holders, opened, threshold);
    suspects_ = judged.suspects;
  }
  v1::Unmasking unmasking;
  *unmasking.mutable_attempt() = attempt_;
  for (size_t i = 0; i < masking_.size(); ++i) {
    const std::string& of = masking_[i];
    if (!judged.secrets[i].has_value()) return TooManyFalse(judged);
    const bool contributed = In(contributors_, of);
    if (contributed) unmasking.add_contributors(of);
    v1::OpenSecret* const open = contributed ? unmasking.add_seeds() : unmasking.add_keys();
    open->set_of(of);
    open->set_secret(std::string(judged.secrets[i]->view()));
  }
  step_ = Step::kUnmasked;
  return unmasking;
}

}  // namespace atolld
