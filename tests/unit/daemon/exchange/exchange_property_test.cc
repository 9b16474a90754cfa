#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/unit/daemon/exchange/swarm.h"

namespace atolld {
namespace {

using Names = std::vector<std::string>;

SwarmSettings Draw(uint64_t seed, SimRandom& random) {
  SwarmSettings settings;
  settings.seed = seed;
  settings.elements = 500 + random.Below(6000);
  settings.chunk_elements = static_cast<uint32_t>(32 + random.Below(400));
  settings.codec = random.Below(3) == 0 ? "fp32" : "int8";
  settings.zstd = random.Below(3) == 0;
  settings.sim.network.link.latency = absl::Microseconds(100 + random.Below(30000));
  settings.sim.network.link.jitter = absl::Microseconds(random.Below(5000));
  settings.sim.network.link.bytes_per_second = 20e3 + static_cast<double>(random.Below(1000000));
  settings.sim.pool.spread = absl::Microseconds(random.Below(3000));
  return settings;
}

// What one seed does: a random plan, given to each peer at a random time; breaks at random bytes;
// perhaps a death and a second revision, late and at different times. Returns the world's digest.
uint64_t RunSeed(uint64_t seed) {
  SimRandom random(seed * 7919 + 1);
  Swarm swarm(Draw(seed, random));
  Names contributors;
  Names names;
  const uint64_t count = 2 + random.Below(4);
  for (uint64_t i = 0; i < count; ++i) {
    contributors.push_back("p" + std::to_string(i));
    swarm.Add(contributors.back());
  }
  names = contributors;
  if (random.Below(4) == 0) {
    names.push_back("aggregator");
    swarm.Add("aggregator", false);
  }
  Names reducers;
  for (const std::string& name : names) {
    if (random.Below(3) != 0) reducers.push_back(name);
  }
  if (reducers.empty()) reducers.push_back(names.back());
  v1::Plan plan = swarm.MakePlan(contributors, reducers);
  for (v1::PlanMember& member : *plan.mutable_contributors()) {
    member.set_weight_bits(BitsOf(static_cast<float>(0.1 + random.Unit() * 1000)));
  }
  const auto give_all = [&](const v1::Plan& given) {
    for (const std::string& name : names) {
      swarm.world.At(absl::Microseconds(random.Below(100000)),
                     [&swarm, name, given] { swarm.Give(name, given); });
    }
  };
  for (uint64_t breaks = random.Below(4); breaks > 0; --breaks) {
    swarm.world.network().BreakCallsAfter(names[random.Below(names.size())],
                                          names[random.Below(names.size())], random.Below(20000));
  }
  give_all(plan);
  Names whole = contributors;
  if (random.Below(2) == 0 && count > 2) {
    const std::string victim = names[random.Below(names.size())];
    swarm.world.RunFor(absl::Microseconds(random.Below(600000)));
    swarm.Kill(victim);
    names.erase(std::find(names.begin(), names.end(), victim));
    whole.erase(std::remove(whole.begin(), whole.end(), victim), whole.end());
    swarm.world.RunFor(absl::Microseconds(random.Below(300000)));
    plan = Swarm::Revise(plan, victim, names[random.Below(names.size())]);
    give_all(plan);
  }
  EXPECT_TRUE(swarm.world.RunUntil([&] { return swarm.Complete(names, plan.revision()); },
                                   absl::Seconds(60)))
      << swarm.world.LogText();
  if (!swarm.Complete(names, plan.revision())) return 0;
  swarm.CheckOutcomes(names, plan, whole);
  for (const std::string& name : names) EXPECT_TRUE(swarm.peer(name).failed.empty());
  return swarm.world.digest();
}

// Would break: agreement, the law of the whole system: every peer takes the same bytes, and they
// are the mean.
TEST(ExchangeProperty, AllAgreeWithTheOracleUnderAnySchedule) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    const uint64_t digest = RunSeed(seed);
    if (seed % 40 == 0) {
      EXPECT_EQ(digest, RunSeed(seed));
    }
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace atolld
