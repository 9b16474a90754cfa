// How rounds are planned by what the votes of those before have told.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/membership/run/simulated_peers.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;

const std::vector<std::string> kNames = {"a", "b", "c", "d"};

// What `peer` would have seen come in with these lines, bytes a second, in an exchange of ten
// seconds: of each other's line an equal part.
v1::Arrivals Seen(const std::string& peer, const std::map<std::string, double>& lines) {
  v1::Arrivals arrivals;
  arrivals.set_slot_microseconds(256000);
  arrivals.set_sent_microseconds(10000000);
  for (const auto& [from, rate] : lines) {
    if (from == peer) continue;
    v1::ArrivalsFrom* told = arrivals.add_from();
    told->set_peer(from);
    for (int i = 0; i < 40; ++i) told->add_bytes(static_cast<uint64_t>(0.256 * rate / 3));
  }
  return arrivals;
}

std::vector<uint32_t> Chunks(const v1::Plan& plan) {
  std::map<std::string, uint32_t> by_peer;
  for (const v1::Shard& shard : plan.shards()) by_peer[shard.reducer()] += shard.chunks();
  std::vector<uint32_t> chunks;
  for (const std::string& name : kNames) chunks.push_back(by_peer[name]);
  return chunks;
}

// One round: ready, exchange of ten seconds, votes.
void PlayRound(SimulatedPeers* peers, const std::map<std::string, double>& lines) {
  for (const std::string& name : kNames) peers->Ready(name);
  peers->now += absl::Seconds(10);
  for (const std::string& name : kNames) {
    peers->arrivals = Seen(name, lines);
    peers->Vote(name);
  }
  peers->arrivals.reset();
}

// Would break: shards by what was never measured, or equal ones for ever. 12 chunks; a, b and c can
// send everything in the time in which d sends its own update.
TEST(RunPlanning, ShardsFollowWhatVotesHaveTold) {
  SimulatedPeers peers(4, 3);
  peers.Begin(kNames);
  const std::map<std::string, double> lines = {{"a", 80e3}, {"b", 80e3}, {"c", 80e3}, {"d", 20e3}};
  PlayRound(&peers, lines);
  EXPECT_THAT(Chunks(*peers.Plan("a")), ElementsAre(3, 3, 3, 3));
  EXPECT_EQ(peers.stored.rounds[0].predicted_seconds(), 0);
  EXPECT_EQ(peers.stored.rounds[0].plan(), "flat");
  EXPECT_TRUE(peers.Said("round 1: committed by a, b, c, d; exchange 10.00 s"));
  peers.Clear();
  PlayRound(&peers, lines);
  EXPECT_THAT(Chunks(*peers.Plan("a")), ElementsAre(4, 4, 4, 0));
  EXPECT_TRUE(peers.Said("round 2: the plan is now weighted"));
  EXPECT_EQ(peers.stored.rounds[1].plan(), "weighted");
  EXPECT_GT(peers.stored.rounds[1].predicted_seconds(), 1);
  EXPECT_TRUE(peers.Said("exchange 10.00 s (predicted "));
  EXPECT_NEAR(peers.run->Status(peers.now).peers(3).up_bytes_per_second(), 20e3, 100);
  peers.Clear();
  PlayRound(&peers, lines);
  EXPECT_FALSE(peers.Said("the plan is now"));
}

// Would break: a volunteer's cap that counts from the second round on alone.
TEST(RunPlanning, LimitsCountFromTheFirstRoundOn) {
  SimulatedPeers peers(4, 3);
  for (const std::string& name : kNames) {
    v1::Hello hello = peers.MakeHello(name);
    hello.set_up_rate(name == "d" ? 20000 : 80000);
    hello.set_down_rate(hello.up_rate());
    peers.Join(name, &hello);
    peers.WorkerReady(name);
  }
  peers.InitialState("a");
  for (const std::string& name : kNames) peers.Synced(name, 0);
  for (const std::string& name : kNames) peers.Evaluate(name);
  for (const std::string& name : kNames) peers.Ready(name);
  ASSERT_NE(peers.Plan("a"), nullptr);
  EXPECT_THAT(Chunks(*peers.Plan("a")), ElementsAre(4, 4, 4, 0));
}

// Would break: a peer behind a slow line sends as much as the others, or the history does not say
// what it sent; or a run without such a codec tells it to use one, or stands still since a peer
// says that it did.
TEST(RunPlanning, WhoseLineIsSlowSendsInTheSmallerCodec) {
  for (const char* const codec : {"int4", ""}) {
    SimulatedPeers peers(4, 3);
    peers.stored.spec->mutable_exchange()->set_slow_codec(codec);
    peers.Restart();
    const bool has = *codec != '\0';
    if (!has) peers.says_slow = {"b"};
    peers.Begin(kNames);
    EXPECT_FALSE(peers.Train("d")->slow_codec()) << "nothing is known yet";
    const std::map<std::string, double> lines = {
        {"a", 80e3}, {"b", 80e3}, {"c", 80e3}, {"d", 20e3}};
    PlayRound(&peers, lines);
    PlayRound(&peers, lines);
    EXPECT_EQ(peers.Train("d")->slow_codec(), has);
    EXPECT_FALSE(peers.Train("a")->slow_codec());
    EXPECT_EQ(peers.Said("peer d sends its updates in int4 from its next training on: its line "
                         "carries 0.2 Mbit/s up, the median 0.6 Mbit/s"),
              has);
    PlayRound(&peers, lines);
    ASSERT_EQ(peers.stored.headers.size(), 3u);
    for (const v1::Contributor& one : peers.stored.headers[2].contributors()) {
      EXPECT_EQ(one.slow_codec(), has && one.peer() == "d");
    }
    EXPECT_FALSE(peers.stored.headers[1].contributors(3).slow_codec());
  }
}

// Would break: an exchange in which somebody was missing taken for what lines carry.
TEST(RunPlanning, NothingIsLearnedFromAnExchangeThatNotAllHaveSeen) {
  SimulatedPeers peers(4, 3);
  peers.Begin(kNames);
  for (const std::string& name : kNames) peers.Ready(name);
  for (const char* name : {"a", "b", "c"}) {
    peers.arrivals = Seen(name, {{"a", 80e3}, {"b", 80e3}, {"c", 80e3}, {"d", 20e3}});
    peers.Vote(name);
  }
  peers.Die("d");
  ASSERT_EQ(peers.run->version(), 1u);
  EXPECT_EQ(peers.run->Status(peers.now).peers(0).up_bytes_per_second(), 0);
}

}  // namespace
}  // namespace atolld
