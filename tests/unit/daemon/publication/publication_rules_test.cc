#include "daemon/publication/publication_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/publication/private_run.h"

namespace atolld {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(PublicationRulesTest, PrivateMeansNeedConsentAndLoneUpdatesStay) {
  // Broken: a party's data could be told to everybody by one hasty command.
  SitePlan plan;
  EXPECT_EQ(RulesOf(plan, true).consent, "");
  plan.genesis.mutable_spec()->mutable_data()->set_private_(true);
  EXPECT_THAT(RulesOf(plan, true).consent, HasSubstr("private"));
  EXPECT_EQ(RulesOf(plan, false).consent, "");
  plan.lone_means = 2;
  EXPECT_TRUE(absl::IsFailedPrecondition(RulesOf(plan, true).refusal));
  EXPECT_TRUE(RulesOf(plan, false).refusal.ok());
  v1::PrivacySpec* const privacy = plan.genesis.mutable_spec()->mutable_privacy();
  privacy->set_clip_bits(0x3f800000);
  privacy->set_noise_bits(0x3f800000);
  EXPECT_TRUE(RulesOf(plan, true).refusal.ok());
  EXPECT_EQ(RulesOf(plan, true).consent, "");
}

TEST(PublicationRulesTest, ABranchTellsOfItsParentsData) {
  // Broken: the last state of a private run could be published as the first one of its branch.
  SitePlan plan;
  v1::RunSpec* const spec = plan.genesis.mutable_spec();
  spec->mutable_parent()->set_run_id("secret");
  EXPECT_THAT(RulesOf(plan, true).consent, HasSubstr("secret"));
  EXPECT_EQ(RulesOf(plan, false).consent, "");
  spec->mutable_data()->set_private_(true);
  EXPECT_THAT(RulesOf(plan, true).consent, AllOf(HasSubstr("secret"), HasSubstr("no noise")));
  spec->mutable_privacy()->set_clip_bits(0x3f800000);
  spec->mutable_privacy()->set_noise_bits(0x3f800000);
  EXPECT_THAT(RulesOf(plan, true).consent, AllOf(HasSubstr("secret"), Not(HasSubstr("no noise"))));
}

TEST(PublicationRulesTest, PrivateRunsPublishNoLosses) {
  // Broken: a loss, which has no noise, would tell of data that epsilon is to guard.
  v1::RunSpec spec;
  EXPECT_FALSE(IsPrivateRun(spec));
  spec.mutable_privacy()->set_masked(true);
  EXPECT_TRUE(IsPrivateRun(spec));
  SitePlan plan;
  *plan.genesis.mutable_spec() = spec;
  EXPECT_THAT(RulesOf(plan, false).notes, Contains(HasSubstr("losses are left out")));
}

}  // namespace
}  // namespace atolld
