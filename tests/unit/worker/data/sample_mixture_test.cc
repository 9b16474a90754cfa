#include "worker/data/sample_mixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

namespace atolld {
namespace {

using ::testing::HasSubstr;

SampleMixture Make(const std::vector<uint64_t>& tokens, const std::vector<double>& weights) {
  auto mixture = SampleMixture::Make(7, tokens, weights, 16);
  EXPECT_TRUE(mixture.ok()) << mixture.status();
  return *std::move(mixture);
}

// Broken: a run with one source would train on other windows than before mixtures were.
TEST(SampleMixtureTest, OneSourceIsItsOrder) {
  const SampleMixture mixture = Make({5000}, {3});
  const auto order = SampleOrder::Make(7, 5000, 16);
  for (uint64_t sample = 0; sample < 1000; ++sample) {
    EXPECT_EQ(mixture.Of(sample).source, 0u);
    EXPECT_EQ(mixture.Of(sample).first_token, order->FirstToken(sample));
  }
}

// Broken: a source would be seen more or less often than its weight says, or in lumps.
TEST(SampleMixtureTest, SourcesAreMixedByWeightAndEvenly) {
  const SampleMixture mixture = Make({1000000, 1000000, 1000000}, {0.7, 0.2, 0.1});
  uint64_t counts[3] = {};
  for (uint64_t sample = 0; sample < 2 * SampleMixture::kCycle; ++sample) {
    ++counts[mixture.Of(sample).source];
    for (size_t i = 0; i < 3; ++i) {
      const double due = static_cast<double>((sample + 1) * mixture.slots(i)) /
                         static_cast<double>(SampleMixture::kCycle);
      EXPECT_NEAR(static_cast<double>(counts[i]), due, 2) << "source " << i << " at " << sample;
    }
  }
  EXPECT_EQ(counts[0] + counts[1] + counts[2], 2 * SampleMixture::kCycle);
  EXPECT_NEAR(static_cast<double>(counts[2]), 819, 2);
}

// Broken: within an epoch of a source some windows would be trained on twice, others never.
TEST(SampleMixtureTest, EachSourceIsReadEpochByEpoch) {
  const SampleMixture mixture = Make({16 * 100, 16 * 5000}, {1, 9});
  const uint64_t windows = SampleOrder::Make(7, 16 * 100, 16)->windows();
  std::set<uint64_t> seen;
  for (uint64_t sample = 0; seen.size() < windows; ++sample) {
    ASSERT_LT(sample, 100 * windows);
    const SampleMixture::Place place = mixture.Of(sample);
    if (place.source != 0) continue;
    EXPECT_TRUE(seen.insert(place.first_token).second) << sample;
  }
}

// Broken: a run that reads a small source again and again would not be warned of.
TEST(SampleMixtureTest, EpochsAreOfTheSourceThatIsReadMost) {
  const SampleMixture mixture = Make({16 * 101, 16 * 100001}, {1, 1});
  EXPECT_NEAR(mixture.Epochs(800), 4, 1e-9);
  EXPECT_NEAR(Make({16 * 101}, {1}).Epochs(250), 2.5, 1e-9);
}

// Broken: a source that is too short would end the process, or not be named.
TEST(SampleMixtureTest, NamesWhatIsWrong) {
  const auto short_one = SampleMixture::Make(1, {1000, 10}, {1, 1}, 16);
  EXPECT_EQ(short_one.status().message(),
            "source 2: the training split has 10 tokens; one sequence needs 17");
  EXPECT_THAT(std::string(SampleMixture::Make(1, {1000, 1000}, {1, 0}, 16).status().message()),
              HasSubstr("the weight of source 2 is 0"));
  EXPECT_FALSE(SampleMixture::Make(1, {1000}, {1, 1}, 16).ok());
}

}  // namespace
}  // namespace atolld
