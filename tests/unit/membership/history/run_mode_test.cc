#include "membership/history/run_mode.h"

#include <limits>
#include <string>

#include "absl/base/casts.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

v1::RunSpec SpecOfMode(const std::string& kind, uint32_t overlap = 0) {
  v1::RunSpec spec;
  if (kind.empty()) return spec;
  spec.mutable_mode()->set_kind(kind);
  spec.mutable_mode()->set_overlap_steps(overlap);
  return spec;
}

// Would break: a run without a pipeline is given one, or the other way round.
TEST(RunMode, SaysWhoTrainsAhead) {
  EXPECT_FALSE(TrainsAhead(SpecOfMode("")));
  EXPECT_FALSE(TrainsAhead(SpecOfMode("async")));
  EXPECT_FALSE(TrainsAhead(SpecOfMode("streaming", 0)));
  EXPECT_TRUE(TrainsAhead(SpecOfMode("streaming", 1)));
  EXPECT_TRUE(TrainsAhead(SpecOfMode("delayed")));
  EXPECT_TRUE(TrainsAhead(SpecOfMode("eager")));
  EXPECT_TRUE(IsStreaming(SpecOfMode("streaming")));
  EXPECT_FALSE(IsStreaming(SpecOfMode("delayed")));
}

// Would break: a peer would train as in mode "sync" in a run of a later release's mode, or a worker
// would be told a share that it ends for.
TEST(RunMode, ARunOfAModeThatNobodyHereKnowsIsRefused) {
  for (const char* kind : {"", "sync", "streaming", "eager", "delayed", "async"}) {
    EXPECT_TRUE(CheckMode(SpecOfMode(kind)).ok()) << kind;
  }
  EXPECT_THAT(std::string(CheckMode(SpecOfMode("streamign")).message()),
              HasSubstr("did you mean \"streaming\"?"));
  const auto refused = [](void (v1::ModeSpec::*set)(uint32_t), float value) {
    v1::RunSpec spec = SpecOfMode("streaming");
    (spec.mutable_mode()->*set)(absl::bit_cast<uint32_t>(value));
    return std::string(CheckMode(spec).message());
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(refused(&v1::ModeSpec::set_merge_bits, 0.5f), "");
  for (const float merge : {1.0f, -0.5f, nan}) {
    EXPECT_THAT(refused(&v1::ModeSpec::set_merge_bits, merge), HasSubstr("its merge is"));
  }
  for (const float below : {-1.0f, nan}) {
    EXPECT_THAT(refused(&v1::ModeSpec::set_age_decay_bits, below), HasSubstr("its age_decay is"));
    EXPECT_THAT(refused(&v1::ModeSpec::set_momentum_clip_bits, below),
                HasSubstr("its momentum_clip is"));
    v1::RunSpec spec = SpecOfMode("sync");
    spec.mutable_federation()->set_staleness_bits(absl::bit_cast<uint32_t>(below));
    EXPECT_THAT(std::string(CheckMode(spec).message()), HasSubstr("its staleness is"));
  }
}

// Would break: an update of a state that its mode does not know counts, or an honest one does not.
TEST(RunMode, AnUpdateMissesOneEntryAtMostAndOnlyWhereTheModeSaysSo) {
  for (const char* kind : {"delayed", "eager"}) {
    EXPECT_TRUE(MayBeBase(SpecOfMode(kind), 5, 4));
    EXPECT_TRUE(MayBeBase(SpecOfMode(kind), 5, 3));
    EXPECT_FALSE(MayBeBase(SpecOfMode(kind), 5, 2));
    EXPECT_FALSE(MayBeBase(SpecOfMode(kind), 5, 5));
    EXPECT_FALSE(MayBeBase(SpecOfMode(kind), 1, UINT64_MAX));
  }
  for (const char* kind : {"", "streaming", "async"}) {
    EXPECT_TRUE(MayBeBase(SpecOfMode(kind, 1), 5, 4));
    EXPECT_FALSE(MayBeBase(SpecOfMode(kind, 1), 5, 3));
  }
  v1::Ready ready;
  ready.set_version(5);
  ready.set_base_version(3);
  EXPECT_FALSE(IsBaseTold(SpecOfMode("delayed"), ready)) << "it says that it has missed nothing";
  ready.set_age(1);
  EXPECT_TRUE(IsBaseTold(SpecOfMode("delayed"), ready));
}

}  // namespace
}  // namespace atolld
