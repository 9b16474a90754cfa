// The limits of trust in what a contributor says about its update: the proof that an update is its
// own, and the weight with which an update counts.
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

// The proof of a contribution: a contributor signs the root of each update that it offers for an
// entry.
//
// With this proof and the leaves of the tree, a peer can prove which bytes a contributor has sent,
// to anyone that knows the contributor's key. Pure. May be called from any thread.

// Sets the signature in `ready`, which covers the run, the version, the peer and the root. It does
// not cover the epoch, because an update is encoded only once for an entry, even if the epoch
// changes.
void SignContribution(const SigningKey& key, const std::string& run_id, const std::string& peer,
                      v1::Ready* ready);

// Returns the plan's record of a contributor with this Ready.
v1::PlanMember PlanMemberOf(const std::string& peer, const std::string& address,
                            const std::string& signing_key, const v1::Ready& ready);

// The proof in the form in which a plan or a Ready has it.
struct ContributionProof {
  std::string peer;
  std::string root;
  std::string signing_key;
  std::string signature;
};

// Fails with INVALID_ARGUMENT if the signature is not that of SignContribution. Takes about 100
// microseconds.
absl::Status CheckContributionProof(const std::string& run_id, uint64_t version,
                                    const ContributionProof& proof);

// Returns the first four bytes of a root as a little-endian number, by which a peer recognises its
// own update.
uint32_t RootMark(absl::string_view root);

// Returns the peers that reduce, relay or hold a shard in the plan.
std::set<std::string> ServersOf(const v1::Plan& plan);

// BriefPlans: short forms of a plan, for the peers that neither reduce, relay nor hold a shard (see
// v1::Plan). A brief plan has some hundred bytes, however many peers contribute.
//
// The part that all brief plans share is made once, so the time to make one peer's plan does not
// depend on the number of contributors. Immutable, therefore thread-safe.
class BriefPlans {
 public:
  explicit BriefPlans(const v1::Plan& whole);

  // The peers that must get the whole plan: ServersOf(whole).
  const std::set<std::string>& servers() const { return servers_; }
  // Returns the brief plan for a peer, which need not be a contributor.
  v1::Plan For(const std::string& peer) const;

 private:
  v1::PlanMember MemberAt(int position) const;

  const v1::Plan whole_;
  const std::set<std::string> servers_;
  const std::set<std::string> lost_;
  // The position of each contributor in the plan.
  std::unordered_map<std::string, int> positions_;
  v1::Plan common_;  // includes the records of the servers
};
inline bool IsBrief(const v1::Plan& plan) { return plan.contributor_count() != 0; }

// -----------------------------------------------------------------------------------------------
// Weights: how much an update counts in its round's mean, and what limits the claims of its peer.
//
// A weight is computed from figures that a peer reports: tokens, samples and a loss. Two things
// limit a lie. The peer cannot have trained on more samples than it holds, and a cap keeps an
// update from counting more than a few usual updates. With private data the number of samples that
// a peer holds is unknown; its figures must then only agree with each other, and the cap is the
// only limit. Anyone can recompute the mean, because the header has the weights and scales. Pure.
// May be called from any thread.

// Returns the weight of one party, before it is reduced for missed commits. It depends on
// FederationSpec.weights:
//
//   tokens   the tokens that it trained on (as in FedAvg: n_k, McMahan et al., 1602.05629)
//   samples  the sequences or rows that it trained on
//   equal    1
//   loss     F^q, with q the run's fairness and F the loss, on its own data, of the state that it
//            began from (q-FedAvg: Li et al., 1905.10497, equation 2 and algorithm 2)
//
// The weight is above 0 and finite. F is clamped to [2^-20, 64] nats, a range that no real loss
// leaves.
double PartyWeight(const v1::RunSpec& spec, uint64_t tokens, uint64_t samples, double loss);

// Returns an update's weight in the mean, which is less for every commit that the update missed:
//
//   weight / (1 + 0.25 age)
//
// In the modes "delayed" and "async", in which most updates miss some commits, this function
// ignores the age. WeighAges is applied after the cap instead, because the cap is meant to limit a
// peer's claims and not the effect of age.
//
// `weight` is PartyWeight of the update's party. If the update is the mean of several parties, it
// is the sum of their weights, which the peer reports (Ready.party_weight), but at most the number
// of parties x the largest weight that one party can have according to the peer's other figures.
// `samples` is the number of samples leased for the update, or 0 with private data, where
// Ready.own_samples counts instead. The result is above 0 and finite.
double ContributionWeight(const v1::RunSpec& spec, const v1::Ready& ready, uint64_t samples);

// Returns the unit in which weights up to this one are stored, so that floats can hold their sums:
// 1 for weights between 2^-65 and 2^64, otherwise the next greater power of two. A mean does not
// depend on the unit.
double WeightUnit(double weight);
// Returns a round's weights in the form in which a header stores them, in units of WeightUnit of
// the largest weight. For example, a float cannot hold the weight 5^60, but it can hold such
// weights in that unit.
std::vector<float> HeldWeights(absl::Span<const double> weights);

// In the modes "delayed" and "async", multiplies each weight by exp(-age_decay x age)
// (membership/history/step_scalars.h), and keeps it above 0. Does nothing in other modes. There
// must be as many ages as weights.
void WeighAges(const v1::RunSpec& spec, absl::Span<const uint32_t> ages,
               std::vector<float>* weights);

// The figures of an update from which FederationScales computes its factor.
struct WeighedUpdate {
  double weight = 0;  // the weight in the header
  // The inner steps of the update; if it is the mean of several parties, the steps of one party.
  double steps = 0;
  double squared_norm = 0;  // the squared norm of the averaged vector
  double loss = 0;          // the F of PartyWeight
};

// Returns one factor for each update.
//
// FedNova (Wang et al., 2007.07481, equation 6) if the run is `normalised`: tau_eff / tau_i with
// tau_eff = sum p_i tau_i, p_i = weight_i / sum of weights, tau_i the inner steps (a_i of ones: SGD
// without momentum; an adaptive inner rule is treated in the same way). Otherwise this factor is 1.
//
// q-FedAvg, if the setting `weights` is "loss" and the inner rule is SGD. Its step is sum Delta_k /
// sum h_k,
//   Delta_k = F_k^q L d_k,   h_k = q F_k^(q-1) |L d_k|^2 + L F_k^q,   d_k = w - w_k,
// which is the mean of the d_k by the weights F_k^q, times one factor for all:
//   sum F_k^q / (sum F_k^q + q L sum F_k^(q-1) |d_k|^2)
// L is 1 / the inner learning rate, as in the authors' experiments. It bounds the curvature only if
// a step follows the gradient at that rate. With other inner rules the factor is therefore 1, and
// only the weights of the rule are used. If a weight was lowered for its age or by the cap, the
// lowered weight replaces F_k^q in both sums.
//
// Each factor is above 0 and at most kLargestUpdateScale. If the run is not normalised, it is at
// most 1.
std::vector<double> FederationScales(const v1::RunSpec& spec,
                                     absl::Span<const WeighedUpdate> updates);

// Returns the share of its encoding error that the peer at `position` of an entry's contributors
// carries into its next update (see compression/error_feedback.h). It is the scale by which
// UpdateJudge cut the peer's update. The header has the product of this scale and FedNova's factor,
// so this function computes FedNova's factor from the header's figures and divides by it. If the
// entry lost contributors of its plan, that factor is only approximate. q-FedAvg's factor, which is
// the same for all updates of an entry, cannot be distinguished from a cut and is treated as one.
// The result is above 0 and at most 1.
float CarriedShare(const v1::RunSpec& spec, const v1::EntryHeader& header, int position);

// Fails with INVALID_ARGUMENT if the update claims more steps than there are batches in `samples`
// (the number that the peer holds), or more tokens than those steps have; the message names both
// numbers. If the run's spec gives no batch or no context, the figures that depend on it are not
// checked. With private data `samples` is not used: the steps are checked against the number of
// samples that the peer itself reports, and the tokens against the steps. A peer may claim up to a
// million parties with private data, and one otherwise.
absl::Status CheckClaims(const v1::RunSpec& spec, const v1::Ready& ready, uint64_t samples);

// Lowers all weights above `cap` x their median to that bound; a `cap` of 0 changes nothing. If
// there are two middle values, the median is the lower one. Weights must be finite and above 0, and
// remain so.
void CapWeights(float cap, std::vector<float>* weights);

}  // namespace atolld
