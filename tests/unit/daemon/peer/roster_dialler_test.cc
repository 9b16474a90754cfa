// Would break: a peer speaks to whoever has taken another's address, or goes on to fetch from, and
// to contribute to, one that an operator has put out.
#include "daemon/peer/roster_dialler.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/env/address.h"
#include "gmock/gmock.h"
#include "tests/sim/sim_ends.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

constexpr char kExchange[] = "/atolld.v1.Exchange/Exchange";
constexpr char kEntries[] = "/atolld.v1.Replica/FetchEntries";

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
  size_t SetRoster(const std::vector<Row>& rows) {
    v1::Roster roster;
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

}  // namespace
}  // namespace atolld
