#include "membership/trust/contribution_proof.h"

#include "absl/strings/str_cat.h"

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
                                    const v1::PlanMember& member) {
  const std::string statement =
      Statement(run_id, version, member.peer(), member.contribution_root());
  if (VerifySignature(member.signing_key(), kContributionDomain, statement, member.signature())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the root of ", member.peer(), "'s update is not signed by its key"));
}

absl::Status CheckContributionProofs(const std::string& run_id, const v1::Plan& plan) {
  for (const v1::PlanMember& member : plan.contributors()) {
    if (member.signing_key().empty()) continue;
    const absl::Status signed_by_it = CheckContributionProof(run_id, plan.version(), member);
    if (!signed_by_it.ok()) return signed_by_it;
  }
  return absl::OkStatus();
}

}  // namespace atolld
