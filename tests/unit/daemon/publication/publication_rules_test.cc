#include "daemon/publication/publication_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace atolld {
namespace {

using ::testing::HasSubstr;

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

}  // namespace
}  // namespace atolld
