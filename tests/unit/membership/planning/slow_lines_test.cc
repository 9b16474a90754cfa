#include "membership/planning/slow_lines.h"

#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace atolld {
namespace {

using Rates = std::map<std::string, double>;

// Would break: a slow line goes on holding all others up, or a fast one is given the coarse codec.
TEST(SlowLines, BelowHalfOfTheMedianIsSlow) {
  SlowLines lines;
  const std::vector<SlowLines::Change> changes =
      lines.Update(Rates{{"a", 100}, {"b", 90}, {"c", 44}, {"d", 46}, {"e", 92}});
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].peer, "c");
  EXPECT_TRUE(changes[0].slow);
  EXPECT_EQ(changes[0].rate, 44);
  EXPECT_EQ(changes[0].median, 90);
  EXPECT_TRUE(lines.Has("c"));
  EXPECT_FALSE(lines.Has("d"));
  EXPECT_FALSE(lines.Has("nobody"));
}

// Would break: of two peers neither or the wrong one; or one alone is slow beside itself.
TEST(SlowLines, OfTwoTheFasterIsTheMeasure) {
  SlowLines lines;
  EXPECT_TRUE(lines.Update(Rates{{"a", 5}}).empty());
  EXPECT_EQ(lines.Update(Rates{{"a", 5}, {"b", 50}}).size(), 1u);
  EXPECT_TRUE(lines.Has("a"));
  EXPECT_FALSE(lines.Has("b"));
}

// Would break: a rate that wavers round the bound changes a peer's codec each round, or what is not
// known makes it fast.
TEST(SlowLines, WhoIsSlowStaysSoUpToThreeQuarters) {
  SlowLines lines;
  lines.Update(Rates{{"a", 100}, {"b", 100}, {"c", 40}});
  EXPECT_TRUE(lines.Update(Rates{{"a", 100}, {"b", 100}, {"c", 60}}).empty());
  EXPECT_TRUE(lines.Update(Rates{{"a", 100}, {"b", 100}, {"c", 0}}).empty());
  EXPECT_TRUE(lines.Has("c"));
  const std::vector<SlowLines::Change> changes =
      lines.Update(Rates{{"a", 100}, {"b", 100}, {"c", 80}});
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_FALSE(changes[0].slow);
  EXPECT_FALSE(lines.Has("c"));
  EXPECT_TRUE(lines.Update(Rates{{"a", 100}, {"b", 100}, {"c", 60}}).empty());
  EXPECT_FALSE(lines.Has("c"));
}

// Would break: `atoll plan` has others send in the smaller codec than the run would.
TEST(SlowLines, OfALinkModelTheContributorsAreCompared) {
  LinkModel links = EqualPeers(4, 100, absl::ZeroDuration());
  PeerLink slow = links.peers()[0];
  slow.name = "slow";
  slow.up = 40;
  links.AddPeer(slow);
  PeerLink aggregator = slow;
  aggregator.name = "aggregator";
  aggregator.contributes = false;
  links.AddPeer(aggregator);
  MarkSlowLines(&links);
  for (const PeerLink& peer : links.peers()) EXPECT_EQ(peer.slow, peer.name == "slow") << peer.name;
}

}  // namespace
}  // namespace atolld
