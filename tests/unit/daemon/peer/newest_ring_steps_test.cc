#include "daemon/peer/newest_ring_steps.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "daemon/replica/state/layout.h"
#include "membership/masking/masked_terms.h"
#include "tests/sim/sim_world.h"
#include "tests/unit/daemon/replica/state/test_run.h"

namespace atolld {
namespace {

// A peer whose replica stands at `version`; `lacking`: without that entry's payload.
struct SteppedPeer {
  explicit SteppedPeer(uint64_t version, bool lacking = false)
      : world(1), env(world.AddProcess("self").env()) {
    {
      absl::StatusOr<OwnedReplica> made = CreateReplica(env.files, "/r", run);
      EXPECT_TRUE(made.ok());
      run.CommitTo(**made, version);
    }
    ReplicaKeeper::Events events;
    events.on_offer = [] {};
    events.on_digest = [](uint64_t, const Digest&) {};
    keeper = std::make_unique<ReplicaKeeper>(env, "/r", RetentionPolicy(), std::move(events));
    EXPECT_TRUE(keeper->Load().ok());
    if (lacking) {
      EXPECT_TRUE(env.files.Remove(PayloadPath("/r", version)).ok());
    }
    spec = keeper->genesis().spec();
    spec.mutable_privacy()->set_masked(true);
    steps = std::make_unique<NewestRingSteps>(*keeper);
    steps->Follow(spec);
  }

  std::shared_ptr<const RingSteps> Read() {
    bool loaded = steps->Loaded([&loaded] { loaded = true; });
    world.RunFor(absl::Seconds(1));
    EXPECT_TRUE(loaded);
    EXPECT_TRUE(steps->Loaded(nullptr));
    return steps->steps();
  }

  SimWorld world;
  const Env env;
  TestRun run;
  std::unique_ptr<ReplicaKeeper> keeper;
  v1::RunSpec spec;
  std::unique_ptr<NewestRingSteps> steps;
};

TEST(NewestRingStepsTest, AreThoseOfTheNewestMean) {
  // Broken: peers would count in different steps, and their sum would be of nothing.
  SteppedPeer peer(2);
  const std::shared_ptr<const RingSteps> steps = peer.Read();
  ASSERT_NE(steps, nullptr);
  const ChunkGrid grid(peer.run.elements, peer.run.chunk_elements);
  const Codec& codec = **FindCodec("int8");
  const auto chunks = SplitPayload(grid, codec, peer.run.Payload(2)).value();
  std::vector<float> mean(peer.run.elements);
  for (uint32_t c = 0; c < grid.chunks(); ++c) {
    ASSERT_TRUE(codec
                    .Decode(chunks[c].span(),
                            absl::MakeSpan(mean).subspan(grid.Offset(c), grid.Elements(c)))
                    .ok());
  }
  const MaskedTerms terms = MaskedTermsOf(peer.spec, v1::MaskAttempt());
  EXPECT_EQ(*steps, RingStepsAfter(terms.ring, mean, terms.first_range));
  EXPECT_NE(*steps, FirstRingSteps(terms.ring, mean.size(), terms.first_range));
}

TEST(NewestRingStepsTest, BeforeTheFirstEntryTheyAreTheRuns) {
  // Broken: the first round of a run could not be masked.
  SteppedPeer peer(0);
  const std::shared_ptr<const RingSteps> steps = peer.Read();
  ASSERT_NE(steps, nullptr);
  const MaskedTerms terms = MaskedTermsOf(peer.spec, v1::MaskAttempt());
  EXPECT_EQ(*steps, FirstRingSteps(terms.ring, peer.run.elements, terms.first_range));
}

TEST(NewestRingStepsTest, WithoutTheMeanThereAreNone) {
  // Broken: a peer that came by a snapshot would mask in steps of its own, and spoil the sum.
  SteppedPeer peer(2, true);
  EXPECT_EQ(peer.Read(), nullptr);
}

}  // namespace
}  // namespace atolld
