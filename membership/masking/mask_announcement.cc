#include "membership/masking/mask_announcement.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "membership/history/digest.h"
#include "membership/masking/mask_key.h"

namespace atolld {
namespace {

constexpr char kKeysDomain[] = "atoll.mask.keys";
constexpr char kFrozenDomain[] = "atoll.mask.frozen";

std::string KeysStatement(const v1::MaskAttempt& attempt, const v1::MaskKeys& keys) {
  return ToBytes(DigestBuilder("atoll.mask.keys.1")
                     .Bytes(AttemptDigest(attempt))
                     .Bytes(keys.peer())
                     .Bytes(keys.sharing_key())
                     .Bytes(keys.masking_key())
                     .Bytes(keys.seed_commitment())
                     .Bytes(keys.signing_key())
                     .Finish());
}

std::string FrozenStatement(const v1::MaskRoster& roster,
                            absl::Span<const std::string> contributors) {
  DigestBuilder builder("atoll.mask.frozen.1");
  builder.Bytes(RosterDigest(roster)).U64(contributors.size());
  for (const std::string& peer : contributors) builder.Bytes(peer);
  return ToBytes(builder.Finish());
}

// Checks that every party is in the closed list with the key that the list names.
absl::Status CheckListed(const v1::MaskRoster& roster, const KnownSigningKeys& known) {
  std::vector<std::string> unlisted;
  for (const v1::MaskKeys& keys : roster.parties()) {
    const auto found = known.find(keys.peer());
    if (found == known.end() || found->second != keys.signing_key()) {
      unlisted.push_back(keys.peer());
    }
  }
  if (unlisted.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the run's masks are for listed parties alone ([privacy] closed), and ",
                   absl::StrJoin(unlisted, ", "), unlisted.size() == 1 ? " is" : " are",
                   " not in this party's list with the key that signs here"));
}

}  // namespace

std::vector<std::string> Strangers(const v1::MaskRoster& roster, const KnownSigningKeys& known) {
  std::vector<std::string> strangers;
  for (const v1::MaskKeys& keys : roster.parties()) {
    const auto found = known.find(keys.peer());
    if (found == known.end() || found->second == keys.signing_key()) continue;
    strangers.push_back(keys.peer());
  }
  return strangers;
}

std::string Describe(const v1::MaskAttempt& attempt) {
  return absl::StrCat("run ", OneLine(attempt.run_id(), 64), ", version ", attempt.version(),
                      ", attempt ", attempt.attempt());
}

bool SameAttempt(const v1::MaskAttempt& a, const v1::MaskAttempt& b) {
  return a.run_id() == b.run_id() && a.version() == b.version() && a.attempt() == b.attempt() &&
         a.weight_exponent() == b.weight_exponent() && a.first_range() == b.first_range();
}

std::string AttemptDigest(const v1::MaskAttempt& attempt) {
  return ToBytes(DigestBuilder("atoll.mask.attempt.1")
                     .Bytes(attempt.run_id())
                     .U64(attempt.version())
                     .U64(attempt.attempt())
                     .U64(static_cast<uint64_t>(int64_t{attempt.weight_exponent()}))
                     .U64(attempt.first_range() ? 1 : 0)
                     .Finish());
}

uint32_t MaskThreshold(uint32_t parties, uint32_t wanted) {
  return std::max(wanted, 2 * parties / 3 + 1);
}

void SignMaskKeys(const SigningKey& key, const v1::MaskAttempt& attempt, v1::MaskKeys* keys) {
  keys->set_signing_key(key.public_key());
  keys->set_signature(key.Sign(kKeysDomain, KeysStatement(attempt, *keys)));
}

absl::Status CheckMaskKeys(const v1::MaskAttempt& attempt, const v1::MaskKeys& keys) {
  if (!IsValidId(keys.peer())) {
    return absl::InvalidArgumentError(
        absl::StrCat("mask keys of ", OneLine(keys.peer(), 64), ": a peer's id is ", kIdGrammar));
  }
  if (keys.sharing_key().size() != kMaskKeyBytes || keys.masking_key().size() != kMaskKeyBytes ||
      keys.seed_commitment().size() != kDigestBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the mask keys of ", keys.peer(), " and its commitment have 32 bytes each"));
  }
  if (!VerifySignature(keys.signing_key(), kKeysDomain, KeysStatement(attempt, keys),
                       keys.signature())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the mask keys of ", keys.peer(), " are not signed by its key for ", Describe(attempt)));
  }
  return absl::OkStatus();
}

absl::Status CheckMaskRoster(const v1::MaskRoster& roster, const MaskRosterRule& rule,
                             const KnownSigningKeys& known) {
  const int parties = roster.parties_size();
  const auto fewest = static_cast<int>(std::max<uint32_t>(2, rule.fewest));
  if (parties < fewest || parties > static_cast<int>(kMostMaskedParties)) {
    return absl::InvalidArgumentError(absl::StrCat("this run's masks are for ", fewest, " to ",
                                                   kMostMaskedParties, " parties, not ", parties));
  }
  const uint32_t least = MaskThreshold(static_cast<uint32_t>(parties), rule.threshold);
  if (roster.threshold() < least || roster.threshold() > static_cast<uint32_t>(parties)) {
    return absl::InvalidArgumentError(absl::StrCat("a threshold of ", roster.threshold(), " for ",
                                                   Counted(parties, "party"), ": at least ", least,
                                                   " are needed, more than two thirds"));
  }
  std::set<std::string> all_keys;
  for (int i = 0; i < parties; ++i) {
    const v1::MaskKeys& keys = roster.parties(i);
    RETURN_IF_ERROR(CheckMaskKeys(roster.attempt(), keys));
    if (i > 0 && roster.parties(i - 1).peer() >= keys.peer()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the parties are not ascending: ", keys.peer(), " is out of order"));
    }
    for (const std::string& key : {keys.sharing_key(), keys.masking_key(), keys.signing_key()}) {
      if (!all_keys.insert(key).second) {
        return absl::InvalidArgumentError(
            absl::StrCat("a key of ", keys.peer(), " is there twice: each party has its own"));
      }
    }
  }
  if (rule.closed) RETURN_IF_ERROR(CheckListed(roster, known));
  const std::vector<std::string> strangers = Strangers(roster, known);
  if (strangers.size() <= MostStrangers(static_cast<size_t>(parties))) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the mask keys of ", absl::StrJoin(strangers, ", "),
      " are signed by other keys than those that are known to be theirs, and that is a "
      "third of ",
      Counted(static_cast<size_t>(parties), "party"), " or more"));
}

std::string RosterDigest(const v1::MaskRoster& roster) {
  DigestBuilder builder("atoll.mask.roster.1");
  builder.Bytes(AttemptDigest(roster.attempt())).U64(roster.threshold());
  for (const v1::MaskKeys& keys : roster.parties()) {
    builder.Bytes(KeysStatement(roster.attempt(), keys));
  }
  return ToBytes(builder.Finish());
}

int PlaceIn(const v1::MaskRoster& roster, absl::string_view peer) {
  for (int i = 0; i < roster.parties_size(); ++i) {
    if (roster.parties(i).peer() == peer) return i;
  }
  return -1;
}

absl::Status CheckContributors(const v1::MaskRoster& roster,
                               absl::Span<const std::string> contributors) {
  int before = -1;
  for (const std::string& peer : contributors) {
    const int place = PlaceIn(roster, peer);
    if (place <= before) {
      return absl::InvalidArgumentError(
          absl::StrCat(OneLine(peer, 64), place < 0 ? " is not a party of this sum"
                                                    : " is out of order among the contributors"));
    }
    before = place;
  }
  if (contributors.size() < roster.threshold()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a sum of ", Counted(contributors.size(), "party"), " is not unmasked: at least ",
        roster.threshold(), " of ", roster.parties_size(), " have to be in it"));
  }
  return absl::OkStatus();
}

std::string SignContributors(const SigningKey& key, const v1::MaskRoster& roster,
                             absl::Span<const std::string> contributors) {
  return key.Sign(kFrozenDomain, FrozenStatement(roster, contributors));
}

bool HasSigned(const v1::MaskKeys& party, const v1::MaskRoster& roster,
               absl::Span<const std::string> contributors, absl::string_view signature) {
  return VerifySignature(party.signing_key(), kFrozenDomain, FrozenStatement(roster, contributors),
                         signature);
}

}  // namespace atolld
