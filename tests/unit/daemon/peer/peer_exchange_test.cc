#include "daemon/peer/peer_exchange.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compression/ring_sum_codec.h"
#include "tests/sim/sim_world.h"
#include "tests/unit/daemon/replica/state/test_run.h"

namespace atolld {
namespace {

constexpr uint64_t kValues = 1000000;

// self contributes to shards that a and b (or another) reduce; c, a contributor too, serves
// nothing.
ExchangePlan Plan(const char* second = "b") {
  v1::Plan plan;
  plan.set_version(1);
  plan.set_epoch(1);
  plan.set_revision(1);
  plan.set_parameters(8);
  for (const char* name : {"self", "a", "b", "c"}) {
    v1::PlanMember* member = plan.add_contributors();
    member->set_peer(name);
    member->set_address(std::string(name) + ":1");
    member->set_weight_bits(0x3f800000);
  }
  for (uint32_t i = 0; i < 2; ++i) {
    v1::Shard* shard = plan.add_shards();
    shard->set_first_chunk(2 * i);
    shard->set_chunks(2);
    shard->set_reducer(i == 0 ? "a" : second);
    shard->set_attempt(1);
  }
  return ExchangePlan::Make(plan, ChunkGrid(8, 2)).value();
}

struct Scene {
  Scene() : world(1), waker(world.AddProcess("self").env()) {
    for (const std::string name : {"a", "b", "c"}) {
      WakeCalls& wakes = *(others[name] = std::make_unique<WakeCalls>(world.AddProcess(name).env(),
                                                                      absl::Seconds(10)));
      auto listening = world.process(name).env().transport.Listen(
          name + ":1", [this, name, &wakes](const std::string&, std::unique_ptr<Call> call) {
            ++woken[name];
            wakes.Accept(std::move(call));
          });
      listeners.push_back(std::move(listening).value());
    }
  }
  // How often a, b and c were woken while so much time passed.
  std::vector<int> During(absl::Duration time) {
    woken = {{"a", 0}, {"b", 0}, {"c", 0}};
    world.RunFor(time);
    return {woken["a"], woken["b"], woken["c"]};
  }
  void Progress(uint32_t step) {
    v1::WorkerProgress progress;
    progress.set_step(step);
    progress.set_steps(100);
    waker.OnProgress(progress);
  }

  SimWorld world;
  PartnerWaker waker;
  std::map<std::string, std::unique_ptr<WakeCalls>> others;
  std::vector<std::unique_ptr<Listener>> listeners;
  std::map<std::string, int> woken;
};

using Times = std::vector<int>;

// Would break: the connections would sleep when the exchange begins, or be woken so early that
// what they learned is old by then.
TEST(PartnerWaker, WakesThoseItDialsOnceAsTrainingEnds) {
  Scene scene;
  scene.waker.OnPlan(Plan(), kValues, "self", 2);
  scene.waker.OnTraining();
  scene.world.RunFor(absl::Seconds(9));
  scene.Progress(0);
  scene.Progress(90);
  EXPECT_EQ(scene.During(absl::Milliseconds(600)), (Times{0, 0, 0}));
  scene.Progress(96);
  EXPECT_EQ(scene.During(absl::Milliseconds(100)), (Times{2, 2, 0}));  // on both lanes
  scene.Progress(97);
  scene.waker.OnWaiting();
  EXPECT_EQ(scene.During(absl::Seconds(1)), (Times{0, 0, 0}));
}

// Would break: a peer that is ready long before the slowest would begin the exchange asleep; or a
// run that is paused would cause traffic for ever; or an exchange would be disturbed by it.
TEST(PartnerWaker, KeepsThemAwakeWhileAnUpdateWaitsForAMinute) {
  Scene scene;
  scene.waker.OnWaiting();  // no plan yet, so nobody is known
  EXPECT_EQ(scene.During(absl::Seconds(5)), (Times{0, 0, 0}));
  scene.waker.OnPlan(Plan(), kValues, "self", 1);
  EXPECT_EQ(scene.During(absl::Seconds(5)), (Times{0, 0, 0}));
  scene.waker.OnTraining();
  scene.Progress(1);
  scene.waker.OnWaiting();
  EXPECT_EQ(scene.During(absl::Seconds(5)), (Times{3, 3, 0}));
  scene.waker.OnWaiting();
  EXPECT_EQ(scene.During(absl::Minutes(10)), (Times{27, 27, 0}));
  scene.waker.OnPlan(Plan(), kValues, "self", 1);
  scene.waker.OnTraining();
  scene.waker.OnWaiting();
  EXPECT_EQ(scene.During(absl::Seconds(1)), (Times{1, 1, 0}));
  scene.waker.OnPlan(Plan(), kValues, "self", 1);
  EXPECT_EQ(scene.During(absl::Seconds(10)), (Times{0, 0, 0}));
  // Waiting again within two seconds goes on with one clock, not two.
  scene.waker.OnTraining();
  scene.waker.OnWaiting();
  scene.waker.OnTraining();
  scene.waker.OnWaiting();
  EXPECT_EQ(scene.During(absl::Minutes(2)), (Times{30, 30, 0}));
}

// Would break: a peer that stands alone among the reducers would dial itself.
TEST(PartnerWaker, AReducerDoesNotWakeItself) {
  Scene scene;
  scene.waker.OnPlan(Plan(), kValues, "a", 1);
  scene.waker.OnWaiting();
  EXPECT_EQ(scene.During(absl::Seconds(1)), (Times{0, 1, 0}));
}

// Would break: everybody who ever reduced would be woken in every round.
TEST(PartnerWaker, FormerPartnersSleep) {
  Scene scene;
  scene.waker.OnPlan(Plan(), kValues, "self", 1);
  scene.waker.OnPlan(Plan("c"), kValues, "self", 1);
  scene.waker.OnWaiting();
  EXPECT_EQ(scene.During(absl::Seconds(1)), (Times{1, 0, 1}));
}

// Would break: waking would take longer than the exchange of a small vector over a slow line.
TEST(PartnerWaker, SendsLittleBesideWhatTheExchangeWill) {
  const auto sent = [](uint64_t values, uint32_t lanes) {
    Scene scene;
    scene.waker.OnPlan(Plan(), values, "self", lanes);
    scene.waker.OnWaiting();
    scene.world.RunFor(absl::Seconds(1));
    uint64_t bytes = 0;
    for (const char* name : {"a", "b"}) bytes += scene.world.network().bytes_sent("self", name);
    return bytes;
  };
  EXPECT_GT(sent(kValues, 1), 2 * kMostWakeBytes);
  EXPECT_LT(sent(kValues, 1), 2 * kMostWakeBytes + 100);
  EXPECT_GT(sent(64000, 1), 1000);
  EXPECT_LT(sent(64000, 1), 1000 + 100);
  EXPECT_LT(sent(64000, 4), 1000 + 200);
}

TEST(StopWatch, NoticesThatThisProcessWasStopped) {
  // Broken: a laptop that wakes would report healthy reducers as unreachable, and have their shards
  // redone.
  StopWatch watch(absl::Seconds(5));
  absl::Time now = absl::UnixEpoch() + absl::Hours(1);
  EXPECT_FALSE(watch.JustStopped(now)) << "it has never ticked";
  for (int i = 0; i < 10; ++i) {
    watch.Tick(now);
    now += absl::Seconds(1);
    EXPECT_FALSE(watch.JustStopped(now));
  }
  now += absl::Seconds(20);  // stopped
  EXPECT_TRUE(watch.JustStopped(now)) << "a stale timer runs before the tick";
  watch.Tick(now);
  EXPECT_TRUE(watch.JustStopped(now + absl::Seconds(1)));
  for (int i = 0; i < 5; ++i) watch.Tick(now += absl::Seconds(1));
  EXPECT_FALSE(watch.JustStopped(now)) << "it would never blame anybody again";
}

// A peer that is alone in its run, at version 0, with an update to be averaged.
struct LoneVoter {
  explicit LoneVoter(bool masked = false) : world(1), env(world.AddProcess("self").env()) {
    EXPECT_TRUE(CreateReplica(env.files, "/r", TestRun()).ok());
    ReplicaKeeper::Events events;
    events.on_offer = [] {};
    events.on_digest = [this](uint64_t, const Digest&) { exchange->OnDigest(); };
    keeper = std::make_unique<ReplicaKeeper>(env, "/r", RetentionPolicy(), std::move(events));
    EXPECT_TRUE(keeper->Load().ok());
    own = std::make_unique<OwnUpdate>(env, "self", "/r", *keeper);
    v1::RunSpec spec = keeper->genesis().spec();
    if (masked) spec.mutable_privacy()->set_masked(true);
    own->Follow(spec);
    OwnUpdate::Encoded encoded;
    const std::vector<float> values(keeper->grid().elements(), 0.5f);
    if (masked) {
      encoded.plain =
          OwnUpdate::Plain{std::make_shared<const std::vector<float>>(values), Rounding()};
    } else {
      encoded.contribution = std::make_shared<const Contribution>(
          *EncodeContribution(keeper->grid(), **FindCodec("int8"), Rounding(), values));
    }
    own->Hold(encoded, v1::Ready());
    if (masked) own->Stand(std::make_shared<const Contribution>(Ones()));
    exchange = std::make_unique<PeerExchange>(
        env, "self", *keeper, *own,
        PeerExchange::Events{[this](const v1::PeerMessage& message) {
                               if (message.has_vote()) votes.push_back(message.vote());
                             },
                             [](bool) {},
                             [this](ExchangeOutcome outcome, const ExchangePlan& plan) {
                               EXPECT_EQ(plan.revision(), outcome.revision);
                               sums.push_back(std::move(outcome));
                             }});
    exchange->Follow(spec, 1, absl::Seconds(2));
  }

  // Elements of a ring that are all 1, as if masked.
  Contribution Ones() const {
    Contribution made;
    for (uint32_t c = 0; c < keeper->grid().chunks(); ++c) {
      std::vector<uint8_t> bytes(MaskedSumCodec().MaxEncodedBytes(keeper->grid().Elements(c)));
      for (size_t i = 0; i < bytes.size(); i += 4) bytes[i] = 1;
      made.digests.push_back(Sha256(bytes));
      made.chunks.emplace_back(std::move(bytes));
    }
    SetNorms(std::vector<ChunkNorms>(made.chunks.size()), &made);
    return made;
  }

  void TellTheState() {
    v1::Welcome welcome;
    *welcome.mutable_genesis() = keeper->genesis();
    keeper->Follow(welcome);
    world.RunFor(absl::Seconds(1));
  }

  v1::Plan PlanOfItsOwn() const {
    v1::Plan plan;
    plan.set_version(1);
    plan.set_epoch(1);
    plan.set_revision(1);
    plan.set_parameters(keeper->grid().elements());
    v1::PlanMember* member = plan.add_contributors();
    member->set_peer("self");
    member->set_weight_bits(0x3f800000);
    member->set_contribution_root(ToBytes(own->contribution()->root));
    v1::Shard* shard = plan.add_shards();
    shard->set_chunks(keeper->grid().chunks());
    shard->set_reducer("self");
    shard->set_attempt(1);
    return plan;
  }

  SimWorld world;
  const Env env;
  std::unique_ptr<ReplicaKeeper> keeper;
  std::unique_ptr<OwnUpdate> own;
  std::unique_ptr<PeerExchange> exchange;
  std::vector<v1::Vote> votes;
  std::vector<ExchangeOutcome> sums;
};

// Would break: one whose state's digest takes longer than the exchange (an aggregator's of a large
// model, a replica that is being repaired) never votes, and the round waits for its deadline.
TEST(PeerExchangeTest, AVoteWaitsForTheDigestOfTheState) {
  LoneVoter peer;
  ASSERT_TRUE(peer.exchange->OnPlan(peer.PlanOfItsOwn()).ok());
  peer.world.RunFor(absl::Seconds(1));
  EXPECT_TRUE(peer.votes.empty()) << "its state has no digest yet";
  peer.TellTheState();
  ASSERT_EQ(peer.votes.size(), 1u);
  EXPECT_EQ(peer.votes[0].state_digest(), ToBytes(*peer.keeper->StateDigestOf(0)));
}

// Would break: peers would vote for, and commit, a sum with its masks still on.
TEST(PeerExchangeTest, AMaskedSumIsNoVoteUntilItsMasksAreOff) {
  LoneVoter peer(true);
  peer.TellTheState();
  ASSERT_TRUE(peer.exchange->OnPlan(peer.PlanOfItsOwn()).ok());
  peer.world.RunFor(absl::Seconds(1));
  EXPECT_TRUE(peer.votes.empty());
  ASSERT_EQ(peer.sums.size(), 1u);
  std::vector<SharedBytes> expected = peer.Ones().chunks;
  EXPECT_EQ(peer.sums[0].payload.str(), JoinPayload(expected).str());
  ExchangeOutcome unmasked = peer.sums[0];
  unmasked.payload = TestRun().Payload(1);
  unmasked.payload_digest = TreeDigest(unmasked.payload.span());
  unmasked.revision = 2;
  peer.exchange->Decide(unmasked);
  peer.world.RunFor(absl::Seconds(1));
  EXPECT_TRUE(peer.votes.empty()) << "it is of no plan that was carried out";
  unmasked.revision = 1;
  peer.exchange->Decide(unmasked);
  peer.world.RunFor(absl::Seconds(1));
  ASSERT_EQ(peer.votes.size(), 1u);
  EXPECT_EQ(peer.votes[0].payload_digest(), ToBytes(unmasked.payload_digest));
  peer.exchange->Leave();
  EXPECT_FALSE(peer.exchange->under_way());
}

}  // namespace
}  // namespace atolld
