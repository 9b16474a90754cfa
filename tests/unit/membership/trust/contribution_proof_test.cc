#include "membership/trust/contribution_proof.h"

#include <string>

#include "gtest/gtest.h"

namespace atolld {
namespace {

// Would break: a root could be passed off as another peer's, or as of another entry or run; or an
// honest one would be refused.
TEST(ContributionProof, HoldsForOnePeerEntryRunAndRoot) {
  const SigningKey key = SigningKey::FromSeed(std::string(32, 'k')).value();
  v1::Ready ready;
  ready.set_version(7);
  ready.set_contribution_root(std::string(32, 'r'));
  SignContribution(key, "run", "p1", &ready);
  v1::PlanMember member = PlanMemberOf("p1", "p1:1", key.public_key(), ready);
  EXPECT_TRUE(CheckContributionProof("run", 7, member).ok());
  EXPECT_FALSE(CheckContributionProof("other", 7, member).ok());
  EXPECT_FALSE(CheckContributionProof("run", 8, member).ok());
  v1::PlanMember other = member;
  other.set_peer("p2");
  EXPECT_FALSE(CheckContributionProof("run", 7, other).ok());
  other = member;
  other.set_contribution_root(std::string(32, 'R'));
  EXPECT_FALSE(CheckContributionProof("run", 7, other).ok());
  other = member;
  other.set_signing_key(SigningKey::FromSeed(std::string(32, 'K')).value().public_key());
  EXPECT_FALSE(CheckContributionProof("run", 7, other).ok());

  v1::Plan plan;
  plan.set_version(7);
  *plan.add_contributors() = member;
  EXPECT_TRUE(CheckContributionProofs("run", plan).ok());
  *plan.add_contributors() = other;
  EXPECT_FALSE(CheckContributionProofs("run", plan).ok());
}

}  // namespace
}  // namespace atolld
