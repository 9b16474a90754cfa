#include "tests/unit/membership/masking/masked_parties.h"

#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "membership/masking/unmasking.h"

namespace atolld {
namespace {

v1::MaskAttempt NumberedAttempt(uint64_t number) {
  v1::MaskAttempt attempt;
  attempt.set_run_id("masked-run");
  attempt.set_version(5);
  attempt.set_attempt(number);
  return attempt;
}

}  // namespace

std::string MaskedParties::Name(uint32_t party) { return absl::StrCat("party-", party); }

MaskedParties::MaskedParties(uint64_t attempt)
    : attempt_(NumberedAttempt(attempt)), round_(attempt_, MaskRosterRule{kThreshold}) {
  for (uint32_t i = 0; i < kParties; ++i) {
    const std::string name = Name(i);
    keys_.emplace(name, SigningKey::FromSeed(std::string(32, static_cast<char>(i + 1))).value());
    const MaskSecret secret = MaskSecret::FromBytes(std::string(32, static_cast<char>(100 + i)))
                                  ->Derive("attempt", absl::StrCat(attempt));
    parties_[name] = std::make_unique<MaskParty>(
        attempt_, name, &keys_.at(name), MaskRosterRule{kThreshold}, KnownSigningKeys(), secret);
  }
}

bool MaskedParties::Answers(const std::string& name, Silence step) const {
  const auto found = silence_.find(name);
  return found == silence_.end() || found->second == Silence::kNever || found->second > step;
}

absl::Status MaskedParties::Begin() {
  for (auto& [name, party] : parties_) {
    if (Answers(name, Silence::kKeys)) RETURN_IF_ERROR(round_.OnKeys(name, party->keys()));
  }
  ASSIGN_OR_RETURN(const v1::MaskRoster roster, round_.FreezeRoster());
  for (auto& [name, party] : parties_) {
    if (!Answers(name, Silence::kShares)) continue;
    ASSIGN_OR_RETURN(const v1::MaskShares shares, party->OnRoster(roster));
    RETURN_IF_ERROR(round_.OnShares(name, shares));
  }
  ASSIGN_OR_RETURN(const auto deliveries, round_.FreezeMasking());
  for (const auto& [name, delivery] : deliveries) {
    RETURN_IF_ERROR(parties_.at(name)->OnDelivery(delivery));
  }
  return absl::OkStatus();
}

std::vector<uint32_t> MaskedParties::Codes(uint32_t party) const {
  std::mt19937 random(party);
  std::vector<uint32_t> codes(kElements);
  const auto most = static_cast<uint32_t>(ring_.greatest());
  for (uint32_t& code : codes) {
    code = (static_cast<uint32_t>(random()) % (2 * most + 1) - most) & ring_.element_mask();
  }
  return codes;
}

std::vector<uint32_t> MaskedParties::PlainSum(const std::vector<std::string>& parties) const {
  std::vector<uint32_t> sum(kElements);
  for (uint32_t i = 0; i < kParties; ++i) {
    for (const std::string& name : parties) {
      if (name == Name(i)) AddRing(ring_, Codes(i), absl::MakeSpan(sum));
    }
  }
  return sum;
}

std::vector<uint32_t> MaskedParties::Masked(uint32_t index) {
  std::vector<uint32_t> codes = Codes(index);
  CHECK_OK(party(index).Mask(ring_, kChunk, absl::MakeSpan(codes)));
  return codes;
}

absl::StatusOr<std::vector<uint32_t>> MaskedParties::Run() {
  RETURN_IF_ERROR(Begin());
  std::vector<uint32_t> sum(kElements);
  std::set<std::string> complete;
  for (uint32_t i = 0; i < kParties; ++i) {
    if (!Answers(Name(i), Silence::kUpdate)) continue;
    AddRing(ring_, Masked(i), absl::MakeSpan(sum));
    complete.insert(Name(i));
  }
  ASSIGN_OR_RETURN(const v1::MaskFrozen frozen, round_.FreezeContributors(complete));
  for (const std::string& name : frozen.contributors()) {
    if (!Answers(name, Silence::kConsent)) continue;
    ASSIGN_OR_RETURN(const v1::MaskAgreed agreed, parties_.at(name)->OnFrozen(frozen));
    RETURN_IF_ERROR(round_.OnAgreed(name, agreed));
  }
  return Unmask(std::move(sum));
}

absl::StatusOr<std::vector<uint32_t>> MaskedParties::Unmask(std::vector<uint32_t> sum) {
  ASSIGN_OR_RETURN(const v1::UnmaskRequest request, round_.FreezeConsent());
  for (const v1::MaskConsent& consent : request.consents()) {
    if (!Answers(consent.peer(), Silence::kOpening)) continue;
    ASSIGN_OR_RETURN(const v1::UnmaskShares shares,
                     parties_.at(consent.peer())->OnRequest(request));
    RETURN_IF_ERROR(round_.OnUnmaskShares(consent.peer(), shares));
  }
  ASSIGN_OR_RETURN(const v1::Unmasking unmasking, round_.Finish());
  ASSIGN_OR_RETURN(const std::vector<LeftMask> masks, LeftMasks(round_.roster(), unmasking));
  RemoveMasks(ring_, masks, kChunk, absl::MakeSpan(sum));
  return sum;
}

}  // namespace atolld
