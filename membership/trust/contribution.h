// What a contributor's word about its update is worth: the proof that an update is its own, and how
// much it counts.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
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

// BriefPlans: what those are told of a plan that serve nobody in it (v1::Plan): some hundred bytes,
// however many contribute.
//
// What they are all told is made once, so that each one's own costs no look at the other
// contributors. Immutable; any thread.
class BriefPlans {
 public:
  explicit BriefPlans(const v1::Plan& whole);

  // ServersOf(whole): these are told the whole one.
  const std::set<std::string>& servers() const { return servers_; }
  // A contributor's, or that of somebody who contributes nothing.
  v1::Plan For(const std::string& peer) const;

 private:
  v1::PlanMember MemberAt(int position) const;

  const v1::Plan whole_;
  const std::set<std::string> servers_;
  const std::set<std::string> lost_;
  std::unordered_map<std::string, int> positions_;  // of the contributors
  v1::Plan common_;                                 // with those that serve
};
inline bool IsBrief(const v1::Plan& plan) { return plan.contributor_count() != 0; }

// -----------------------------------------------------------------------------------------------
// How much an update counts in its round's mean, and what of that a peer may claim.
//
// A weight is made of what a peer says: tokens, samples, a loss. Two things bound a lie: it cannot
// have trained on more than the samples that it holds, and no update counts more than a few usual
// ones. With private data nobody knows what it holds; then its figures must agree with each other,
// and the second bound is all there is. Weights and scales stand in the header: from it anybody
// makes the mean again, whatever they were computed from. Pure functions, any thread.

// What one party counts by, before what it has missed (FederationSpec.weights):
//
//   tokens   the tokens that it trained on (as FedAvg has it: n_k, McMahan et al., 1602.05629)
//   samples  the sequences or rows that it trained on
//   equal    1
//   loss     F^q, q the run's fairness and F the loss of the state that it began from on its own
//            data (q-FedAvg: Li et al., 1905.10497, equation 2 and algorithm 2)
//
// Above 0 and finite. F is held to [2^-20, 64] nats: below is no loss, above is none that a model
// has whose loss is a number.
double PartyWeight(const v1::RunSpec& spec, uint64_t tokens, uint64_t samples, double loss);

// An update's share in the mean, less for every commit that it missed:
//
//   weight / (1 + 0.25 age)
//
// In the modes "delayed" and "async", where most updates miss some, age does not count here:
// WeighAges follows, after the cap, which is to bound what a peer claims and not how fresh it is.
//
// Its weight is that of its party; of the mean of several parties it is the sum of theirs as their
// peer tells it (Ready.party_weight), at most `parties` x the largest weight that one of them can
// have by what else is told. `samples`: as many as were leased for it; 0 with private data, where
// Ready.own_samples tells.
float ContributionWeight(const v1::RunSpec& spec, const v1::Ready& ready, uint64_t samples);

// Of those modes: each weight x exp(-age_decay x age) (membership/history/step_scalars.h), above 0.
// Nothing in another mode. As many ages as weights.
void WeighAges(const v1::RunSpec& spec, absl::Span<const uint32_t> ages,
               std::vector<float>* weights);

// What the rules of a federation multiply updates by, beside their weights.
struct WeighedUpdate {
  double weight = 0;        // as it stands in the header
  double steps = 0;         // inner steps that it is made of; of several parties' mean, one's
  double squared_norm = 0;  // of what is averaged
  double loss = 0;          // F
};

// One factor for each update.
//
// FedNova (Wang et al., 2007.07481, equation 6) where the run is `normalised`: tau_eff / tau_i with
// tau_eff = sum p_i tau_i, p_i = weight_i / sum of weights, tau_i the inner steps (a_i of ones: SGD
// without momentum; an adaptive inner rule is treated the same). Without it: 1.
//
// q-FedAvg with weights 'loss' and SGD as the inner rule. Its step is sum Delta_k / sum h_k,
//   Delta_k = F_k^q L d_k,   h_k = q F_k^(q-1) |L d_k|^2 + L F_k^q,   d_k = w - w_k,
// which is the mean of the d_k by the weights F_k^q, times one factor for all:
//   sum F_k^q / (sum F_k^q + q L sum F_k^(q-1) |d_k|^2)
// L is 1 / the inner learning rate, as the authors take it. It bounds the curvature only where a
// step goes along the gradient by that rate: with other inner rules the factor is 1, and the
// weights alone are left of the rule. A weight that was lowered for its age or by the cap stands in
// for F_k^q in both sums.
//
// Each is above 0 and at most kLargestUpdateScale; where the run is not normalised, at most 1.
std::vector<double> FederationScales(const v1::RunSpec& spec,
                                     absl::Span<const WeighedUpdate> updates);

// INVALID_ARGUMENT, with both numbers: more steps than its `samples` (as many as it holds) are
// batches for, or more tokens than those steps have. Of a run whose spec names no batch or no
// context, what it does not name is not checked. With private data `samples` is not looked at: its
// own samples are held to its steps and its tokens to these; its parties to a million, and in any
// other run to one.
absl::Status CheckClaims(const v1::RunSpec& spec, const v1::Ready& ready, uint64_t samples);

// Makes weights above `cap` x their median that bound; 0: leaves them. The median is the lower of
// two middle ones. Weights are finite and above 0; so are they afterwards.
void CapWeights(float cap, std::vector<float>* weights);

}  // namespace atolld
