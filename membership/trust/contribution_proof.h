// What a contributor signs: that this root is of its update to this entry.
//
// Whoever holds the proof and the leaves can show which bytes a contributor gave, to anybody who
// knows its key. Pure functions, any thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "atoll/v1/membership.pb.h"
#include "membership/history/signing_key.h"

namespace atolld {

// Sets the signature: over run, version, peer and the root that `ready` names. No epoch: an update
// is encoded once for an entry.
void SignContribution(const SigningKey& key, const std::string& run_id, const std::string& peer,
                      v1::Ready* ready);

// What the plan says of a contributor that is ready so.
v1::PlanMember PlanMemberOf(const std::string& peer, const std::string& address,
                            const std::string& signing_key, const v1::Ready& ready);

// INVALID_ARGUMENT: the member's root is not signed so by the member's key. Some 100 microseconds.
absl::Status CheckContributionProof(const std::string& run_id, uint64_t version,
                                    const v1::PlanMember& member);

// The same for every contributor of a plan that has a key.
absl::Status CheckContributionProofs(const std::string& run_id, const v1::Plan& plan);

}  // namespace atolld
