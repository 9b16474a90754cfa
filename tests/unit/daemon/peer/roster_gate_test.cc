// Would break: an evicted peer, or one that nobody knows, is listened to by other peers.
#include "daemon/peer/roster_gate.h"

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/sim/sim_ends.h"

namespace atolld {
namespace {

constexpr char kExchange[] = "/atolld.v1.Exchange/Exchange";

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
  size_t SetRoster(const std::vector<std::pair<std::string, std::string>>& members) {
    v1::Roster roster;
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

TEST(RosterGate, TheCoordinatorAndPlainTextPass) {
  Gate g;
  const auto probe = g.Dial("coordinator", Role::kCoordinator, "/atolld.v1.Replica/FetchEntries");
  const auto plain = g.DialAs("anybody");
  g.Run();
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
