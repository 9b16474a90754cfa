// The production leadership and store, two or three at a time, on a simulated etcd.
#include "tests/sim/etcd_model.h"

#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "daemon/etcd/leadership.h"
#include "gtest/gtest.h"
#include "tests/sim/sim_etcd.h"
#include "tests/sim/sim_world.h"

namespace atolld {
namespace {

// Returns the last lines of what happened in a seed.
std::string StoryOf(uint64_t seed) {
  std::string story;
  RunEtcdModel(seed, [&](const std::string& line) { story += line; });
  constexpr size_t kMost = 2000;
  return story.substr(story.size() - std::min(kMost, story.size()));
}

// Would break: two coordinators lead at a time, a former leader changes rows, an acknowledged
// update is lost or made twice, or in a healed world no coordinator leads.
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

// What a coordinator has heard of its leadership, and whether its loop continues.
struct Led {
  std::shared_ptr<LeaderTerm> term;
  std::string lost;
  bool ticks = true;
};

constexpr absl::Duration kTtl = absl::Seconds(4);

void TickOn(SimWorld& world, Led& led) {
  if (led.ticks && led.term != nullptr) led.term->Tick();
  world.At(kTtl / 16, [&world, &led] { TickOn(world, led); });
}

// `led` must outlive the world.
void BeginToLead(SimWorld& world, SimEtcd& etcd, const std::string& name, Led& led) {
  SimProcess& process = world.AddProcess(name);
  const EtcdAccess access = etcd.AccessOf(process);
  SimThreads& threads = process.threads();
  threads.Start([&threads, &led, access, name] {
    Leadership::Events events;
    events.on_leading = [&led](std::shared_ptr<LeaderTerm> term) { led.term = std::move(term); };
    events.on_lost = [&led](const std::shared_ptr<LeaderTerm>&, const std::string& why) {
      led.lost = why;
    };
    events.on_leader = [](const std::string&) {};
    events.on_trouble = [](const std::string&) {};
    events.on_failed = [](const absl::Status&) {};
    const Leadership leadership({access, "atoll/r/", kTtl, name + ":1", "", 5 * kTtl}, events);
    while (!threads.dead()) threads.Park(absl::InfiniteDuration());
  });
  TickOn(world, led);
}

// Would break: a leader whose loop is stuck decides nothing and prevents others from deciding,
// because a thread beside the loop keeps its lease alive.
TEST(EtcdLeadership, OneWhoseLoopStandsStillLosesItsLeaseToAnother) {
  Led first, second;
  SimWorld world(1);
  SimEtcd etcd(world, 2, absl::Milliseconds(1));
  BeginToLead(world, etcd, "first", first);
  ASSERT_TRUE(world.RunUntil([&] { return first.term != nullptr; }, kTtl));
  BeginToLead(world, etcd, "second", second);
  world.RunFor(30 * kTtl);
  EXPECT_FALSE(first.term->over()) << first.lost;
  EXPECT_EQ(second.term, nullptr);
  first.ticks = false;
  ASSERT_TRUE(world.RunUntil([&] { return second.term != nullptr; }, 3 * kTtl));
  EXPECT_TRUE(first.term->over());
  EXPECT_TRUE(absl::StrContains(first.lost, "its loop stands still")) << first.lost;
  EXPECT_GT(second.term->fence(), first.term->fence());
}

// Would break: a coordinator that reads a long history at its start loses its lease meanwhile, or
// one that hangs there keeps it for ever.
TEST(EtcdLeadership, ATermHasItsTimeUntilTheFirstTick) {
  Led led;
  led.ticks = false;
  SimWorld world(1);
  SimEtcd etcd(world, 2, absl::Milliseconds(1));
  BeginToLead(world, etcd, "only", led);
  ASSERT_TRUE(world.RunUntil([&] { return led.term != nullptr; }, kTtl));
  world.RunFor(4 * kTtl);
  EXPECT_FALSE(led.term->over()) << led.lost;
  world.RunFor(3 * kTtl);
  EXPECT_TRUE(led.term->over());
}

}  // namespace
}  // namespace atolld
