// Leadership and store of production, two or three at a time, on a simulated etcd.
#include "tests/sim/etcd_model.h"

#include <algorithm>
#include <string>

#include "gtest/gtest.h"

namespace atolld {
namespace {

// The last lines of what happened in a seed.
std::string StoryOf(uint64_t seed) {
  std::string story;
  RunEtcdModel(seed, [&](const std::string& line) { story += line; });
  constexpr size_t kMost = 2000;
  return story.substr(story.size() - std::min(kMost, story.size()));
}

// Would break: two lead at a time, a former leader changes rows, or an update that was acknowledged
// is lost or made twice; or, in a healed world, nobody leads.
TEST(EtcdModel, OneLeadsAndNothingIsLost) {
  EtcdModelResult all;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const EtcdModelResult result = RunEtcdModel(seed);
    ASSERT_FALSE(result.violation) << "seed " << seed << ", " << *result.violation << "\n"
                                   << StoryOf(seed);
    all.terms += result.terms;
    all.updates += result.updates;
    all.unknown += result.unknown;
    all.late += result.late;
  }
  // If this failed, seeds would be green for want of trouble.
  EXPECT_GT(all.terms, 300u);
  EXPECT_GT(all.updates, 10000u);
  EXPECT_GT(all.unknown, 60u);
  EXPECT_GT(all.late, 300u);
}

// Would break: a seed that fails could not be run again.
TEST(EtcdModel, OneSeedOneHistory) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const EtcdModelResult first = RunEtcdModel(seed);
    const EtcdModelResult second = RunEtcdModel(seed, [](const std::string&) {});
    EXPECT_EQ(first.digest, second.digest) << "seed " << seed;
    EXPECT_EQ(first.events, second.events) << "seed " << seed;
  }
}

}  // namespace
}  // namespace atolld
