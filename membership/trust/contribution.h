// What a contributor's word about its update is worth: the proof that an update is its own, and how
// much it counts.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/run.pb.h"
#include "membership/history/signing_key.h"

namespace atolld {

// What a contributor signs: that this root is of its update to this entry.
//
// Whoever holds the proof and the leaves can show which bytes a contributor gave, to anybody who
// knows its key. Pure functions, any thread.

// Sets the signature: over run, version, peer and the root that `ready` names. No epoch: an update
// is encoded once for an entry.
void SignContribution(const SigningKey& key, const std::string& run_id, const std::string& peer,
                      v1::Ready* ready);

// What the plan says of a contributor that is ready so.
v1::PlanMember PlanMemberOf(const std::string& peer, const std::string& address,
                            const std::string& signing_key, const v1::Ready& ready);

// The proof, as a plan or a Ready brings it.
struct ContributionProof {
  std::string peer;
  std::string root;
  std::string signing_key;
  std::string signature;
};

// INVALID_ARGUMENT: the root is not signed so by the key. Some 100 microseconds.
absl::Status CheckContributionProof(const std::string& run_id, uint64_t version,
                                    const ContributionProof& proof);

// The first four bytes of a root, little-endian: by these a peer knows its own update.
uint32_t RootMark(absl::string_view root);

// Who averages, relays or holds something by the plan.
std::set<std::string> ServersOf(const v1::Plan& plan);

// Brief plans are told to those that serve nobody (v1::Plan): some hundred bytes, however many
// contribute. `servers`: ServersOf(whole).
v1::Plan BriefPlan(const v1::Plan& whole, const std::set<std::string>& servers,
                   const std::string& peer);
inline bool IsBrief(const v1::Plan& plan) { return plan.contributor_count() != 0; }

// -----------------------------------------------------------------------------------------------
// How much an update counts in its round's mean, and what of that a peer may claim.
//
// A weight is tokens trained on, and tokens are what a peer says. Two things bound a lie: it cannot
// have trained on more than the samples that it holds, and no update counts more than a few usual
// ones. Pure functions, any thread.

// An update's share in the mean: its tokens, less for every commit that it missed: tokens / (1 +
// 0.25 age).
float ContributionWeight(uint64_t tokens, uint32_t age);

// INVALID_ARGUMENT, with both numbers: more steps than its `samples` (as many as it holds) are
// batches for, or more tokens than those steps have. Of a run whose spec names no batch or no
// context, what it does not name is not checked.
absl::Status CheckClaims(const v1::RunSpec& spec, const v1::Ready& ready, uint64_t samples);

// Makes weights above `cap` x their median that bound; 0: leaves them. The median is the lower of
// two middle ones. Weights are finite and above 0; so are they afterwards.
void CapWeights(float cap, std::vector<float>* weights);

}  // namespace atolld
