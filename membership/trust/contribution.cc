#include "membership/trust/contribution.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "membership/history/agreement.h"

namespace atolld {
namespace {

constexpr char kContributionDomain[] = "atoll.contribution";

std::string U64(uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  return bytes;
}

// Lengths and numbers as u64, little-endian.
std::string Statement(const std::string& run_id, uint64_t version, const std::string& peer,
                      const std::string& root) {
  return absl::StrCat(U64(run_id.size()), run_id, U64(version), U64(peer.size()), peer, root);
}

// Weight lost per missed commit (docs/protocol.md: a contributor that is left out).
constexpr double kStaleness = 0.25;

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

v1::Plan BriefPlan(const v1::Plan& whole, const std::set<std::string>& servers,
                   const std::string& peer) {
  v1::Plan brief;
  brief.set_contributor_count(static_cast<uint32_t>(whole.contributors_size()));
  brief.set_version(whole.version());
  brief.set_epoch(whole.epoch());
  brief.set_revision(whole.revision());
  brief.set_deadline_milliseconds(whole.deadline_milliseconds());
  brief.set_parameters(whole.parameters());
  brief.set_audit_commitment(whole.audit_commitment());
  brief.set_from_centre(FromCentre(whole));
  *brief.mutable_shards() = whole.shards();
  for (int i = 0; i < whole.contributors_size(); ++i) {
    const v1::PlanMember& member = whole.contributors(i);
    if (member.peer() != peer && servers.count(member.peer()) == 0) continue;
    brief.add_positions(static_cast<uint32_t>(i));
    v1::PlanMember* const out = brief.add_contributors();
    out->set_peer(member.peer());
    out->set_address(member.address());
    out->set_weight_bits(member.weight_bits());
    out->set_scale_bits(member.scale_bits());
    out->set_root_mark(RootMark(member.contribution_root()));
  }
  for (const std::string& lost : whole.lost()) {
    if (lost == peer || servers.count(lost) > 0) brief.add_lost(lost);
  }
  return brief;
}

float ContributionWeight(uint64_t tokens, uint32_t age) {
  return static_cast<float>(static_cast<double>(tokens) /
                            (1.0 + kStaleness * static_cast<double>(age)));
}

absl::Status CheckClaims(const v1::RunSpec& spec, const v1::Ready& ready, uint64_t samples) {
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
