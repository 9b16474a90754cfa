#include "membership/planning/link_estimates.h"

#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace atolld {
namespace {

constexpr uint64_t kSlot = 128000;  // microseconds
constexpr double kSlotSeconds = 0.128;
constexpr double kLeast = 1e5;
constexpr double kOpeningSlotSeconds = 0.008;
constexpr double kLeastOpening = 1e5;

// An exchange as its contributors tell it.
class LinkScene {
 public:
  explicit LinkScene(std::map<std::string, std::string> region_of)
      : regions_(std::move(region_of)) {
    for (const auto& [peer, region] : regions_) told_[peer].set_slot_microseconds(kSlot);
  }

  // From slot `begin` to `end` at so many bytes a second.
  void Flow(const std::string& from, const std::string& to, int begin, int end, double rate) {
    v1::ArrivalsFrom* told = Told(from, to);
    while (told->bytes_size() < end) told->add_bytes(0);
    for (int i = begin; i < end; ++i) {
      told->set_bytes(i, told->bytes(i) + static_cast<uint64_t>(rate * kSlotSeconds));
    }
  }
  // The same of the opening's short slots alone.
  void Opening(const std::string& from, const std::string& to, int begin, int end, double rate) {
    v1::ArrivalsFrom* told = Told(from, to);
    while (told->opening_size() < end) told->add_opening(0);
    for (int i = begin; i < end; ++i) {
      told->set_opening(i, told->opening(i) + static_cast<uint64_t>(rate * kOpeningSlotSeconds));
    }
  }
  void Open(const std::string& from, const std::string& to, absl::Duration at) {
    Told(from, to)->set_opened(true);
    Told(from, to)->set_opened_microseconds(absl::ToInt64Microseconds(at));
  }
  // Of so many chunks that `at` averaged, so many waited for each of these.
  void Waited(const std::string& at, uint64_t averaged,
              const std::map<std::string, uint64_t>& chunks) {
    told_.at(at).set_averaged_chunks(averaged);
    for (const auto& [peer, waited] : chunks) Told(peer, at)->set_waited_chunks(waited);
  }
  v1::Arrivals& told(const std::string& peer) { return told_.at(peer); }

  bool NoteIn(LinkEstimates* estimates) const {
    std::vector<ExchangeWitness> witnesses;
    for (const auto& [peer, region] : regions_) {
      witnesses.push_back({peer, region, &told_.at(peer)});
    }
    return estimates->Note(witnesses, kLeast, kLeastOpening);
  }

  std::vector<KnownPeer> Peers() const {
    std::vector<KnownPeer> peers;
    for (const auto& [peer, region] : regions_) peers.push_back({peer, region});
    return peers;
  }

 private:
  v1::ArrivalsFrom* Told(const std::string& from, const std::string& to) {
    for (v1::ArrivalsFrom& told : *told_.at(to).mutable_from()) {
      if (told.peer() == from) return &told;
    }
    v1::ArrivalsFrom* told = told_.at(to).add_from();
    told->set_peer(from);
    return told;
  }

  std::map<std::string, std::string> regions_;
  std::map<std::string, v1::Arrivals> told_;
};

// Would break: a line taken for as slow as one of the streams that share it, or a wait taken for
// slowness.
TEST(LinkEstimates, ALineIsWhatItsStreamsCarryTogetherAtTheirBest) {
  LinkScene scene({{"a", ""}, {"b", ""}, {"c", ""}});
  scene.Flow("a", "b", 0, 10, 4e6);
  scene.Flow("a", "c", 0, 10, 6e6);
  scene.Flow("a", "c", 30, 40, 1e6);  // with a long wait before it
  scene.told("b").set_update_bytes(1000000);
  LinkEstimates estimates;
  ASSERT_TRUE(scene.NoteIn(&estimates));
  EXPECT_NEAR(estimates.Up("a"), 10e6, 1e2);
  EXPECT_NEAR(estimates.Down("b"), 4e6, 1e2);
  EXPECT_NEAR(estimates.Down("c"), 6e6, 1e2);
  EXPECT_EQ(estimates.Up("b"), 0);  // it sent nothing: not known
  const double all = 10e6 * 10 * kSlotSeconds + 1e6 * 10 * kSlotSeconds;
  EXPECT_EQ(estimates.arrived_updates(), 1e6);
  EXPECT_NEAR(estimates.arrived_means(), all - 1e6, 1e3);
}

// Would break: where all wait for one slow line, every line would be taken for as slow, and the
// slow one would be given as much to reduce.
TEST(LinkEstimates, WhatWaitsForASlowLineShowsItsRateInTheOpening) {
  LinkScene scene({{"a", ""}, {"b", ""}, {"c", ""}});
  scene.Flow("a", "b", 0, 40, 0.5e6);
  scene.Opening("a", "b", 4, 8, 8e6);
  scene.Opening("a", "c", 4, 8, 4e6);
  scene.Opening("a", "b", 8, 60, 0.2e6);
  LinkEstimates estimates;
  ASSERT_TRUE(scene.NoteIn(&estimates));
  EXPECT_NEAR(estimates.Up("a"), 12e6, 1e5);
  EXPECT_NEAR(estimates.Down("b"), 8e6, 1e5);
}

// Would break: a burst that a buffer let through at once, or a few chunks that came together by
// chance, taken for the rate of a line that was busy all the time.
TEST(LinkEstimates, TheOpeningOfALineThatIsBusyAnywayDoesNotCount) {
  LinkScene scene({{"a", ""}, {"b", ""}, {"c", ""}});
  scene.Flow("a", "b", 0, 40, 4e6);
  scene.Opening("a", "b", 0, 60, 5e6);
  scene.Flow("b", "a", 0, 40, 4e6);
  scene.Opening("b", "a", 0, 2, 5e6);  // 80 kB, less than what counts
  scene.Flow("c", "a", 0, 40, 1e3);
  LinkEstimates estimates;
  ASSERT_TRUE(scene.NoteIn(&estimates));
  EXPECT_NEAR(estimates.Up("a"), 4e6, 1e4);
  EXPECT_NEAR(estimates.Up("b"), 4e6, 1e4);
}

// Would break: predictions that are too short by the luck of the best moment.
TEST(LinkEstimates, ARateThatIsKeptUpIsTakenOverMore) {
  LinkScene scene({{"a", ""}, {"b", ""}, {"c", ""}});
  for (int i = 0; i < 40; ++i) scene.Flow("a", "b", i, i + 1, i % 8 < 2 ? 0.46e6 : 0.4e6);
  scene.Flow("b", "c", 0, 2, 4e6);  // and then nothing: a line that had nothing more to carry
  LinkEstimates estimates;
  ASSERT_TRUE(scene.NoteIn(&estimates));
  EXPECT_LT(estimates.Up("a"), 0.435e6);
  EXPECT_NEAR(estimates.Up("b"), 4e6, 1e2);
}

// Would break: one burst believed for ever, or one slow round believed at once.
TEST(LinkEstimates, TheBestOfTheLastEightExchangesCounts) {
  LinkEstimates estimates;
  const auto note = [&](double rate) {
    LinkScene scene({{"a", ""}, {"b", ""}});
    scene.Flow("a", "b", 0, 20, rate);
    ASSERT_TRUE(scene.NoteIn(&estimates));
  };
  note(9e6);
  for (int i = 0; i < 7; ++i) {
    note(3e6);
    EXPECT_NEAR(estimates.Up("a"), 9e6, 1e2);
  }
  note(3e6);
  EXPECT_NEAR(estimates.Up("a"), 3e6, 1e2);
}

// Would break: peers that tell of times in other slots, as those that voted later do.
TEST(LinkEstimates, SlotsOfDifferentLengthsAreBroughtTogether) {
  LinkScene scene({{"a", ""}, {"b", ""}, {"c", ""}});
  scene.Flow("a", "b", 0, 20, 2e6);
  scene.told("c").set_slot_microseconds(2 * kSlot);
  scene.Flow("a", "c", 0, 10, 2 * 2e6);  // twice the bytes in a slot that is twice as long
  LinkEstimates estimates;
  ASSERT_TRUE(scene.NoteIn(&estimates));
  EXPECT_NEAR(estimates.Up("a"), 4e6, 1e2);
}

// Would break: a coordinator that believes, or dies of, what no honest peer says.
TEST(LinkEstimates, NonsenseTeachesNothing) {
  const std::map<std::string, std::string> two = {{"a", ""}, {"b", ""}};
  for (int kind = 0; kind < 8; ++kind) {
    LinkScene scene(two);
    scene.Flow("a", "b", 0, 20, 2e6);
    v1::Arrivals& told = scene.told("b");
    if (kind == 0) told.set_slot_microseconds(0);
    if (kind == 1) told.set_slot_microseconds(kSlot / 2 + 1);
    if (kind == 2) scene.Flow("a", "b", 0, 65, 1e6);
    if (kind == 3) told.mutable_from(0)->set_bytes(3, UINT64_MAX);
    if (kind == 4) *told.add_from() = told.from(0);
    if (kind == 5) told.set_update_bytes(UINT64_MAX);  // more than came in
    if (kind == 6) scene.Opening("a", "b", 0, 65, 1e6);
    if (kind == 7) told.mutable_from(0)->add_opening(UINT64_MAX);
    LinkEstimates estimates;
    EXPECT_FALSE(scene.NoteIn(&estimates)) << kind;
    EXPECT_EQ(estimates.Up("a"), 0) << kind;
    EXPECT_FALSE(estimates.Model(scene.Peers()).has_value()) << kind;
  }
}

// Two regions of two: their own lines carry 10 MB/s, what is between them 2 MB/s.
LinkScene NarrowBetween() {
  LinkScene scene({{"a1", "a"}, {"a2", "a"}, {"b1", "b"}, {"b2", "b"}});
  scene.Flow("a1", "a2", 0, 4, 10e6);
  scene.Flow("a2", "a1", 0, 4, 10e6);
  scene.Flow("b1", "b2", 0, 4, 10e6);
  scene.Flow("b2", "b1", 0, 4, 10e6);
  for (const char* a : {"a1", "a2"}) {
    for (const char* b : {"b1", "b2"}) {
      scene.Flow(a, b, 0, 40, 0.5e6);
      scene.Flow(b, a, 0, 40, 0.5e6);
    }
  }
  return scene;
}

// Would break: hierarchy that is never seen to pay, because nobody knows what is narrow.
TEST(LinkEstimates, ALinkLimitsWhereTheLinesOnBothSidesHaveRoom) {
  const LinkScene scene = NarrowBetween();
  LinkEstimates estimates;
  ASSERT_TRUE(scene.NoteIn(&estimates));
  const std::optional<LinkModel> model = estimates.Model(scene.Peers());
  ASSERT_TRUE(model.has_value());
  ASSERT_EQ(model->links().size(), 2u);
  EXPECT_EQ(model->links()[0].name, "a>b");
  EXPECT_NEAR(model->links()[0].rate, 2e6, 1e3);
  EXPECT_NEAR(model->links()[1].rate, 2e6, 1e3);
  EXPECT_NEAR(model->peers()[0].up, 11e6, 1e3);  // to its own region and to the other at once
}

// Would break: a slow home taken for a narrow link, so that plans avoid a link that is wide.
TEST(LinkEstimates, ASlowLineIsNoNarrowLink) {
  LinkScene scene({{"a1", "a"}, {"b1", "b"}, {"b2", "b"}});
  scene.Flow("a1", "b1", 0, 40, 0.5e6);  // all that a1 can send
  scene.Flow("a1", "b2", 0, 40, 0.5e6);
  scene.Flow("b1", "b2", 0, 10, 9e6);
  LinkEstimates estimates;
  ASSERT_TRUE(scene.NoteIn(&estimates));
  const std::optional<LinkModel> model = estimates.Model(scene.Peers());
  ASSERT_TRUE(model.has_value());
  EXPECT_GT(model->links()[0].rate, 1e12);
  EXPECT_NEAR(model->peers()[0].up, 1e6, 1e2);
}

// Would break: a link once narrow that is planned around for ever.
TEST(LinkEstimates, ALinkThatCarriesMoreIsNoLongerTheLimit) {
  LinkEstimates estimates;
  ASSERT_TRUE(NarrowBetween().NoteIn(&estimates));
  LinkScene wide({{"a1", "a"}, {"a2", "a"}, {"b1", "b"}, {"b2", "b"}});
  for (const char* a : {"a1", "a2"}) {
    for (const char* b : {"b1", "b2"}) {
      wide.Flow(a, b, 0, 10, 5.5e6);
      wide.Flow(b, a, 0, 10, 5.5e6);
    }
  }
  ASSERT_TRUE(wide.NoteIn(&estimates));
  EXPECT_GT(estimates.Model(wide.Peers())->links()[0].rate, 1e12);
}

// Would break: delays that are wrong by how far the coordinator is from each.
TEST(LinkEstimates, RoundTripsDoNotDependOnWhereTheCoordinatorIs) {
  LinkScene scene({{"a1", "a"}, {"a2", "a"}, {"b1", "b"}, {"c1", "c"}});
  for (const char* peer : {"a1", "b1"}) scene.Flow(peer, "a2", 0, 20, 1e6);
  // The plan takes 5 ms to region a and 45 ms to b. Between them are 40 ms one way, inside a 2 ms.
  const absl::Duration a_to_b = absl::Milliseconds(5 + 40 - 45);
  const absl::Duration b_to_a = absl::Milliseconds(45 + 40 - 5);
  scene.Open("a1", "b1", a_to_b);
  scene.Open("b1", "a1", b_to_a);
  scene.Open("a1", "a2", absl::Milliseconds(2));
  scene.Open("a2", "a1", absl::Milliseconds(2));
  // c1 only dials out: 15 ms from the coordinator, 20 ms from a1.
  scene.Open("c1", "a1", absl::Milliseconds(15 + 20 - 5));
  LinkEstimates estimates;
  estimates.NoteCoordinator("a1", absl::Milliseconds(10));
  estimates.NoteCoordinator("a1", absl::Milliseconds(30));  // a late vote
  estimates.NoteCoordinator("b1", absl::Milliseconds(90));
  estimates.NoteCoordinator("c1", absl::Milliseconds(30));
  ASSERT_TRUE(scene.NoteIn(&estimates));
  const LinkModel model = *estimates.Model(scene.Peers());
  const auto rtt = [&](size_t i, size_t j) {
    const PeerLink& one = model.peers()[i];
    const PeerLink& other = model.peers()[j];
    return 2 * (one.delay + model.Delay(one.region, other.region) + other.delay);
  };
  EXPECT_NEAR(absl::ToDoubleMilliseconds(rtt(0, 1)), 4, 0.01);
  EXPECT_NEAR(absl::ToDoubleMilliseconds(rtt(0, 2)), 80, 1.01);  // a peer of b to its middle: 0
  EXPECT_NEAR(absl::ToDoubleMilliseconds(rtt(0, 3)), 40, 1.01);
  EXPECT_EQ(model.CoordinatorRtt(), absl::Milliseconds(90));
}

// Whether each of these had room, in the scene's order.
std::vector<bool> HadRoom(const LinkScene& scene) {
  LinkEstimates estimates;
  EXPECT_TRUE(scene.NoteIn(&estimates));
  std::vector<bool> had;
  for (const KnownPeer& peer : scene.Peers()) had.push_back(estimates.HadRoom(peer.peer));
  return had;
}

LinkScene FourPeers() {
  const std::vector<std::string> names = {"a", "b", "c", "d"};
  LinkScene scene({{"a", ""}, {"b", ""}, {"c", ""}, {"d", ""}});
  for (const std::string& from : names) {
    for (const std::string& to : names) {
      if (from != to) scene.Flow(from, to, 0, 20, 1e6);
    }
  }
  return scene;
}

// Would break: a fast line taken for slow for ever since all wait for one that is; or the slow
// peer's word, to whom everybody's chunks come late, held against the fast ones.
TEST(LinkEstimates, WhoIsNeverWaitedForHadRoom) {
  LinkScene one_slow = FourPeers();
  for (const char* at : {"a", "b", "c"}) one_slow.Waited(at, 60, {{"d", 58}});
  one_slow.Waited("d", 60, {{"a", 40}, {"b", 10}, {"c", 10}});
  EXPECT_EQ(HadRoom(one_slow), (std::vector<bool>{true, true, true, false}));
  LinkEstimates estimates;
  ASSERT_TRUE(one_slow.NoteIn(&estimates));
  const LinkModel model = *estimates.Model(one_slow.Peers());
  EXPECT_TRUE(model.peers()[0].had_room);
  EXPECT_FALSE(model.peers()[3].had_room);
  // Nothing is known any more when the next exchange does not say so.
  ASSERT_TRUE(FourPeers().NoteIn(&estimates));
  EXPECT_FALSE(estimates.HadRoom("a"));

  LinkScene two_slow = FourPeers();
  for (const char* at : {"a", "b"}) two_slow.Waited(at, 60, {{"c", 30}, {"d", 30}});
  two_slow.Waited("c", 60, {{"a", 20}, {"b", 20}, {"d", 20}});
  two_slow.Waited("d", 60, {{"a", 20}, {"b", 20}, {"c", 20}});
  EXPECT_EQ(HadRoom(two_slow), (std::vector<bool>{true, true, false, false}));
}

// Would break: trials where all lines are alike, or by what one false witness says.
TEST(LinkEstimates, WhereAllWaitForAllNobodyHadRoom) {
  const std::vector<bool> nobody(4, false);
  LinkScene alike = FourPeers();
  alike.Waited("a", 60, {{"b", 25}, {"c", 15}, {"d", 20}});
  alike.Waited("b", 60, {{"a", 15}, {"c", 12}, {"d", 33}});
  alike.Waited("c", 60, {{"a", 14}, {"b", 24}, {"d", 22}});
  alike.Waited("d", 60, {{"a", 16}, {"b", 25}, {"c", 19}});
  EXPECT_EQ(HadRoom(alike), nobody);
  LinkScene seldom = FourPeers();  // most chunks wait for nobody
  for (const char* at : {"a", "b", "c"}) seldom.Waited(at, 60, {{"d", 20}});
  EXPECT_EQ(HadRoom(seldom), nobody);
  LinkScene liar = FourPeers();
  for (const char* at : {"a", "b", "c"}) liar.Waited(at, 60, {});
  liar.Waited("d", 60, {{"a", UINT64_MAX}});
  EXPECT_EQ(HadRoom(liar), nobody);
}

// Would break: a volunteer's cap that the planner overrides, or a first round that ignores it.
TEST(LinkEstimates, LimitsBoundWhatIsMeasuredAndStandForWhatIsNot) {
  LinkEstimates estimates;
  std::vector<KnownPeer> peers = {{"a", ""}, {"b", ""}, {"c", ""}};
  EXPECT_FALSE(estimates.Model(peers).has_value());
  peers[0].up_rate = peers[0].down_rate = 1.5e6;
  peers[1].up_rate = peers[1].down_rate = 150e6;
  const LinkModel told = *estimates.Model(peers);
  EXPECT_NEAR(told.peers()[0].up, 1.448e6, 1);  // headers are no payload
  EXPECT_NEAR(told.peers()[2].up, 144.8e6, 1);  // not known: as the middle one of the others
  LinkScene scene({{"a", ""}, {"b", ""}, {"c", ""}});
  for (const char* from : {"a", "b", "c"}) {
    for (const char* to : {"a", "b", "c"}) {
      if (std::string(from) != to) scene.Flow(from, to, 0, 20, 4e6);
    }
  }
  ASSERT_TRUE(scene.NoteIn(&estimates));
  const LinkModel both = *estimates.Model(peers);
  EXPECT_NEAR(both.peers()[0].up, 1.448e6, 1);
  EXPECT_NEAR(both.peers()[1].up, 8e6, 1e3);
  EXPECT_NEAR(both.peers()[2].down, 8e6, 1e3);
}

}  // namespace
}  // namespace atolld
