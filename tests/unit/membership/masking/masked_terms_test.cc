#include "membership/masking/masked_terms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace atolld {
namespace {

using ::testing::HasSubstr;

TEST(MaskedTermsTest, APartyTakesNoPartInARunThatTellsBesideTheMasks) {
  // Broken: whoever leads a run could have masks promised, and single updates told.
  v1::RunSpec good;
  good.mutable_privacy()->set_masked(true);
  good.mutable_exchange()->set_aggregation("mean");
  EXPECT_TRUE(CheckMaskedSpec(good).ok()) << CheckMaskedSpec(good);
  good.mutable_privacy()->set_clip_bits(1);
  good.mutable_privacy()->set_place("party");
  EXPECT_TRUE(CheckMaskedSpec(good).ok()) << CheckMaskedSpec(good);
  const std::vector<std::pair<std::function<void(v1::RunSpec*)>, const char*>> cases = {
      {[](v1::RunSpec* s) { s->mutable_exchange()->set_aggregation("median"); }, "robust"},
      {[](v1::RunSpec* s) { s->mutable_exchange()->set_clip_bits(1); }, "clip at"},
      {[](v1::RunSpec* s) { s->mutable_exchange()->set_audit_share_bits(1); }, "audits"},
      {[](v1::RunSpec* s) { s->mutable_exchange()->set_error_feedback(true); }, "feedback"},
      {[](v1::RunSpec* s) { s->mutable_federation()->set_weights("loss"); }, "by the loss"},
      {[](v1::RunSpec* s) { s->mutable_federation()->set_normalised(true); }, "normalised"},
      {[](v1::RunSpec* s) { s->mutable_inner()->set_control_variates(true); }, "variates"},
      {[](v1::RunSpec* s) { s->mutable_privacy()->set_quantile_bits(1); }, "quantile"},
      {[](v1::RunSpec* s) { s->mutable_privacy()->set_place("mean"); }, "noise in the mean"},
  };
  for (const auto& [spoil, what] : cases) {
    v1::RunSpec spec = good;
    spoil(&spec);
    const absl::Status refused = CheckMaskedSpec(spec);
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << what;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(what));
    spec.mutable_privacy()->set_masked(false);
    EXPECT_TRUE(CheckMaskedSpec(spec).ok()) << what;
  }
}

}  // namespace
}  // namespace atolld
