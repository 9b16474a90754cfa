#include "membership/trust/contribution.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "compression/base/planted_bug.h"
#include "membership/history/agreement.h"
#include "membership/history/step_scalars.h"

namespace atolld {
namespace {

constexpr char kContributionDomain[] = "atoll.contribution";

std::string U64(uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  return bytes;
}

// Lengths and numbers are u64, little-endian.
std::string Statement(const std::string& run_id, uint64_t version, const std::string& peer,
                      const std::string& root) {
  return absl::StrCat(U64(run_id.size()), run_id, U64(version), U64(peer.size()), peer, root);
}

// Returns the weight lost per missed commit (docs/protocol.md: a contributor that is left out).
double StalenessOf(const v1::RunSpec& spec) {
  constexpr double kUsual = 0.25;
  const v1::FederationSpec& federation = spec.federation();
  return federation.has_staleness_bits() ? absl::bit_cast<float>(federation.staleness_bits())
                                         : kUsual;
}

// The bounds of F, in nats.
constexpr double kLeastLoss = 0x1p-20;
constexpr double kLargestLoss = 64;

// Returns the weight as a header stores it: above 0 and finite.
float HeldWeight(double weight) {
  constexpr double kLeast = std::numeric_limits<float>::min();
  constexpr double kMost = std::numeric_limits<float>::max();
  return static_cast<float>(std::min(std::max(weight, kLeast), kMost));
}

// Sums of some thousand weights up to this exponent, times a value, are far below the limit of a
// float. Tokens and samples never leave this range; a loss to a high power does.
constexpr int kUsualExponent = 64;

double HeldLoss(double loss) {
  if (!(loss >= kLeastLoss)) return kLeastLoss;  // true for a NaN as well
  return std::min(loss, kLargestLoss);
}

// Smaller factors have no visible effect, as in update_judge.cc.
constexpr double kLeastFactor = 0x1p-100;

constexpr uint32_t kMostParties = 1000000;  // the limit of [parties] hosted in config_table.cc

// The number of samples that it holds is unknown, so its figures are checked against each other.
absl::Status CheckPrivateClaims(const v1::RunSpec& spec, const v1::Ready& ready) {
  if (ready.parties() > kMostParties) {
    return absl::InvalidArgumentError(absl::StrCat("an update of ", ready.parties(), " parties; ",
                                                   kMostParties, " are the most"));
  }
  const uint64_t batch = spec.inner().batch();
  const uint64_t most = uint64_t{ready.steps()} * batch;
  if (batch != 0 && ready.own_samples() > most) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an update of ", ready.own_samples(), " samples; ", ready.steps(), " steps have ", most));
  }
  const uint64_t samples = ready.own_samples() != 0 ? ready.own_samples() : most;
  const uint64_t context = spec.model().context();
  if (batch == 0 || context == 0 || ready.tokens() <= samples * context) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("an update of ", ready.tokens(), " tokens; ",
                                                 samples, " samples have ", samples * context));
}

}  // namespace

void SignContribution(const SigningKey& key, const std::string& run_id, const std::string& peer,
                      v1::Ready* ready) {
  ready->set_signature(key.Sign(
      kContributionDomain, Statement(run_id, ready->version(), peer, ready->contribution_root())));
}

v1::PlanMember PlanMemberOf(const std::string& peer, const std::string& address,
                            const std::string& signing_key, const v1::Ready& ready) {
  v1::PlanMember member;
  member.set_peer(peer);
  member.set_address(address);
  member.set_contribution_root(ready.contribution_root());
  member.set_steps(ready.steps());
  member.set_tokens(ready.tokens());
  member.set_squared_norm_bits(ready.squared_norm_bits());
  member.set_squared_distance_bits(ready.squared_distance_bits());
  member.set_signature(ready.signature());
  member.set_signing_key(signing_key);
  return member;
}

absl::Status CheckContributionProof(const std::string& run_id, uint64_t version,
                                    const ContributionProof& proof) {
  const std::string statement = Statement(run_id, version, proof.peer, proof.root);
  if (VerifySignature(proof.signing_key, kContributionDomain, statement, proof.signature)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the root of ", proof.peer, "'s update is not signed by its key"));
}

uint32_t RootMark(absl::string_view root) {
  uint32_t mark = 0;
  for (size_t i = 0; i < std::min(root.size(), sizeof(mark)); ++i) {
    mark |= uint32_t{static_cast<unsigned char>(root[i])} << (8 * i);
  }
  return mark;
}

std::set<std::string> ServersOf(const v1::Plan& plan) {
  std::set<std::string> servers;
  for (const v1::Shard& shard : plan.shards()) {
    if (shard.chunks() == 0) continue;
    servers.insert(shard.holder().empty() ? shard.reducer() : shard.holder());
    for (const v1::Relay& relay : shard.relays()) servers.insert(relay.peer());
  }
  return servers;
}

BriefPlans::BriefPlans(const v1::Plan& whole)
    : whole_(whole), servers_(ServersOf(whole)), lost_(whole.lost().begin(), whole.lost().end()) {
  common_.set_contributor_count(static_cast<uint32_t>(whole_.contributors_size()));
  common_.set_version(whole_.version());
  common_.set_epoch(whole_.epoch());
  common_.set_revision(whole_.revision());
  common_.set_deadline_milliseconds(whole_.deadline_milliseconds());
  common_.set_parameters(whole_.parameters());
  common_.set_audit_commitment(whole_.audit_commitment());
  common_.set_from_centre(FromCentre(whole_));
  *common_.mutable_shards() = whole_.shards();
  for (int i = 0; i < whole_.contributors_size(); ++i) {
    const std::string& peer = whole_.contributors(i).peer();
    positions_.emplace(peer, i);
    if (servers_.count(peer) == 0) continue;
    common_.add_positions(static_cast<uint32_t>(i));
    *common_.add_contributors() = MemberAt(i);
  }
  for (const std::string& lost : whole_.lost()) {
    if (servers_.count(lost) > 0) common_.add_lost(lost);
  }
}

v1::PlanMember BriefPlans::MemberAt(int position) const {
  const v1::PlanMember& member = whole_.contributors(position);
  v1::PlanMember out;
  out.set_peer(member.peer());
  out.set_address(member.address());
  out.set_weight_bits(member.weight_bits());
  out.set_scale_bits(member.scale_bits());
  out.set_root_mark(RootMark(member.contribution_root()));
  out.set_owned(member.owned());
  return out;
}

v1::Plan BriefPlans::For(const std::string& peer) const {
  v1::Plan brief = common_;
  const auto found = positions_.find(peer);
  if (found == positions_.end() || servers_.count(peer) > 0) return brief;
  brief.add_positions(static_cast<uint32_t>(found->second));
  *brief.add_contributors() = MemberAt(found->second);
  for (int i = brief.positions_size() - 1; i > 0; --i) {
    if (brief.positions(i - 1) < brief.positions(i)) break;
    brief.mutable_positions()->SwapElements(i - 1, i);
    brief.mutable_contributors()->SwapElements(i - 1, i);
  }
  if (lost_.count(peer) > 0) {
    brief.add_lost(peer);
    std::sort(brief.mutable_lost()->begin(), brief.mutable_lost()->end());
  }
  return brief;
}

double PartyWeight(const v1::RunSpec& spec, uint64_t tokens, uint64_t samples, double loss) {
  const v1::FederationSpec& federation = spec.federation();
  if (federation.weights() == "equal") return 1;
  if (federation.weights() == "loss") {
    const double weight =
        std::pow(HeldLoss(loss), double{absl::bit_cast<float>(federation.fairness_bits())});
    return std::max(weight, std::numeric_limits<double>::min());
  }
  // A peer that does not report the number of sequences has reported tokens.
  const bool by_samples = federation.weights() == "samples" && samples > 0;
  return static_cast<double>(std::max<uint64_t>(1, by_samples ? samples : tokens));
}

double WeightUnit(double weight) {
  int exponent = 0;
  std::frexp(weight, &exponent);
  return std::abs(exponent) <= kUsualExponent ? 1.0 : std::ldexp(1.0, exponent);
}

std::vector<float> HeldWeights(absl::Span<const double> weights) {
  double most = 0;
  for (const double weight : weights) most = std::max(most, weight);
  const double unit = most > 0 ? WeightUnit(most) : 1.0;
  std::vector<float> held;
  for (const double weight : weights) held.push_back(HeldWeight(weight / unit));
  return held;
}

double ContributionWeight(const v1::RunSpec& spec, const v1::Ready& ready, uint64_t samples) {
  const uint64_t trained_on = spec.data().private_() ? ready.own_samples() : samples;
  double weight = PartyWeight(spec, ready.tokens(), trained_on, ready.base_loss());
  if (ready.parties() > 1) {
    const std::string& by = spec.federation().weights();
    const auto parties = static_cast<double>(ready.parties());
    // Tokens and samples are reported as sums already; for a loss the bound is the largest that
    // counts.
    const double most = by == "equal"  ? parties
                        : by == "loss" ? parties * PartyWeight(spec, 0, 0, kLargestLoss)
                                       : weight;
    weight = ready.party_weight() > 0 ? std::min(ready.party_weight(), most) : weight;
  }
  if (!CountsAges(spec)) weight /= 1.0 + StalenessOf(spec) * static_cast<double>(ready.age());
  constexpr double kLeast = std::numeric_limits<double>::min();
  constexpr double kMost = std::numeric_limits<double>::max();
  return std::min(std::max(weight, kLeast), kMost);
}

void WeighAges(const v1::RunSpec& spec, absl::Span<const uint32_t> ages,
               std::vector<float>* weights) {
  if (!CountsAges(spec) || Planted(PlantedBug::kAgeNotWeighed)) return;
  for (size_t i = 0; i < weights->size(); ++i) {
    (*weights)[i] = HeldWeight(double{(*weights)[i]} * AgeFactor(spec, ages[i]));
  }
}

std::vector<double> FederationScales(const v1::RunSpec& spec,
                                     absl::Span<const WeighedUpdate> updates) {
  std::vector<double> scales(updates.size(), 1.0);
  double weights = 0;
  for (const WeighedUpdate& update : updates) weights += update.weight;
  if (!(weights > 0)) return scales;
  if (spec.federation().normalised()) {
    double effective = 0;
    for (const WeighedUpdate& update : updates) {
      effective += update.weight / weights * std::max(1.0, update.steps);
    }
    for (size_t i = 0; i < updates.size(); ++i) {
      scales[i] = effective / std::max(1.0, updates[i].steps);
    }
  }
  if (spec.federation().weights() == "loss" && spec.inner().optimizer() == "sgd") {
    const double q = absl::bit_cast<float>(spec.federation().fairness_bits());
    double lengths = 0;
    for (size_t i = 0; i < updates.size(); ++i) {
      lengths += updates[i].weight / HeldLoss(updates[i].loss) * scales[i] * scales[i] *
                 updates[i].squared_norm;
    }
    const double factor = weights / (weights + q / spec.inner().learning_rate() * lengths);
    for (double& scale : scales) scale *= factor;
  }
  for (double& scale : scales) {
    scale = std::min(std::max(scale, kLeastFactor), double{kLargestUpdateScale});
  }
  return scales;
}

float CarriedShare(const v1::RunSpec& spec, const v1::EntryHeader& header, int position) {
  if (Planted(PlantedBug::kRestNotScaled)) return 1.0f;
  const uint32_t bits = header.contributors(position).scale_bits();
  const double scale = bits == 0 ? 1.0 : double{absl::bit_cast<float>(bits)};
  if (!spec.federation().normalised()) return static_cast<float>(std::min(scale, 1.0));
  std::vector<WeighedUpdate> updates;
  for (const v1::Contributor& contributor : header.contributors()) {
    WeighedUpdate& update = updates.emplace_back();
    update.weight = double{absl::bit_cast<float>(contributor.weight_bits())};
    update.steps = static_cast<double>(contributor.steps()) /
                   std::max(1.0, static_cast<double>(contributor.parties()));
  }
  const double cut = scale / FederationScales(spec, updates)[static_cast<size_t>(position)];
  // The product was rounded to fp32: a value this close to 1 means that nothing was cut.
  return cut > 1 - 1e-6 ? 1.0f : static_cast<float>(cut);
}

absl::Status CheckClaims(const v1::RunSpec& spec, const v1::Ready& ready, uint64_t samples) {
  if (spec.data().private_()) return CheckPrivateClaims(spec, ready);
  if (ready.parties() > 1) {
    return absl::InvalidArgumentError(absl::StrCat("an update of ", ready.parties(),
                                                   " parties; without private data a peer is one"));
  }
  const uint64_t batch = spec.inner().batch();
  const uint64_t trained = uint64_t{ready.steps()} * batch;
  if (trained > samples) {
    return absl::InvalidArgumentError(absl::StrCat("an update of ", ready.steps(), " steps, ",
                                                   trained, " samples; it holds ", samples));
  }
  const uint64_t context = spec.model().context();
  if (batch == 0 || context == 0 || ready.tokens() <= trained * context) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("an update of ", ready.tokens(), " tokens; ",
                                                 ready.steps(), " steps have ", trained * context));
}

void CapWeights(float cap, std::vector<float>* weights) {
  if (cap <= 0 || weights->empty()) return;
  std::vector<float> sorted = *weights;
  std::sort(sorted.begin(), sorted.end());
  const float bound = cap * sorted[(sorted.size() - 1) / 2];
  for (float& weight : *weights) weight = std::min(weight, bound);
}

}  // namespace atolld
