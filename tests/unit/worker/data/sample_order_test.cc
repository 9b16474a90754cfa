#include "worker/data/sample_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

#include "membership/run/leases.h"

namespace atolld {
namespace {

SampleOrder Order(uint64_t seed, uint64_t tokens, uint32_t context) {
  auto order = SampleOrder::Make(seed, tokens, context);
  EXPECT_TRUE(order.ok()) << order.status();
  return *order;
}

// Broken: windows would be skipped or trained on twice in an epoch.
TEST(SampleOrderTest, EveryEpochIsABijection) {
  for (const uint64_t windows : {1, 2, 3, 4, 5, 16, 17, 1000, 4097}) {
    const SampleOrder order = Order(7, (windows + 1) * 8, 8);
    ASSERT_EQ(order.windows(), windows);
    for (const uint64_t epoch : {0, 1, 2}) {
      std::set<uint64_t> seen;
      for (uint64_t position = 0; position < windows; ++position) {
        const uint64_t window = order.Window(epoch, position);
        ASSERT_LT(window, windows);
        seen.insert(window);
      }
      EXPECT_EQ(seen.size(), windows) << "epoch " << epoch;
    }
  }
}

// Broken: `atoll run show` would tell a wrong pass over the data, or a wrong place in it.
TEST(SampleOrderTest, APassIsWhatTheCoordinatorCounts) {
  for (const uint32_t context : {1u, 7u, 8u, 128u}) {
    for (uint64_t tokens = 0; tokens < 1000; tokens += 1 + tokens / 50) {
      const auto order = SampleOrder::Make(1, tokens, context);
      EXPECT_EQ(SamplesAPass(tokens, context), order.ok() ? order->windows() : 0)
          << tokens << " tokens, context " << context;
    }
  }
  EXPECT_EQ(SamplesAPass(1000, 0), 0u);
}

// Broken: an epoch would leave text unread, or read past the split's end.
TEST(SampleOrderTest, AnEpochCoversTheSplitOnce) {
  for (const uint64_t tokens : {9, 10, 15, 16, 17, 23, 24, 100, 1001}) {
    const uint32_t context = 8;
    const SampleOrder order = Order(3, tokens, context);
    for (uint64_t epoch = 0; epoch < 20; ++epoch) {
      std::vector<int> uses(tokens, 0);
      for (uint64_t i = 0; i < order.windows(); ++i) {
        const uint64_t first = order.FirstToken(epoch * order.windows() + i);
        ASSERT_LE(first + context + 1, tokens) << "tokens " << tokens << " epoch " << epoch;
        for (uint64_t j = 0; j < context; ++j) ++uses[first + j];
      }
      for (uint64_t i = 0; i < tokens; ++i) {
        const uint64_t phase = order.Phase(epoch);
        const bool inside = i >= phase && i < phase + order.windows() * context;
        EXPECT_EQ(uses[i], inside ? 1 : 0) << "token " << i;
      }
    }
  }
}

// Broken: two peers would read different text under the same sample number.
TEST(SampleOrderTest, IsAFunctionOfSeedAndSampleAlone) {
  const SampleOrder a = Order(7, 100000, 64), b = Order(7, 100000, 64);
  for (uint64_t sample = 0; sample < 5000; sample += 7) {
    EXPECT_EQ(a.FirstToken(sample), b.FirstToken(sample));
  }
  // Values of the first release: a change of them would mix two orders within one run.
  EXPECT_EQ(a.FirstToken(0), 89109u);
  EXPECT_EQ(a.FirstToken(1), 6677u);
  EXPECT_EQ(a.FirstToken(1u << 20), 90098u);
}

// Broken: all epochs or all seeds would give the same order, so models would see the text in one
// order only.
TEST(SampleOrderTest, EpochsAndSeedsDiffer) {
  const SampleOrder a = Order(7, 100000, 64), b = Order(8, 100000, 64);
  const uint64_t windows = a.windows();
  uint64_t same_epoch = 0, same_seed = 0, neighbours = 0;
  std::set<uint64_t> phases;
  for (uint64_t i = 0; i < windows; ++i) {
    same_epoch += a.Window(0, i) == a.Window(1, i) ? 1 : 0;
    same_seed += a.Window(0, i) == b.Window(0, i) ? 1 : 0;
    neighbours += i > 0 && a.Window(0, i) == a.Window(0, i - 1) + 1 ? 1 : 0;
    phases.insert(a.Phase(i));
  }
  EXPECT_LT(same_epoch, 10u);
  EXPECT_LT(same_seed, 10u);
  EXPECT_LT(neighbours, 10u);
  EXPECT_EQ(phases.size(), 64u);
}

// Broken: a corpus that is too short would crash instead of being named.
TEST(SampleOrderTest, RefusesTooShortASplit) {
  EXPECT_TRUE(SampleOrder::Make(1, 9, 8).ok());
  const auto order = SampleOrder::Make(1, 8, 8);
  EXPECT_TRUE(absl::IsInvalidArgument(order.status()));
  EXPECT_EQ(order.status().message(), "the training split has 8 tokens; one sequence needs 9");
}

}  // namespace

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

// Broken: parties of which nothing is kept would all begin with one pass, or one party with the
// same in each round.
TEST(SampleOrderTest, ThePassOfARoundHangsOnAllThree) {
  EXPECT_EQ(PassOf(1, 2, 3), PassOf(1, 2, 3));
  EXPECT_NE(PassOf(1, 2, 3), PassOf(2, 2, 3));
  EXPECT_NE(PassOf(1, 2, 3), PassOf(1, 3, 3));
  EXPECT_NE(PassOf(1, 2, 3), PassOf(1, 2, 4));
  EXPECT_NE(PassOf(1, 2, 3), PassOf(1, 3, 2));
}

}  // namespace

}  // namespace atolld
