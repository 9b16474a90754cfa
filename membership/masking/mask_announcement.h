// The parts of a masked round that are signed or checked: the keys that parties announce, the
// roster of all parties, and the set of contributors in a sum.
//
// Signatures are made with the parties' signing keys. A coordinator, through which all messages
// pass, therefore cannot replace a party's key with its own, and cannot make two parties accept
// different sets of contributors. Pure. May be called from any thread.
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

inline constexpr uint32_t kMostMaskedParties = 255;  // the place of a share is one byte

// Returns a description such as "run r, version 3, attempt 7".
std::string Describe(const v1::MaskAttempt& attempt);
bool SameAttempt(const v1::MaskAttempt& a, const v1::MaskAttempt& b);
// Returns 32 bytes that are unique to the attempt.
std::string AttemptDigest(const v1::MaskAttempt& attempt);

// Returns the smallest allowed number of contributors, which is also the number of shares that
// recover a secret: more than two thirds of the parties, or `wanted` if that is more. Two different
// sets of contributors would each need that many signatures, so more than a third of the parties
// would have to sign both (Bonawitz et al. 2017, section 6.2: a malicious server).
uint32_t MaskThreshold(uint32_t parties, uint32_t wanted);

// Sets the fields signing_key and signature.
void SignMaskKeys(const SigningKey& key, const v1::MaskAttempt& attempt, v1::MaskKeys* keys);
// Fails with INVALID_ARGUMENT if a field has the wrong length or the signature is not valid; the
// message names the party.
absl::Status CheckMaskKeys(const v1::MaskAttempt& attempt, const v1::MaskKeys& keys);

// A run's requirements for the roster of each attempt.
struct MaskRosterRule {
  // The smallest number of contributors; MaskThreshold may require more.
  uint32_t threshold = 0;
  // The smallest number of parties. MaskThreshold alone would allow a very small roster in a large
  // run.
  uint32_t fewest = 2;
  // True if only parties with known signing keys are allowed.
  bool closed = false;
};

// The signing keys, by peer id, that a party knows from other sources than the coordinator's
// messages of this round.
using KnownSigningKeys = std::map<std::string, std::string>;

// Returns the strangers: the parties of the roster for which `known` has another signing key. Such
// a party was installed anew, or another peer has taken its place.
std::vector<std::string> Strangers(const v1::MaskRoster& roster, const KnownSigningKeys& known);
// Returns the greatest number of strangers that a roster may have: fewer than a third of the
// parties. MaskThreshold protects the others even if all of these belong to the coordinator. A
// single party's new key therefore does not stop the others.
inline size_t MostStrangers(size_t parties) { return (parties - 1) / 3; }

// Fails with INVALID_ARGUMENT if the parties are not ascending, too few or too many; if the
// threshold is below MaskThreshold(parties, rule.threshold) or above the number of parties; if a
// key is not valid or two parties have the same key; if there are more than MostStrangers
// strangers; or if the rule is closed and a party's signing key is not in `known`.
absl::Status CheckMaskRoster(const v1::MaskRoster& roster, const MaskRosterRule& rule,
                             const KnownSigningKeys& known);
// Returns the SHA-256 of all fields of the roster.
std::string RosterDigest(const v1::MaskRoster& roster);
// Returns the party's index in the roster, or -1 if the roster does not have it.
int PlaceIn(const v1::MaskRoster& roster, absl::string_view peer);

// Fails with INVALID_ARGUMENT if the contributors are not in the roster's order, if one of them is
// not in the roster, or if there are fewer than the roster's threshold.
absl::Status CheckContributors(const v1::MaskRoster& roster,
                               absl::Span<const std::string> contributors);
std::string SignContributors(const SigningKey& key, const v1::MaskRoster& roster,
                             absl::Span<const std::string> contributors);
bool HasSigned(const v1::MaskKeys& party, const v1::MaskRoster& roster,
               absl::Span<const std::string> contributors, absl::string_view signature);

}  // namespace atolld
