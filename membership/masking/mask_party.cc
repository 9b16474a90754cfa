#include "membership/masking/mask_party.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "membership/masking/mask_stream.h"
#include "membership/masking/secret_sharing.h"
#include "membership/masking/share_seal.h"

namespace atolld {

MaskParty::MaskParty(v1::MaskAttempt attempt, std::string peer, const SigningKey* signing_key,
                     const MaskRosterRule& rule, KnownSigningKeys known, const MaskSecret& secret)
    : attempt_(std::move(attempt)),
      peer_(std::move(peer)),
      signing_key_(signing_key),
      rule_(rule),
      known_(std::move(known)),
      secret_(secret),
      sharing_key_(secret.Derive("sharing", AttemptDigest(attempt_))),
      masking_key_(secret.Derive("masking", AttemptDigest(attempt_))),
      seed_(secret.Derive("seed", AttemptDigest(attempt_))) {
  keys_.set_peer(peer_);
  keys_.set_sharing_key(sharing_key_.public_key());
  keys_.set_masking_key(masking_key_.public_key());
  keys_.set_seed_commitment(CommitmentTo(seed_));
  SignMaskKeys(*signing_key_, attempt_, &keys_);
}

absl::Status MaskParty::CheckTurn(const v1::MaskAttempt& attempt, bool ready) const {
  if (over_) {
    return absl::FailedPreconditionError(
        absl::StrCat(Describe(attempt_), " was given up by ", peer_));
  }
  if (!SameAttempt(attempt, attempt_)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a message of ", Describe(attempt), " came to ", Describe(attempt_)));
  }
  if (!ready) {
    return absl::FailedPreconditionError(
        absl::StrCat("a message of ", Describe(attempt_), " came out of turn"));
  }
  return absl::OkStatus();
}

absl::Status MaskParty::GiveUp(absl::Status status) {
  over_ = true;
  return status;
}

absl::StatusOr<v1::MaskShares> MaskParty::OnRoster(const v1::MaskRoster& roster) {
  absl::Status status = CheckTurn(roster.attempt(), true);
  if (!status.ok()) return GiveUp(status);
  if (roster_) {
    if (RosterDigest(*roster_) == RosterDigest(roster)) return *shares_;
    return GiveUp(absl::InvalidArgumentError("the coordinator tells of two rosters of masks"));
  }
  status = CheckMaskRoster(roster, rule_, known_);
  if (!status.ok()) return GiveUp(status);
  const int place = PlaceIn(roster, peer_);
  if (place < 0 || roster.parties(place).signature() != keys_.signature()) {
    return GiveUp(
        absl::InvalidArgumentError("the roster of masks does not have this party's keys"));
  }
  roster_ = roster;
  absl::StatusOr<v1::MaskShares> shares = MakeShares();
  if (!shares.ok()) return GiveUp(shares.status());
  shares_ = *std::move(shares);
  return *shares_;
}

absl::StatusOr<v1::MaskShares> MaskParty::MakeShares() {
  const std::string context = AttemptDigest(attempt_);
  const auto parties = static_cast<uint32_t>(roster_->parties_size());
  ASSIGN_OR_RETURN(const std::vector<SecretShare> of_key,
                   ShareSecret(masking_key_.secret(), roster_->threshold(), parties,
                               secret_.Derive("coefficients of the key", context)));
  ASSIGN_OR_RETURN(const std::vector<SecretShare> of_seed,
                   ShareSecret(seed_, roster_->threshold(), parties,
                               secret_.Derive("coefficients of the seed", context)));
  v1::MaskShares shares;
  *shares.mutable_attempt() = attempt_;
  for (uint32_t i = 0; i < parties; ++i) {
    const v1::MaskKeys& other = roster_->parties(static_cast<int>(i));
    if (other.peer() == peer_) {
      held_[peer_] = HeldShares{of_key[i].value, of_seed[i].value};
      continue;
    }
    ASSIGN_OR_RETURN(const MaskSecret key,
                     SealKey(sharing_key_, other.sharing_key(), attempt_, peer_, other.peer()));
    v1::SealedShares* const sealed = shares.add_shares();
    sealed->set_from(peer_);
    sealed->set_to(other.peer());
    sealed->set_sealed(
        SealText(key, absl::StrCat(of_key[i].value.view(), of_seed[i].value.view())));
  }
  return shares;
}

absl::Status MaskParty::OnDelivery(const v1::MaskDelivery& delivery) {
  const absl::Status turn = CheckTurn(delivery.attempt(), roster_.has_value());
  if (!turn.ok()) return GiveUp(turn);
  std::string bytes = delivery.SerializeAsString();
  if (delivery_) {
    if (*delivery_ == bytes) return absl::OkStatus();
    return GiveUp(absl::InvalidArgumentError("the coordinator delivers two sets of shares"));
  }
  const absl::Status taken = TakeDelivery(delivery);
  if (!taken.ok()) return GiveUp(taken);
  delivery_ = std::move(bytes);
  return absl::OkStatus();
}

absl::Status MaskParty::TakeDelivery(const v1::MaskDelivery& delivery) {
  int before = -1;
  for (const v1::SealedShares& sealed : delivery.shares()) {
    const int place = PlaceIn(*roster_, sealed.from());
    if (place <= before || sealed.from() == peer_ || sealed.to() != peer_) {
      return absl::InvalidArgumentError(absl::StrCat("shares from ", OneLine(sealed.from(), 64),
                                                     " for ", OneLine(sealed.to(), 64),
                                                     " are out of order, or are not for ", peer_));
    }
    before = place;
    const v1::MaskKeys& from = roster_->parties(place);
    ASSIGN_OR_RETURN(const MaskSecret key,
                     SealKey(sharing_key_, from.sharing_key(), attempt_, from.peer(), peer_));
    const absl::StatusOr<std::string> text = OpenSealed(key, sealed.sealed());
    if (!text.ok()) {
      return Annotate(text.status(), absl::StrCat("shares from ", from.peer()));
    }
    if (text->size() != 2 * kMaskSecretBytes) {
      return absl::InvalidArgumentError(absl::StrCat("shares from ", from.peer(), " have ",
                                                     2 * kMaskSecretBytes, " bytes, not ",
                                                     text->size()));
    }
    HeldShares& held = held_[from.peer()];
    const absl::string_view both = *text;
    ASSIGN_OR_RETURN(held.of_key, MaskSecret::FromBytes(both.substr(0, kMaskSecretBytes)));
    ASSIGN_OR_RETURN(held.of_seed, MaskSecret::FromBytes(both.substr(kMaskSecretBytes)));
    ASSIGN_OR_RETURN(common_[from.peer()], CommonMask(masking_key_, from.masking_key(), attempt_));
  }
  if (held_.size() < roster_->threshold()) {
    return absl::InvalidArgumentError(absl::StrCat("only ", Counted(held_.size(), "party"),
                                                   " would mask updates, and ",
                                                   roster_->threshold(), " have to"));
  }
  return absl::OkStatus();
}

absl::Status MaskParty::Mask(const RingForm& ring, uint64_t chunk,
                             absl::Span<uint32_t> codes) const {
  RETURN_IF_ERROR(CheckTurn(attempt_, delivery_.has_value() && !frozen_.has_value()));
  ApplyMask(ring, seed_, chunk, MaskSign::kAdd, codes);
  for (const auto& [other, secret] : common_) {
    ApplyMask(ring, secret, chunk, peer_ < other ? MaskSign::kAdd : MaskSign::kSubtract, codes);
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::MaskAgreed> MaskParty::OnFrozen(const v1::MaskFrozen& frozen) {
  const absl::Status turn = CheckTurn(frozen.attempt(), delivery_.has_value());
  if (!turn.ok()) return GiveUp(turn);
  const std::vector<std::string> contributors(frozen.contributors().begin(),
                                              frozen.contributors().end());
  if (frozen_ && *frozen_ != contributors) {
    return GiveUp(absl::InvalidArgumentError(
        "the coordinator tells of two sets of contributors: nothing is revealed for the second"));
  }
  const absl::Status right = CheckContributors(*roster_, contributors);
  if (!right.ok()) return GiveUp(right);
  for (const std::string& contributor : contributors) {
    if (held_.count(contributor) != 0) continue;
    return GiveUp(absl::InvalidArgumentError(
        absl::StrCat(contributor, " has masked nothing, and is told to be in the sum")));
  }
  if (!std::binary_search(contributors.begin(), contributors.end(), peer_)) {
    return GiveUp(absl::InvalidArgumentError(
        absl::StrCat("a sum without ", peer_, "'s update is not for it to unmask")));
  }
  frozen_ = contributors;
  v1::MaskAgreed agreed;
  *agreed.mutable_attempt() = attempt_;
  agreed.set_signature(SignContributors(*signing_key_, *roster_, contributors));
  return agreed;
}

absl::Status MaskParty::CheckConsents(const v1::UnmaskRequest& request) const {
  std::set<std::string> consenting;
  for (const v1::MaskConsent& consent : request.consents()) {
    const int place = PlaceIn(*roster_, consent.peer());
    if (place < 0 || !HasSigned(roster_->parties(place), *roster_, *frozen_, consent.signature())) {
      return absl::InvalidArgumentError(absl::StrCat(
          OneLine(consent.peer(), 64), " has not signed the contributors that ", peer_, " knows"));
    }
    consenting.insert(consent.peer());
  }
  if (consenting.size() < roster_->threshold()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Counted(consenting.size(), "party"), " signed the contributors, and ",
                     roster_->threshold(), " have to before anything is revealed"));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::UnmaskShares> MaskParty::OnRequest(const v1::UnmaskRequest& request) {
  const absl::Status turn = CheckTurn(request.attempt(), frozen_.has_value());
  if (!turn.ok()) return GiveUp(turn);
  const absl::Status right = CheckConsents(request);
  if (!right.ok()) return GiveUp(right);
  v1::UnmaskShares shares;
  *shares.mutable_attempt() = attempt_;
  for (const auto& [of, held] : held_) {
    v1::OpenShare* const share = shares.add_shares();
    share->set_of(of);
    share->set_contributed(std::binary_search(frozen_->begin(), frozen_->end(), of));
    share->set_value(std::string((share->contributed() ? held.of_seed : held.of_key).view()));
  }
  return shares;
}

absl::StatusOr<MaskSecret> SealKey(const MaskKey& own, const std::string& their_sharing_key,
                                   const v1::MaskAttempt& attempt, const std::string& from,
                                   const std::string& to) {
  // Ids contain no zero byte, and the digest has a fixed length.
  const absl::string_view zero("\0", 1);
  return own.Agree(their_sharing_key, "seal", absl::StrCat(AttemptDigest(attempt), from, zero, to));
}

absl::StatusOr<MaskSecret> CommonMask(const MaskKey& own, const std::string& their_masking_key,
                                      const v1::MaskAttempt& attempt) {
  return own.Agree(their_masking_key, "common", AttemptDigest(attempt));
}

}  // namespace atolld
