#include "daemon/peer/reach_watch.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/sim/sim_world.h"

namespace atolld {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

constexpr absl::Duration kTimeout = absl::Seconds(8);

// self watches some others, which answer; `told` is what it tells of them: "a no", "a yes".
struct ReachScene {
  explicit ReachScene(const std::vector<std::string>& names) : world(1) {
    for (const std::string& name : names) {
      WakeCalls& wakes = *(others[name] = std::make_unique<WakeCalls>(world.AddProcess(name).env(),
                                                                      absl::Seconds(10)));
      auto listening = world.process(name).env().transport.Listen(
          name + ":1", [this, name, &wakes](const std::string&, std::unique_ptr<Call> call) {
            ++dialled[name];
            wakes.Accept(std::move(call));
          });
      listeners.push_back(std::move(listening).value());
    }
    watch = std::make_unique<ReachWatch>(
        world.AddProcess("self").env(), "self", [this](const v1::PeerMessage& message) {
          const v1::Reached& reached = message.reached();
          told.push_back(reached.peer() + (reached.answers() ? " yes" : " no"));
          reasons.push_back(reached.reason());
        });
    watch->Follow(kTimeout, 1000000);
    watch->SetRoster(Roster());
  }

  v1::Roster Roster(const std::string& without = "") const {
    v1::Roster roster;
    for (const auto& [name, wakes] : others) {
      if (name == without) continue;
      v1::Member* const member = roster.add_members();
      member->set_peer(name);
      member->set_address(name + ":1");
      member->set_state("live");
    }
    return roster;
  }
  std::vector<std::string> During(absl::Duration time) {
    told.clear();
    world.RunFor(time);
    return told;
  }

  SimWorld world;
  std::map<std::string, std::unique_ptr<WakeCalls>> others;
  std::vector<std::unique_ptr<Listener>> listeners;
  std::map<std::string, int> dialled;
  std::vector<std::string> told, reasons;
  std::unique_ptr<ReachWatch> watch;
};

// Would break: a way that swallows packets is found only by an exchange that waits for it; or what
// was found is not taken back when the way is open again.
TEST(ReachWatch, FindsASilentWayBeforeItIsNeededAndSaysWhenItIsOpen) {
  ReachScene scene({"a", "b"});
  EXPECT_THAT(scene.During(absl::Seconds(20)), IsEmpty());
  EXPECT_EQ(scene.dialled["a"], 1);
  scene.world.network().BlackHole("self", "b");
  scene.watch->OnSilent("b", absl::UnavailableError("b:1: no progress for 8s"));
  EXPECT_THAT(scene.told, ElementsAre("b no"));
  EXPECT_THAT(scene.reasons, ElementsAre("no progress for 8s"));
  EXPECT_TRUE(scene.watch->InDoubt("b"));
  const std::vector<std::string> repeated = scene.During(absl::Minutes(1));
  EXPECT_GE(repeated.size(), 4u) << "or the coordinator forgets it";
  EXPECT_THAT(repeated, testing::Each("b no"));
  scene.world.network().HealBlackHole("self", "b");
  EXPECT_EQ(scene.During(absl::Seconds(30)).back(), "b yes");
  EXPECT_FALSE(scene.watch->InDoubt("b"));
  EXPECT_THAT(scene.During(absl::Minutes(4)), IsEmpty());
}

// Would break: a port that a firewall drops from the beginning is known when a round stands.
TEST(ReachWatch, DialsWhoeverTheRosterNames) {
  ReachScene scene({"a", "z"});
  scene.world.network().BlackHole("self", "z");
  EXPECT_THAT(scene.During(absl::Seconds(6)), ElementsAre("z no"));
  EXPECT_EQ(scene.reasons.back(), "no answer");
  scene.watch->SetRoster(scene.Roster("z"));
  EXPECT_THAT(scene.During(absl::Minutes(1)), IsEmpty()) << "who is gone is not dialled";
}

// Would break: a peer that is away for a moment is in doubt with the coordinator for as long as
// doubts live, since whoever doubted it has forgotten that it must take that back.
TEST(ReachWatch, ADoubtOutlivesAnAbsenceAndIsTakenBack) {
  ReachScene scene({"a", "z"});
  scene.world.network().PassSmallAlone("self", "z");
  scene.watch->OnSilent("z", absl::UnavailableError("no progress for 8s"));
  scene.watch->SetRoster(scene.Roster("z"));
  scene.During(absl::Seconds(1));
  scene.watch->SetRoster(scene.Roster());
  EXPECT_TRUE(scene.watch->InDoubt("z"));
  EXPECT_THAT(scene.During(absl::Seconds(20)),
              testing::AllOf(Not(IsEmpty()), testing::Each("z no")))
      << "a few bytes that pass do not end it";
  scene.watch->SetRoster(scene.Roster("z"));
  scene.During(absl::Seconds(20));
  scene.world.network().PassAll("self", "z");
  scene.watch->SetRoster(scene.Roster());
  EXPECT_THAT(scene.During(absl::Seconds(20)), ElementsAre("z yes"));
  // Broken: whoever comes back after long is doubted for a reason that nobody knows any more.
  scene.watch->OnSilent("z", absl::UnavailableError("no progress for 8s"));
  scene.watch->SetRoster(scene.Roster("z"));
  scene.During(absl::Minutes(2));
  scene.watch->SetRoster(scene.Roster("z"));
  scene.watch->SetRoster(scene.Roster());
  EXPECT_FALSE(scene.watch->InDoubt("z"));
}

// Would break: a coordinator that was started again plans as if everybody reached everybody.
TEST(ReachWatch, RepeatsItsDoubtsToANewSession) {
  ReachScene scene({"a", "b"});
  scene.watch->OnSilent("a", absl::UnavailableError("x"));
  scene.told.clear();
  scene.watch->Repeat();
  EXPECT_THAT(scene.told, ElementsAre("a no"));
}

// Broken: a line that works again while a peer has no Session stays in doubt at the coordinator,
// which remembers the peer's doubts and never hears that this one has ended.
TEST(ReachWatch, RepeatsToANewSessionThatADoubtHasEnded) {
  ReachScene scene({"a", "b"});
  scene.watch->OnSilent("a", absl::UnavailableError("x"));
  EXPECT_THAT(scene.During(absl::Seconds(20)), testing::Contains("a yes"));
  scene.told.clear();
  scene.watch->Repeat();
  EXPECT_THAT(scene.told, ElementsAre("a yes"));
  scene.During(absl::Minutes(2));
  scene.told.clear();
  scene.watch->Repeat();
  EXPECT_THAT(scene.told, IsEmpty()) << "it counts no more by now";
}

// Would break: in a run of thousands each peer dials all others.
TEST(ReachWatch, DialsAFewOfMany) {
  std::vector<std::string> names;
  for (char name = 'a'; name <= 'z'; ++name) names.emplace_back(1, name);
  ReachScene scene(names);
  scene.world.RunFor(absl::Seconds(10));
  EXPECT_EQ(scene.dialled.size(), ReachWatch::kWatched);
  EXPECT_EQ(scene.dialled.count("t"), 1u) << "those after itself in the roster";
}

// Would break: a peer that answers that it is busy is taken for one that a firewall hides.
TEST(ReachWatch, ARefusalIsAnAnswer) {
  EXPECT_TRUE(IsAnswer(absl::ResourceExhaustedError("")));
  EXPECT_TRUE(IsAnswer(absl::UnimplementedError("")));
  EXPECT_FALSE(IsAnswer(absl::UnavailableError("")));
  EXPECT_FALSE(IsAnswer(absl::DeadlineExceededError("")));
  EXPECT_FALSE(IsAnswer(absl::FailedPreconditionError("another peer is there")));
}

// Would break: where a connection stood when its way began to swallow packets, attempt after
// attempt would come to nothing and nobody would know of which two.
TEST(ReachWatch, WhoeverWasDialledInVainForAllIsAskedAtOnce) {
  ReachScene scene({"a", "b"});
  EXPECT_THAT(scene.During(absl::Seconds(20)), IsEmpty());
  scene.world.network().PassSmallAlone("self", "b");
  scene.watch->Ask({"a:1", "b:1", "nobody:1"});
  EXPECT_THAT(scene.During(absl::Seconds(6)), ElementsAre("b no"));
  EXPECT_EQ(scene.dialled["a"], 2);
  scene.world.network().PassAll("self", "b");
  EXPECT_THAT(scene.During(absl::Seconds(20)), ElementsAre("b yes"));
  EXPECT_EQ(scene.dialled["a"], 2) << "it has answered";
}

// Would break: a hundred peers that doubt one fill its line with their echoes, so that it stays in
// doubt.
TEST(ReachWatch, AMemberInDoubtIsSentLittleUntilItAnswers) {
  ReachScene scene({"a", "b"});
  EXPECT_THAT(scene.During(absl::Seconds(20)), IsEmpty());
  scene.world.network().Hide("b");
  scene.watch->OnSilent("b", absl::UnavailableError("no progress for 8s"));
  const uint64_t before = scene.world.network().bytes_sent("self", "b");
  EXPECT_THAT(scene.During(absl::Minutes(2)), testing::Each("b no"));
  const uint64_t sent = scene.world.network().bytes_sent("self", "b") - before;
  EXPECT_GT(sent, 0u);
  EXPECT_LT(sent, 2048u) << "of a dozen dials";
  scene.world.network().Show("b");
  EXPECT_THAT(scene.During(absl::Seconds(20)), ElementsAre("b yes"));
  EXPECT_GT(scene.world.network().bytes_sent("self", "b") - before, 2048u)
      << "it has proved itself";
}

// Would break: a line that passes small packets alone is taken for well as soon as one has passed,
// and the next exchange of a small vector waits for it again.
TEST(ReachWatch, SmallAnswersEndNoDoubt) {
  ReachScene scene({"a", "b"});
  scene.watch->Follow(kTimeout, 1000);  // so small that an echo fits a packet
  scene.world.network().PassSmallAlone("self", "b");
  EXPECT_THAT(scene.During(absl::Seconds(20)), IsEmpty());
  scene.watch->OnSilent("b", absl::UnavailableError("no progress for 8s"));
  scene.watch->OnWoken("b:1", absl::OkStatus());
  EXPECT_TRUE(scene.watch->InDoubt("b"));
  EXPECT_THAT(scene.During(absl::Minutes(1)), testing::Each("b no"));
  EXPECT_TRUE(scene.watch->InDoubt("b"));
  scene.world.network().PassAll("self", "b");
  EXPECT_THAT(scene.During(absl::Seconds(20)), ElementsAre("b yes"));
}

}  // namespace
}  // namespace atolld
