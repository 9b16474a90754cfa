// Entries that cover one fragment after another: what is planned, and who trains anew.
#include "gtest/gtest.h"
#include "tests/unit/membership/run/simulated_peers.h"

namespace atolld {
namespace {

// Of one tensor of 12 x 4,096 values. Before anybody has joined.
void SetFragments(SimulatedPeers* peers, uint32_t fragments) {
  v1::ModeSpec* const mode = peers->stored.spec->mutable_mode();
  mode->set_kind("streaming");
  mode->set_fragments(fragments);
  peers->Restart();
}

// Broken: an exchange would be planned for values that nobody sends, and headers would name no
// fragment or always the same.
TEST(RunFragments, EntriesTakeTheirTurns) {
  SimulatedPeers peers(2, 2);
  SetFragments(&peers, 2);
  peers.Begin({"a", "b"});
  for (uint64_t version = 1; version <= 3; ++version) {
    peers.Clear();
    for (const char* peer : {"a", "b"}) peers.Ready(peer);
    ASSERT_NE(peers.Plan("a"), nullptr) << version;
    EXPECT_EQ(peers.Plan("a")->parameters(), 6u * 4096);
    for (const char* peer : {"a", "b"}) peers.Vote(peer);
    ASSERT_EQ(peers.stored.headers.size(), version);
    const v1::EntryHeader& header = peers.stored.headers.back();
    EXPECT_EQ(header.fragment(), (version - 1) % 2);
    EXPECT_EQ(header.fragments(), 2u);
    EXPECT_EQ(header.range_elements(), 6u * 4096);
  }
}

// Broken: a run would begin that nobody can divide, and its first header would be nobody's.
TEST(RunFragments, AStateThatCannotBeDividedIsNotTaken) {
  SimulatedPeers peers(2, 2);
  SetFragments(&peers, 13);
  peers.JoinAndWork("a");
  peers.InitialState("a");
  EXPECT_FALSE(peers.stored.genesis.has_value());
  bool said = false;
  for (const auto& [session, status] : peers.ended) {
    said = said || status.message().find("12 can") != absl::string_view::npos;
  }
  EXPECT_TRUE(said);
}

// Broken: a peer whose update came too late for its fragment's entry would wait for ever, or count
// in the next one's.
TEST(RunFragments, WhoMissesAnEntryTrainsAnew) {
  for (const uint32_t fragments : {1u, 2u}) {
    SimulatedPeers peers(4, 2);
    SetFragments(&peers, fragments);
    peers.Begin({"a", "b", "c", "d"});
    for (const char* peer : {"a", "b"}) peers.Ready(peer);
    peers.Tick(absl::Seconds(5));
    ASSERT_NE(peers.Plan("a"), nullptr);
    peers.Ready("c");  // the exchange has begun without it
    const uint64_t late = peers.trains["d"];
    const std::vector<v1::SampleRange> trained = peers.samples["d"];
    for (const char* peer : {"a", "b"}) peers.Vote(peer);
    ASSERT_EQ(peers.run->version(), 1u);
    peers.Clear();
    v1::PeerMessage of_before;  // it was on its way
    of_before.mutable_ready()->set_version(1);
    of_before.mutable_ready()->set_train_number(late);
    for (const v1::SampleRange& range : trained) *of_before.mutable_ready()->add_samples() = range;
    peers.Say("d", of_before);
    for (const char* peer : {"c", "d"}) peers.Synced(peer, 1);
    for (const char* peer : {"c", "d"}) {
      ASSERT_NE(peers.Train(peer), nullptr) << peer << ", " << fragments;
      EXPECT_EQ(peers.Train(peer)->version(), 2u);
    }
    peers.Clear();
    peers.Say("d", of_before);  // a second time, which its new Train outdates
    EXPECT_EQ(peers.Train("d"), nullptr);
  }
}

}  // namespace
}  // namespace atolld
