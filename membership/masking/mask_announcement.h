// What is signed and checked of a masked round: the keys that parties announce, the roster of all,
// and which contributors a sum is of.
//
// Signatures are by the parties' signing keys, so a coordinator that carries the messages can put
// no key of its own in another's place, nor tell two parties of two sets of contributors. Pure
// functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "atoll/v1/masking.pb.h"
#include "membership/history/signing_key.h"

namespace atolld {

inline constexpr uint32_t kMostMaskedParties = 255;  // shares have places of one byte

// "run r, version 3, attempt 7".
std::string Describe(const v1::MaskAttempt& attempt);
bool SameAttempt(const v1::MaskAttempt& a, const v1::MaskAttempt& b);
// 32 bytes that no other attempt has.
std::string AttemptDigest(const v1::MaskAttempt& attempt);

// Fewest shares and contributors of so many parties: more than two thirds of them, and `wanted` if
// that is more. Two sets of contributors would each need that many signatures, so more than a third
// would have to sign both (Bonawitz et al. 2017, section 6.2: a malicious server).
uint32_t MaskThreshold(uint32_t parties, uint32_t wanted);

// Sets signing_key and signature.
void SignMaskKeys(const SigningKey& key, const v1::MaskAttempt& attempt, v1::MaskKeys* keys);
// INVALID_ARGUMENT, naming the party: a field has another length, or it is not signed so.
absl::Status CheckMaskKeys(const v1::MaskAttempt& attempt, const v1::MaskKeys& keys);

// Signing keys that somebody knows otherwise than from the coordinator's word of this round, by
// peer id.
using KnownSigningKeys = std::map<std::string, std::string>;

// The parties of whom another signing key is known: installed anew, or somebody in their place.
std::vector<std::string> Strangers(const v1::MaskRoster& roster, const KnownSigningKeys& known);
// So many of them a roster may have: fewer than a third of the parties, whom MaskThreshold bears
// even where they are the coordinator's. So one party's new key does not hold up the others.
inline size_t MostStrangers(size_t parties) { return (parties - 1) / 3; }

// INVALID_ARGUMENT: not ascending, too few or too many, a threshold below MaskThreshold(parties,
// wanted) or above the parties, keys that do not check or that two share, or more strangers than
// MostStrangers.
absl::Status CheckMaskRoster(const v1::MaskRoster& roster, uint32_t wanted,
                             const KnownSigningKeys& known);
// SHA-256 over all that the roster says.
std::string RosterDigest(const v1::MaskRoster& roster);
// The party's index in the roster; -1: it is not there.
int PlaceIn(const v1::MaskRoster& roster, absl::string_view peer);

// INVALID_ARGUMENT: not in the roster's order, none of it, or below its threshold.
absl::Status CheckContributors(const v1::MaskRoster& roster,
                               absl::Span<const std::string> contributors);
std::string SignContributors(const SigningKey& key, const v1::MaskRoster& roster,
                             absl::Span<const std::string> contributors);
bool HasSigned(const v1::MaskKeys& party, const v1::MaskRoster& roster,
               absl::Span<const std::string> contributors, absl::string_view signature);

}  // namespace atolld
