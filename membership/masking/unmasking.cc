#include "membership/masking/unmasking.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
#include "membership/masking/mask_announcement.h"
#include "membership/masking/mask_key.h"
#include "membership/masking/mask_party.h"

namespace atolld {
namespace {

using Peers = std::vector<std::string>;

absl::Status AddOwnMasks(const v1::MaskRoster& roster, const Peers& contributors,
                         const v1::Unmasking& unmasking, std::vector<LeftMask>* masks) {
  std::set<std::string> seen;
  for (const v1::OpenSecret& open : unmasking.seeds()) {
    if (!std::binary_search(contributors.begin(), contributors.end(), open.of()) ||
        !seen.insert(open.of()).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a seed of ", OneLine(open.of(), 64), ", which is not a contributor or is there twice"));
    }
    ASSIGN_OR_RETURN(const MaskSecret seed, MaskSecret::FromBytes(open.secret()));
    RETURN_IF_ERROR(CheckSeed(roster.parties(PlaceIn(roster, open.of())), seed));
    masks->push_back(LeftMask{seed, MaskSign::kSubtract});
  }
  if (seen.size() == contributors.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("seeds of ", seen.size(), " of ",
                                                 contributors.size(),
                                                 " contributors: the sum stays masked"));
}

// Adds the masks that the contributors have in common with the party that dropped out.
absl::Status AddCommonMasks(const v1::MaskRoster& roster, const Peers& contributors,
                            const std::string& gone, const MaskKey& key,
                            std::vector<LeftMask>* masks) {
  for (const std::string& contributor : contributors) {
    const v1::MaskKeys& keys = roster.parties(PlaceIn(roster, contributor));
    ASSIGN_OR_RETURN(const MaskSecret secret,
                     CommonMask(key, keys.masking_key(), roster.attempt()));
    masks->push_back(LeftMask{secret, contributor < gone ? MaskSign::kSubtract : MaskSign::kAdd});
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSeed(const v1::MaskKeys& party, const MaskSecret& seed) {
  if (CommitmentTo(seed) == party.seed_commitment()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("this is not the seed of the mask that ", party.peer(), " committed to"));
}

absl::Status CheckMaskingKey(const v1::MaskKeys& party, const MaskSecret& secret) {
  if (MaskKey(secret).public_key() == party.masking_key()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("this is not the private half of ", party.peer(), "'s masking key"));
}

absl::StatusOr<std::vector<LeftMask>> LeftMasks(const v1::MaskRoster& roster,
                                                const v1::Unmasking& unmasking) {
  if (!SameAttempt(roster.attempt(), unmasking.attempt())) {
    return absl::InvalidArgumentError(absl::StrCat("secrets of ", Describe(unmasking.attempt()),
                                                   " came to ", Describe(roster.attempt())));
  }
  const Peers contributors(unmasking.contributors().begin(), unmasking.contributors().end());
  RETURN_IF_ERROR(CheckContributors(roster, contributors));
  std::vector<LeftMask> masks;
  RETURN_IF_ERROR(AddOwnMasks(roster, contributors, unmasking, &masks));
  std::set<std::string> seen;
  for (const v1::OpenSecret& open : unmasking.keys()) {
    const int place = PlaceIn(roster, open.of());
    if (place < 0 || std::binary_search(contributors.begin(), contributors.end(), open.of()) ||
        !seen.insert(open.of()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("a masking key of ", OneLine(open.of(), 64),
                       ", which contributes, is not a party, or is there twice"));
    }
    ASSIGN_OR_RETURN(const MaskSecret secret, MaskSecret::FromBytes(open.secret()));
    RETURN_IF_ERROR(CheckMaskingKey(roster.parties(place), secret));
    RETURN_IF_ERROR(AddCommonMasks(roster, contributors, open.of(), MaskKey(secret), &masks));
  }
  return masks;
}

void RemoveMasks(const RingForm& ring, absl::Span<const LeftMask> masks, uint64_t chunk,
                 absl::Span<uint32_t> sum) {
  for (const LeftMask& mask : masks) ApplyMask(ring, mask.secret, chunk, mask.sign, sum);
}

}  // namespace atolld
