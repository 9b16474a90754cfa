#include "membership/run/participation.h"

#include <algorithm>
#include <map>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace atolld {
namespace {

v1::RunSpec DrawnSpec(float share, float drop, uint64_t seed = 1) {
  v1::RunSpec spec;
  spec.set_seed(seed);
  if (share != 1) {
    spec.mutable_federation()->set_participation_bits(absl::bit_cast<uint32_t>(share));
  }
  if (drop != 0) spec.mutable_federation()->set_drop_bits(absl::bit_cast<uint32_t>(drop));
  return spec;
}

std::vector<std::string> HundredPeers() {
  std::vector<std::string> peers;
  for (int i = 0; i < 100; ++i) peers.push_back(absl::StrCat("p", i));
  return peers;
}

// Broken: a run that says nothing of it would leave peers out.
TEST(ParticipationTest, OfARunWithoutItEverybodyTakesPart) {
  const Participation all(v1::RunSpec{});
  EXPECT_FALSE(all.draws());
  EXPECT_FALSE(all.drops());
  EXPECT_EQ(all.Number(7), 7u);
  EXPECT_FALSE(all.Dropped(1, "a"));
  EXPECT_EQ(all.RoundsAtOnce(1, 9, "a"), 1u);
}

// Broken: the budget of a private run would count on more updates, and their noise, than come.
TEST(ParticipationTest, TheFewestUpdatesOfARound) {
  EXPECT_EQ(Participation(DrawnSpec(1, 0)).Fewest(5), 5u);
  EXPECT_EQ(Participation(DrawnSpec(0.5f, 0)).Fewest(5), 3u);
  EXPECT_EQ(Participation(DrawnSpec(0.5f, 0.1f)).Fewest(5), 1u);
}

// Broken: a share would be rounded to another number of peers, or to nobody.
TEST(ParticipationTest, NumbersAreRoundedUp) {
  EXPECT_EQ(Participation(DrawnSpec(0.3f, 0)).Number(10), 3u);
  EXPECT_EQ(Participation(DrawnSpec(0.1f, 0)).Number(1000), 100u);
  EXPECT_EQ(Participation(DrawnSpec(0.02f, 0)).Number(1000), 20u);
  EXPECT_EQ(Participation(DrawnSpec(0.5f, 0)).Number(5), 3u);
  EXPECT_EQ(Participation(DrawnSpec(0.01f, 0)).Number(3), 1u);
  EXPECT_EQ(Participation(DrawnSpec(0.01f, 0)).Number(0), 0u);
}

// Broken: some would be drawn more often than others, or a draw would depend on who asks.
TEST(ParticipationTest, DrawsAreFairAndTheSameForEverybody) {
  const Participation parties(DrawnSpec(0.1f, 0));
  std::map<std::string, int> times;
  for (uint64_t version = 1; version <= 1000; ++version) {
    const std::vector<std::string> order = parties.Order(version, HundredPeers());
    std::vector<std::string> backwards = HundredPeers();
    std::reverse(backwards.begin(), backwards.end());
    ASSERT_EQ(parties.Order(version, backwards), order);
    for (size_t i = 0; i < 10; ++i) ++times[order[i]];
  }
  EXPECT_EQ(times.size(), 100u);
  for (const auto& [peer, number] : times) {
    EXPECT_GT(number, 60) << peer;  // 100 +- 9.5
    EXPECT_LT(number, 140) << peer;
  }
  const Participation other(DrawnSpec(0.1f, 0, 2));
  EXPECT_NE(other.Order(1, HundredPeers()), parties.Order(1, HundredPeers()));
}

// Broken: another share of the updates would be dropped than the run says.
TEST(ParticipationTest, DropsAreAsOftenAsTheySay) {
  const Participation parties(DrawnSpec(1, 0.3f));
  int dropped = 0;
  for (uint64_t version = 1; version <= 100; ++version) {
    for (const std::string& peer : HundredPeers()) {
      dropped += parties.Dropped(version, peer) ? 1 : 0;
    }
  }
  EXPECT_NEAR(dropped, 3000, 5 * 46);  // the standard deviation is 46
}

// Broken: a peer would stop in a round in which nobody takes its update, or train beyond the run.
TEST(ParticipationTest, WhoIsDroppedTrainsForTheNextRoundsAtOnce) {
  const Participation parties(DrawnSpec(1, 0.6f));
  for (uint64_t version = 1; version < 200; ++version) {
    const uint32_t rounds = parties.RoundsAtOnce(version, 1000, "a");
    for (uint32_t i = 0; i + 1 < rounds; ++i) EXPECT_TRUE(parties.Dropped(version + i, "a"));
    EXPECT_FALSE(parties.Dropped(version + rounds - 1, "a"));
    EXPECT_EQ(parties.RoundsAtOnce(version, version, "a"), 1u);
  }
}

}  // namespace
}  // namespace atolld
