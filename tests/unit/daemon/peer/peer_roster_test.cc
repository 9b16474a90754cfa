#include "daemon/peer/peer_roster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compression/base/bytes.h"
#include "daemon/env/network.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/sim/sim_ends.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::Roster RosterOf(const std::vector<std::pair<std::string, std::string>>& members) {
  v1::Roster roster;
  for (const auto& [peer, state] : members) {
    v1::Member* member = roster.add_members();
    member->set_peer(peer);
    member->set_state(state);
  }
  return roster;
}

std::vector<std::string> Lines(const v1::Roster& before, const v1::Roster& after) {
  std::vector<std::string> lines;
  for (const RosterChange& change : RosterChanges(before, after, "p2")) {
    lines.push_back(change.line);
  }
  return lines;
}

// Broken: a peer's log would not tell when it learned of a death, or repeat it at every roster.
TEST(RosterChanges, EachChangeOfAnotherIsOneLine) {
  const v1::Roster all = RosterOf({{"p1", "live"}, {"p2", "live"}, {"p3", "joining"}});
  EXPECT_THAT(Lines({}, all), ElementsAre("peer p1 is live", "peer p3 is joining"));
  EXPECT_THAT(Lines(all, all), IsEmpty());
  v1::Roster moved = all;  // a version is no change of state
  moved.mutable_members(0)->set_version(9);
  EXPECT_THAT(Lines(all, moved), IsEmpty());
  const v1::Roster fewer = RosterOf({{"p1", "dead"}, {"p2", "suspect"}, {"p3", "live"}});
  EXPECT_THAT(Lines(all, fewer), ElementsAre("peer p1 is dead", "peer p3 is live"));
}

// Broken: the log of each peer of a run of a thousand would begin with a thousand lines; or the
// names of those that died together would be missing.
TEST(RosterChanges, ManyThatComeTogetherAreOneLine) {
  std::vector<std::pair<std::string, std::string>> live;
  std::vector<std::pair<std::string, std::string>> dead;
  for (int i = 100; i < 117; ++i) {
    live.emplace_back("p" + std::to_string(i), "live");
    dead.emplace_back("p" + std::to_string(i), "dead");
  }
  EXPECT_THAT(Lines({}, RosterOf(live)), ElementsAre("17 peers are live"));
  EXPECT_EQ(Lines(RosterOf(live), RosterOf(dead)).size(), 17u);
  live.pop_back();
  EXPECT_EQ(Lines({}, RosterOf(live)).size(), 16u);
}

// Broken: a death would be written as calmly as a birth.
TEST(RosterChanges, LossesAreMarked) {
  const v1::Roster after = RosterOf({{"p1", "suspect"}, {"p3", "dead"}, {"p4", "left"}});
  std::vector<bool> losses;
  for (const RosterChange& change : RosterChanges({}, after, "p2")) losses.push_back(change.loss);
  EXPECT_THAT(losses, ElementsAre(true, true, false));
}

// Would break: a peer speaks to whoever has taken another's address, or goes on to fetch from, and
// to contribute to, one that an operator has put out.

using ::testing::HasSubstr;

constexpr char kExchange[] = "/atolld.v1.Exchange/Exchange";
constexpr char kEntries[] = "/atolld.v1.Replica/FetchEntries";

// Of peers' keys, in hexadecimal.
v1::Roster Revoking(const std::vector<std::pair<std::string, std::string>>& revoked) {
  v1::Roster roster;
  for (const auto& [peer, key] : revoked) {
    v1::RevokedKey& one = *roster.add_revoked();
    one.set_peer(peer);
    one.set_key(BytesOfHex(key));
  }
  return roster;
}

struct Dialler {
  Dialler() : world(1) {
    SimProcess& self = world.AddProcess("self");
    for (const char* name : {"a", "b", "coordinator"}) {
      const Role role = std::string(name) == "coordinator" ? Role::kCoordinator : Role::kPeer;
      world.network().SetIdentity(name, {"sim", role, name, ""});
      listeners.push_back(world.AddProcess(name)
                              .env()
                              .transport
                              .Listen(std::string(name) + ":1",
                                      [this](const std::string&, std::unique_ptr<Call> call) {
                                        served.push_back(std::make_unique<Reader>());
                                        served.back()->echo = true;
                                        served.back()->Start(std::move(call));
                                      })
                              .value());
    }
    world.network().SetIdentity("self", {"sim", Role::kPeer, "self", ""});
    dialler = std::make_unique<RosterDialler>(self.executor(), self.env().transport);
  }

  struct Row {
    std::string peer, address, state = "live";
  };
  size_t SetRoster(const std::vector<Row>& rows,
                   const std::vector<std::pair<std::string, std::string>>& revoked = {}) {
    v1::Roster roster = Revoking(revoked);
    for (const Row& row : rows) {
      v1::Member* const member = roster.add_members();
      member->set_peer(row.peer);
      member->set_address(row.address);
      member->set_state(row.state);
    }
    return dialler->SetRoster(roster);
  }
  std::unique_ptr<Reader> Dial(const std::string& address, const std::string& method = kExchange) {
    auto reader = std::make_unique<Reader>();
    reader->Start(dialler->Dial(address, method, absl::InfiniteDuration()));
    reader->call->Write(Frame{"first", SharedBytes()});
    world.RunFor(absl::Milliseconds(500));
    return reader;
  }

  SimWorld world;
  std::vector<std::unique_ptr<Listener>> listeners;
  std::vector<std::unique_ptr<Reader>> served;
  std::unique_ptr<RosterDialler> dialler;
};

TEST(RosterDialler, WhoeverAnswersMustBeWhomTheRosterNames) {
  Dialler d;
  d.SetRoster({{"a", "a:1"}, {"c", "b:1"}});
  const auto right = d.Dial("a:1");
  EXPECT_EQ(std::vector<std::string>{"first"}, right->frames);
  const auto wrong = d.Dial("b:1");
  ASSERT_EQ(1u, wrong->closed.size());
  EXPECT_TRUE(absl::IsUnavailable(wrong->closed[0]));
  EXPECT_THAT(std::string(wrong->closed[0].message()),
              HasSubstr("peer c should be there, and it is peer b"));
  const auto nobody = d.Dial("elsewhere:1");
  ASSERT_EQ(1u, nobody->closed.size());
  EXPECT_TRUE(absl::IsUnavailable(nobody->closed[0]));
  EXPECT_THAT(std::string(nobody->closed[0].message()), HasSubstr("no member of the roster"));
  EXPECT_EQ(1u, d.served.size());
  // Another has come to the address: it is the one that the newest roster names.
  d.SetRoster({{"a", "a:1"}, {"c", "b:1", "left"}, {"b", "b:1"}});
  EXPECT_EQ(1u, d.Dial("b:1")->frames.size());
}

TEST(RosterDialler, CallsToAnEvictedPeerAreCutAndNoneIsMade) {
  Dialler d;
  d.SetRoster({{"a", "a:1"}, {"b", "b:1"}});
  const auto exchange = d.Dial("a:1");
  const auto download = d.Dial("a:1", kEntries);
  const auto other = d.Dial("b:1");
  ASSERT_EQ(3u, d.served.size());
  EXPECT_EQ(2u, d.SetRoster({{"a", "a:1", "evicted"}, {"b", "b:1"}}));
  // What it says from now on is not heard, though it knows of nothing yet.
  for (const auto& end : d.served) end->call->Write(Frame{"late", SharedBytes()});
  d.world.RunFor(absl::Milliseconds(500));
  for (const Reader* cut : {exchange.get(), download.get()}) {
    EXPECT_EQ(std::vector<std::string>{"first"}, cut->frames);
    ASSERT_EQ(1u, cut->closed.size());
    EXPECT_TRUE(absl::IsPermissionDenied(cut->closed[0])) << cut->closed[0];
  }
  EXPECT_EQ(2u, other->frames.size());
  EXPECT_TRUE(other->closed.empty());
  EXPECT_EQ(1u, d.served[0]->closed.size()) << "the other end is told";
  const auto again = d.Dial("a:1");
  ASSERT_EQ(1u, again->closed.size());
  EXPECT_TRUE(absl::IsPermissionDenied(again->closed[0]));
  EXPECT_EQ(3u, d.served.size());
  EXPECT_EQ(0u, d.SetRoster({{"a", "a:1", "evicted"}, {"b", "b:1"}})) << "once";
  d.SetRoster({{"a", "a:1", "left"}, {"b", "b:1"}});
  EXPECT_EQ(1u, d.Dial("a:1")->frames.size()) << "readmitted";
}

// Would break: whoever has stolen a member's key is spoken to in its name after the key was
// revoked.
TEST(RosterDialler, WhoeverAnswersWithARevokedKeyIsNobody) {
  Dialler d;
  d.world.network().SetIdentity("a", {"sim", Role::kPeer, "a", "1", "0a0a"});
  d.world.network().SetIdentity("b", {"sim", Role::kPeer, "b", "2", "0b0b"});
  d.SetRoster({{"a", "a:1"}, {"b", "b:1"}});
  const auto exchange = d.Dial("a:1");
  const auto other = d.Dial("b:1");
  ASSERT_EQ(2u, d.served.size());
  EXPECT_EQ(1u, d.SetRoster({{"a", "a:1"}, {"b", "b:1"}}, {{"a", "0a0a"}}));
  d.world.RunFor(absl::Milliseconds(500));
  ASSERT_EQ(1u, exchange->closed.size());
  EXPECT_TRUE(absl::IsPermissionDenied(exchange->closed[0])) << exchange->closed[0];
  EXPECT_TRUE(other->closed.empty());
  const auto again = d.Dial("a:1");
  ASSERT_EQ(1u, again->closed.size());
  EXPECT_THAT(std::string(again->closed[0].message()), HasSubstr("has a key that was revoked"));
  EXPECT_EQ(2u, d.served.size()) << "it was spoken to";
  EXPECT_EQ(0u, d.SetRoster({{"a", "a:1"}, {"b", "b:1"}}, {{"a", "0a0a"}})) << "once";
  // The name's new key is another matter.
  d.world.network().SetIdentity("a", {"sim", Role::kPeer, "a", "3", "0c0c"});
  EXPECT_EQ(1u, d.Dial("a:1")->frames.size());
}

TEST(RosterDialler, TheCoordinatorIsNoMemberOfTheRoster) {
  Dialler d;
  EXPECT_EQ(1u, d.Dial("coordinator:1", "/atolld.v1.Membership/Session")->frames.size());
}

TEST(PeerAddress, NamesThePeerOrNobody) {
  const PeerAddress named = ParsePeerAddress(FormatPeerAddress("p-1", "[::1]:70"));
  EXPECT_EQ("p-1", named.peer);
  EXPECT_EQ("[::1]:70", named.address);
  EXPECT_EQ("", ParsePeerAddress("host:1").peer);
  EXPECT_EQ("host:1", ParsePeerAddress("host:1").address);
  EXPECT_EQ("unix:/a@b", ParsePeerAddress("unix:/a@b").address);
}

// Would break: an evicted peer, or one that nobody knows, is listened to by other peers.

RosterGate::Limits Limits() {
  RosterGate::Limits limits;
  limits.calls_of_one = 20;
  limits.waiting_of_one = 10;
  limits.waiting = 25;
  return limits;
}

size_t Refused(const std::vector<std::unique_ptr<Reader>>& crowd) {
  size_t refused = 0;
  for (const auto& one : crowd) {
    for (const absl::Status& status : one->closed) refused += absl::IsResourceExhausted(status);
  }
  return refused;
}

struct Gate {
  Gate() : world(1) {
    SimProcess& process = world.AddProcess("self");
    gate = std::make_unique<RosterGate>(process.executor(), absl::Seconds(2), Limits(),
                                        [this](const std::string&, std::unique_ptr<Call> call) {
                                          admitted.push_back(std::make_unique<Reader>());
                                          admitted.back()->Start(std::move(call));
                                        });
    listener = process.env()
                   .transport
                   .Listen("self:1",
                           [this](const std::string& method, std::unique_ptr<Call> call) {
                             gate->Accept(method, std::move(call));
                           })
                   .value();
  }

  std::unique_ptr<Reader> Dial(const std::string& name, Role role,
                               const std::string& method = kExchange) {
    if (added.insert(name).second) world.AddProcess(name);
    world.network().SetIdentity(name, {"sim", role, name, ""});
    return DialAs(name, method);
  }
  std::unique_ptr<Reader> DialAs(const std::string& name, const std::string& method = kExchange) {
    if (added.insert(name).second) world.AddProcess(name);
    auto reader = std::make_unique<Reader>();
    reader->Start(
        world.process(name).env().transport.Dial("self:1", method, absl::InfiniteDuration()));
    reader->call->Write(Frame{"first", SharedBytes()});
    return reader;
  }
  size_t SetRoster(const std::vector<std::pair<std::string, std::string>>& members,
                   const std::vector<std::pair<std::string, std::string>>& revoked = {}) {
    v1::Roster roster = Revoking(revoked);
    for (const auto& [peer, state] : members) {
      v1::Member* const member = roster.add_members();
      member->set_peer(peer);
      member->set_state(state);
    }
    return gate->SetRoster(roster);
  }
  void Run(absl::Duration time = absl::Milliseconds(500)) { world.RunFor(time); }

  SimWorld world;
  std::set<std::string> added;
  std::vector<std::unique_ptr<Reader>> admitted;
  std::unique_ptr<RosterGate> gate;
  std::unique_ptr<Listener> listener;
};

TEST(RosterGate, MembersPassAndTheirFramesWithThem) {
  Gate g;
  g.SetRoster({{"a", "live"}, {"b", "suspect"}});
  const auto a = g.Dial("a", Role::kPeer);
  const auto b = g.Dial("b", Role::kAggregator);
  g.Run();
  ASSERT_EQ(2u, g.admitted.size());
  EXPECT_EQ(std::vector<std::string>{"first"}, g.admitted[0]->frames);
  g.admitted[0]->call->Write(Frame{"answer", SharedBytes()});
  g.admitted[0]->call->Finish(absl::OkStatus());
  g.Run();
  EXPECT_EQ(std::vector<std::string>{"answer"}, a->frames);
  ASSERT_EQ(1u, a->closed.size());
  EXPECT_TRUE(a->closed[0].ok());
  EXPECT_EQ(1u, g.admitted[0]->closed.size());
}

TEST(RosterGate, AnUnknownCallerWaitsForTheRosterUnread) {
  Gate g;
  const auto early = g.Dial("a", Role::kPeer);
  const auto stranger = g.Dial("x", Role::kPeer);
  g.Run();
  EXPECT_TRUE(g.admitted.empty());
  g.SetRoster({{"a", "joining"}});
  g.Run();
  ASSERT_EQ(1u, g.admitted.size());
  EXPECT_EQ(std::vector<std::string>{"first"}, g.admitted[0]->frames);
  EXPECT_TRUE(stranger->closed.empty());
  g.Run(absl::Seconds(3));
  ASSERT_EQ(1u, stranger->closed.size());
  EXPECT_TRUE(absl::IsUnavailable(stranger->closed[0])) << stranger->closed[0];
  EXPECT_EQ(1u, g.admitted.size());
}

TEST(RosterGate, AnEvictedCallerIsCutAtOnceAndRefused) {
  Gate g;
  g.SetRoster({{"a", "live"}, {"b", "live"}});
  const auto a = g.Dial("a", Role::kPeer);
  const auto second = g.DialAs("a");
  const auto b = g.Dial("b", Role::kPeer);
  g.Run();
  ASSERT_EQ(3u, g.admitted.size());
  EXPECT_EQ(2u, g.SetRoster({{"a", "evicted"}, {"b", "live"}}));
  // Nothing that it says from now on is heard.
  const auto heard = g.admitted[0]->frames;
  a->call->Write(Frame{"late", SharedBytes()});
  g.Run();
  EXPECT_EQ(heard, g.admitted[0]->frames);
  for (const Reader* end : {g.admitted[0].get(), g.admitted[1].get()}) {
    ASSERT_EQ(1u, end->closed.size());
    EXPECT_TRUE(absl::IsPermissionDenied(end->closed[0]));
  }
  EXPECT_EQ(1u, a->closed.size());
  EXPECT_EQ(1u, second->closed.size());
  EXPECT_TRUE(g.admitted[2]->closed.empty());
  EXPECT_TRUE(b->closed.empty());
  g.admitted[0]->call->Write(Frame{"to nobody", SharedBytes()});
  g.admitted[0]->call->Finish(absl::OkStatus());
  const auto again = g.DialAs("a");
  g.Run();
  ASSERT_EQ(1u, again->closed.size());
  EXPECT_TRUE(absl::IsPermissionDenied(again->closed[0])) << again->closed[0];
  EXPECT_EQ(3u, g.admitted.size());
  // Readmitted.
  g.SetRoster({{"a", "left"}, {"b", "live"}});
  const auto back = g.DialAs("a");
  g.Run();
  EXPECT_EQ(4u, g.admitted.size());
}

TEST(RosterGate, ACallerWithARevokedKeyIsCutAtOnceAndRefused) {
  Gate g;
  const auto as = [&](const std::string& process, const std::string& peer, const std::string& key) {
    if (g.added.insert(process).second) g.world.AddProcess(process);
    g.world.network().SetIdentity(process, {"sim", Role::kPeer, peer, "1", key});
    return g.DialAs(process);
  };
  g.SetRoster({{"a", "live"}, {"b", "live"}});
  // One name, two keys: the thief's is the one that it has stolen.
  const auto thief = as("thief", "a", "0a0a");
  const auto owner = as("owner", "a", "0c0c");
  const auto early = as("early", "late", "0d0d");
  g.Run();
  ASSERT_EQ(2u, g.admitted.size());
  EXPECT_EQ(1u, g.SetRoster({{"a", "live"}, {"b", "live"}}, {{"a", "0a0a"}, {"late", "0d0d"}}));
  g.Run();
  EXPECT_EQ(1u, thief->closed.size());
  ASSERT_EQ(1u, g.admitted[0]->closed.size());
  EXPECT_TRUE(absl::IsPermissionDenied(g.admitted[0]->closed[0])) << g.admitted[0]->closed[0];
  EXPECT_TRUE(owner->closed.empty());
  ASSERT_EQ(1u, early->closed.size()) << "it had waited for a roster";
  EXPECT_TRUE(absl::IsPermissionDenied(early->closed[0])) << early->closed[0];
  const auto again = as("thief", "b", "0a0a");
  g.Run();
  ASSERT_EQ(1u, again->closed.size());
  EXPECT_TRUE(absl::IsPermissionDenied(again->closed[0])) << "with another name";
  EXPECT_EQ(2u, g.admitted.size());
}

TEST(RosterGate, TheCoordinatorAndPlainTextPass) {
  Gate g;
  const auto probe = g.Dial("coordinator", Role::kCoordinator, "/atolld.v1.Replica/FetchEntries");
  const auto plain = g.DialAs("anybody");
  g.Run();
  EXPECT_EQ(2u, g.admitted.size());
}

// Would break: who administers the run cannot fetch its state, still can with a revoked key, or is
// taken for the peer of the same name.
TEST(RosterGate, AnAdministratorPassesUntilItsKeyIsRevoked) {
  Gate g;
  const auto as = [&](const std::string& process, const std::string& key) {
    if (g.added.insert(process).second) g.world.AddProcess(process);
    g.world.network().SetIdentity(process, {"sim", Role::kAdmin, "a", "1", key});
    return g.DialAs(process, "/atolld.v1.Replica/FetchSnapshot");
  };
  g.SetRoster({{"a", "evicted"}});
  const auto thief = as("thief", "0a0a");
  const auto owner = as("owner", "0c0c");
  g.Run();
  ASSERT_EQ(2u, g.admitted.size());
  EXPECT_EQ(0u, g.SetRoster({{"a", "evicted"}, {"b", "live"}}));
  EXPECT_EQ(1u, g.SetRoster({{"a", "evicted"}}, {{"a", "0a0a"}}));
  const auto again = g.DialAs("thief", "/atolld.v1.Replica/FetchSnapshot");
  g.Run();
  EXPECT_EQ(1u, thief->closed.size());
  for (const Reader* refused : {g.admitted[0].get(), again.get()}) {
    ASSERT_EQ(1u, refused->closed.size());
    EXPECT_TRUE(absl::IsPermissionDenied(refused->closed[0])) << refused->closed[0];
  }
  EXPECT_TRUE(owner->closed.empty());
  // What is not the table's is not its either.
  g.world.network().SetIdentity("owner", {"sim", Role::kAdmin, "a", "1", "0c0c"});
  const auto exchange = g.DialAs("owner");
  g.Run();
  ASSERT_EQ(1u, exchange->closed.size());
  EXPECT_EQ(2u, g.admitted.size());
}

TEST(RosterGate, WaitingCallsAreFew) {
  Gate g;
  std::vector<std::unique_ptr<Reader>> crowd;
  crowd.push_back(g.Dial("x", Role::kPeer));
  for (int i = 0; i < 30; ++i) crowd.push_back(g.DialAs("x"));
  g.Run(absl::Milliseconds(100));
  EXPECT_EQ(31u - 10u, Refused(crowd)) << "of one caller";
  const auto other = g.Dial("y", Role::kPeer);
  g.Run(absl::Milliseconds(100));
  EXPECT_TRUE(other->closed.empty()) << "another still finds room";
  // One that gives up makes room.
  crowd[0].reset();
  crowd.erase(crowd.begin());
  g.Run(absl::Milliseconds(100));
  const auto next = g.DialAs("x");
  g.Run(absl::Milliseconds(100));
  EXPECT_TRUE(next->closed.empty());
  for (const char* name : {"z", "v"}) {
    crowd.push_back(g.Dial(name, Role::kPeer));
    for (int i = 0; i < 9; ++i) crowd.push_back(g.DialAs(name));
  }
  g.Run(absl::Milliseconds(100));
  EXPECT_EQ(21u + 6u, Refused(crowd)) << "of all together: 11 waited, and 14 more may";
}

TEST(RosterGate, OneMemberHasSoManyCallsOpen) {
  Gate g;
  g.SetRoster({{"a", "live"}, {"b", "live"}});
  std::vector<std::unique_ptr<Reader>> crowd;
  crowd.push_back(g.Dial("a", Role::kPeer));
  for (int i = 0; i < 30; ++i) crowd.push_back(g.DialAs("a"));
  g.Run();
  EXPECT_EQ(31u - 20u, Refused(crowd));
  EXPECT_EQ(20u, g.admitted.size());
  const auto other = g.Dial("b", Role::kPeer);
  g.Run();
  EXPECT_EQ(21u, g.admitted.size());
  g.admitted.erase(g.admitted.begin());  // one that is over makes room
  const auto next = g.DialAs("a");
  g.Run();
  EXPECT_TRUE(next->closed.empty());
}

// With a token one may enrol, and keep no peer busy.
TEST(RosterGate, ARoleThatIsNoMembersDoesNotEvenWait) {
  Gate g;
  const auto joiner = g.Dial("a", Role::kJoin, "/atolld.v1.Membership/Enrol");
  g.Run();
  ASSERT_EQ(1u, joiner->closed.size());
  EXPECT_TRUE(absl::IsPermissionDenied(joiner->closed[0])) << joiner->closed[0];
}

}  // namespace
}  // namespace atolld
