#include "daemon/peer/hosted_terms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/base/casts.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

v1::RunSpec PrivateSpec(float sampling) {
  v1::RunSpec spec;
  spec.mutable_data()->set_private_(true);
  spec.mutable_privacy()->set_clip_bits(absl::bit_cast<uint32_t>(1.0f));
  spec.mutable_privacy()->set_sampling_bits(absl::bit_cast<uint32_t>(sampling));
  return spec;
}

std::string HostedError(const v1::RunSpec& spec, uint32_t hosted) {
  PartiesConfig parties;
  parties.hosted = hosted;
  return std::string(CheckHosted(spec, parties).message());
}

TEST(HostedTerms, WhoIsInEveryRoundIsRefusedWhereEpsilonCountsOnADraw) {
  // Broken: a party would be in every round of a run whose epsilon counts one in fifty.
  EXPECT_THAT(HostedError(PrivateSpec(0.02f), 0),
              HasSubstr("no more than 2 % of a peer's parties being in a round ([privacy] "
                        "sampling), and this peer is one party, which takes part in every round; "
                        "host at least 50 ([parties] hosted)"));
  EXPECT_THAT(HostedError(PrivateSpec(0.02f), 49),
              HasSubstr("hosts 49 parties, and that share of them is less"));
  EXPECT_EQ(HostedError(PrivateSpec(0.02f), 50), "");
  EXPECT_EQ(HostedError(PrivateSpec(1), 0), "");
  EXPECT_EQ(HostedError(v1::RunSpec(), 0), "");
}

TEST(HostedTerms, PartiesNeedPrivateDataAndNoModeThatGoesOn) {
  // Broken: a peer would train parties that have no data of their own, or from a state of another.
  v1::RunSpec spec = PrivateSpec(1);
  EXPECT_EQ(HostedError(spec, 3), "");
  spec.mutable_mode()->set_kind("eager");
  EXPECT_THAT(HostedError(spec, 3), HasSubstr("in mode 'eager' a worker goes on from its own"));
  EXPECT_EQ(HostedError(spec, 0), "");
  spec.clear_mode();
  spec.mutable_inner()->set_control_variates(true);
  EXPECT_THAT(HostedError(spec, 3), HasSubstr("need [parties] keep = true"));
  spec.clear_data();
  EXPECT_THAT(HostedError(spec, 3), HasSubstr("the run's data is not private"));
}

}  // namespace
}  // namespace atolld
