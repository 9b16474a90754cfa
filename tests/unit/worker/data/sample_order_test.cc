#include "worker/data/sample_order.h"

#include <gtest/gtest.h>

#include <set>
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
}  // namespace atolld
