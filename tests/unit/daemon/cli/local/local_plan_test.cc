#include "daemon/cli/local/local_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace atolld {
namespace {

using ::testing::HasSubstr;

TEST(LocalPlanTest, RampsSayHowManyPeersThereAre) {
  // Broken: peers would come or go at another round than the experiment says.
  const auto ramp = ParseRamp("0:2,20:8,40:4");
  ASSERT_TRUE(ramp.ok()) << ramp.status();
  EXPECT_EQ(PeersAt(*ramp, 0, 5), 2u);
  EXPECT_EQ(PeersAt(*ramp, 19, 5), 2u);
  EXPECT_EQ(PeersAt(*ramp, 20, 5), 8u);
  EXPECT_EQ(PeersAt(*ramp, 100, 5), 4u);
  EXPECT_EQ(MostPeers(*ramp, 5), 8u);
  EXPECT_EQ(PeersAt({}, 7, 5), 5u);
  EXPECT_TRUE(ParseRamp("")->empty());
  for (const char* wrong :
       {"20", "20:", ":8", "20:0", "20:2000", "a:b", "20:8,10:4", "20:8,20:4"}) {
    EXPECT_FALSE(ParseRamp(wrong).ok()) << wrong;
  }
  EXPECT_THAT(std::string(ParseRamp("twenty:8").status().message()),
              HasSubstr("ROUND:PEERS, whole numbers, with 1 to 1024 peers, like 20:8"));
}

TEST(LocalPlanTest, LinesFitTheirPeers) {
  // Broken: a slow party would have a fast line, or every party a slow one.
  const auto lines = ParsePeerLines("*=20Mbit/100Mbit,peer-1=2Mbit/,peer-2*=/8Mbit");
  ASSERT_TRUE(lines.ok()) << lines.status();
  const auto caps = [&](const char* peer) {
    MachineConfig machine;
    LimitLine(*lines, peer, &machine);
    return std::make_pair(machine.up_cap, machine.down_cap);
  };
  EXPECT_EQ(caps("peer-7"), std::make_pair(uint64_t{2500000}, uint64_t{12500000}));
  EXPECT_EQ(caps("peer-1"), std::make_pair(uint64_t{250000}, uint64_t{0}));
  EXPECT_EQ(caps("peer-22"), std::make_pair(uint64_t{0}, uint64_t{1000000}));
  EXPECT_FALSE(ParsePeerLines("peer-1").ok());
  EXPECT_FALSE(ParsePeerLines("peer-1=fast/").ok());
  EXPECT_TRUE(MatchesPattern("a*b*", "axxbyy"));
  EXPECT_FALSE(MatchesPattern("a*b", "axxc"));
  EXPECT_TRUE(MatchesPattern("*", ""));
}

TEST(LocalPlanTest, SpeedsAreThePeersInTurn) {
  // Broken: a slow machine would be played fast, a fast one slow, or a slip would play none.
  const auto speeds = ParseSpeeds("1, 2.5,8");
  ASSERT_TRUE(speeds.ok()) << speeds.status();
  EXPECT_EQ(SpeedOf(*speeds, "peer-1"), 1);
  EXPECT_EQ(SpeedOf(*speeds, "peer-2"), 2.5);
  EXPECT_EQ(SpeedOf(*speeds, "peer-3"), 8);
  EXPECT_EQ(SpeedOf(*speeds, "peer-11"), 2.5);
  EXPECT_EQ(LoraRankOf(*ParseLoraRanks("4,8, 16"), "peer-3"), 16u);
  EXPECT_EQ(LoraRankOf(*ParseLoraRanks("4,8,16"), "peer-5"), 8u);
  EXPECT_TRUE(ParseLoraRanks("")->empty());
  EXPECT_FALSE(ParseLoraRanks("4,x").ok());
  EXPECT_TRUE(ParseSpeeds("")->empty());
  for (const char* wrong : {"0.5", "0", "-1", "nan", "inf", "1e9", "1,,2", "1,2,", "fast", "1;2"}) {
    EXPECT_FALSE(ParseSpeeds(wrong).ok()) << wrong;
  }
  EXPECT_THAT(std::string(ParseSpeeds("1,0.5").status().message()),
              HasSubstr("numbers from 1 to 1000 with commas between, like 1,2,4,8, not '0.5'"));
}

TEST(LocalPlanTest, VictimsAreDrawnByTheSeedAlone) {
  // Broken: an experiment could not be repeated, or faults would hit one peer alone.
  std::set<size_t> hit;
  for (uint64_t fault = 1; fault <= 64; ++fault) {
    const size_t victim = DrawVictim(7, "kill", fault, 4);
    EXPECT_EQ(victim, DrawVictim(7, "kill", fault, 4));
    EXPECT_LT(victim, 4u);
    hit.insert(victim);
  }
  EXPECT_EQ(hit.size(), 4u);
  const auto draws = [](uint64_t seed, const char* kind) {
    std::vector<size_t> drawn;
    for (uint64_t fault = 1; fault <= 16; ++fault) {
      drawn.push_back(DrawVictim(seed, kind, fault, 1000));
    }
    return drawn;
  };
  EXPECT_NE(draws(7, "kill"), draws(8, "kill"));
  EXPECT_NE(draws(7, "kill"), draws(7, "pause"));
}

}  // namespace
}  // namespace atolld
