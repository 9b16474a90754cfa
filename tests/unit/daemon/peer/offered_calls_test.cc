#include "daemon/peer/offered_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "atoll/v1/replica.pb.h"
#include "gtest/gtest.h"
#include "tests/sim/sim_ends.h"

namespace atolld {
namespace {

using Names = std::set<std::string>;

// A peer that others offer to, with certificates.
struct Taker {
  Taker() : world(1) {
    const Env env = world.AddProcess("self").env();
    offered = std::make_unique<OfferedCalls>(env, [this] { ++changes; });
    listener = env.transport
                   .Listen("self:1",
                           [this](const std::string& method, std::unique_ptr<Call> call) {
                             offered->Accept(method, std::move(call));
                           })
                   .value();
  }

  // A call that names nobody.
  std::unique_ptr<Reader> Dial(const std::string& caller,
                               const std::string& method = kGiveEntriesMethod) {
    if (added.insert(caller).second) {
      world.AddProcess(caller);
      world.network().SetIdentity(caller, {"sim", Role::kPeer, caller, ""});
    }
    auto call = std::make_unique<Reader>();
    call->Start(
        world.process(caller).env().transport.Dial("self:1", method, absl::InfiniteDuration()));
    Run();
    return call;
  }
  std::unique_ptr<Reader> Offer(const std::string& caller, const std::string& donor,
                                const std::string& method = kGiveEntriesMethod) {
    auto call = Dial(caller, method);
    v1::EntryBlock entries;
    entries.set_donor(donor);
    v1::SnapshotBlock snapshot;
    snapshot.set_donor(donor);
    call->call->Write(method == kGiveEntriesMethod ? Pack(entries) : Pack(snapshot));
    Run();
    return call;
  }
  void Run() { world.RunFor(absl::Milliseconds(200)); }

  SimWorld world;
  std::set<std::string> added;
  int changes = 0;
  std::unique_ptr<OfferedCalls> offered;
  std::unique_ptr<Listener> listener;
};

// Would break: any member could give in another's name, and take the place of what that one offers.
TEST(OfferedCalls, ADonorGivesInItsOwnNameAlone) {
  for (const char* method : {kGiveEntriesMethod, kGiveSnapshotMethod}) {
    Taker t;
    const auto forged = t.Offer("a", "b", method);
    ASSERT_EQ(1u, forged->closed.size());
    EXPECT_TRUE(absl::IsPermissionDenied(forged->closed[0])) << forged->closed[0];
    EXPECT_TRUE(t.offered->donors().empty());
    const auto good = t.Offer("b", "b", method);
    EXPECT_EQ(Names{"b"}, t.offered->donors());
    const auto again = t.Offer("a", "b", method);
    ASSERT_EQ(1u, again->closed.size());
    EXPECT_TRUE(good->closed.empty()) << "the forged one took its place";
    EXPECT_EQ(1, t.changes);
  }
}

// Would break: a name that nobody can have would stand for a donor.
TEST(OfferedCalls, ANameThatIsNoneIsRefused) {
  Taker t;
  for (const char* name : {"../B", ""}) {
    const auto call = t.Offer("a", name);
    ASSERT_EQ(1u, call->closed.size());
    EXPECT_TRUE(absl::IsInvalidArgument(call->closed[0])) << call->closed[0];
  }
  EXPECT_TRUE(t.offered->donors().empty());
}

// Would break: one member that says nothing would shut out all donors that dial.
TEST(OfferedCalls, OneCallerLeavesRoomForOthers) {
  Taker t;
  std::vector<std::unique_ptr<Reader>> silent;
  for (int i = 0; i < 4; ++i) silent.push_back(t.Dial("x"));
  const auto fifth = t.Dial("x");
  ASSERT_EQ(1u, fifth->closed.size());
  EXPECT_TRUE(absl::IsResourceExhausted(fifth->closed[0])) << fifth->closed[0];
  for (const auto& call : silent) EXPECT_TRUE(call->closed.empty());
  const auto good = t.Offer("b", "b");
  EXPECT_EQ(Names{"b"}, t.offered->donors());
  // What is over counts no more.
  silent.clear();
  t.Run();
  const auto later = t.Offer("x", "x");
  EXPECT_EQ((Names{"b", "x"}), t.offered->donors());
}

// Would break: a donor whose line breaks often would be refused for calls that nobody has any more.
TEST(OfferedCalls, WhoRedialsTakesItsOwnPlace) {
  Taker t;
  std::vector<std::unique_ptr<Reader>> calls;
  for (int i = 0; i < 6; ++i) {
    for (const char* method : {kGiveEntriesMethod, kGiveSnapshotMethod}) {
      calls.push_back(t.Offer("a", "a", method));
      EXPECT_TRUE(calls.back()->closed.empty()) << i;
    }
  }
  EXPECT_EQ(Names{"a"}, t.offered->donors());
}

// Would break: whoever can dial could make a peer hold calls without end.
TEST(OfferedCalls, AllTogetherAreBounded) {
  Taker t;
  std::vector<std::unique_ptr<Reader>> silent;
  for (int i = 0; i < 128; ++i) silent.push_back(t.Dial(absl::StrCat("x", i)));
  EXPECT_TRUE(silent.back()->closed.empty());
  const auto another = t.Dial("y");
  ASSERT_EQ(1u, another->closed.size());
  EXPECT_TRUE(absl::IsResourceExhausted(another->closed[0]));
}

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

void Add(const std::string& peer, const std::string& address, bool has_state, v1::Roster* roster) {
  v1::Member* const member = roster->add_members();
  member->set_peer(peer);
  member->set_address(address);
  member->set_state("live");
  member->set_has_state(has_state);
}

// Would break: a state that only peers behind NAT hold is lost to all others.
TEST(Giver, OffersToThoseThatCanBeDialled) {
  v1::Roster roster;
  Add("a", "", true, &roster);
  Add("b", "b:1", false, &roster);
  Add("c", "", false, &roster);
  Add("d", "d:1", true, &roster);
  EXPECT_THAT(GivesTo(roster, "a"), ElementsAre("b:1", "d:1"));
  EXPECT_THAT(GivesTo(roster, "b"), IsEmpty());  // others dial it
  EXPECT_THAT(GivesTo(roster, "c"), IsEmpty());  // it has nothing
  roster.mutable_members(1)->set_state("dead");
  EXPECT_THAT(GivesTo(roster, "a"), ElementsAre("d:1"));
}

// Would break: a crowd behind NAT opens calls by the square of its number.
TEST(Giver, FewOfferThemselvesToEachAndEachToFew) {
  v1::Roster crowd;
  for (int i = 10; i < 40; ++i) Add(absl::StrCat("n", i), "", true, &crowd);
  Add("x", "x:1", true, &crowd);
  size_t offers = 0;
  for (int i = 10; i < 40; ++i) offers += GivesTo(crowd, absl::StrCat("n", i)).size();
  EXPECT_EQ(offers, 4u);
  v1::Roster reachable;
  for (int i = 10; i < 40; ++i)
    Add(absl::StrCat("r", i), absl::StrCat("r", i, ":1"), true, &reachable);
  Add("n", "", true, &reachable);
  EXPECT_THAT(GivesTo(reachable, "n"), SizeIs(8));
  EXPECT_THAT(GivesTo(reachable, "n"), Contains("r10:1"));
}

}  // namespace
}  // namespace atolld
