#include "daemon/peer/own_update.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <memory>
#include <vector>

#include "absl/base/casts.h"
#include "compression/wire_codec.h"
#include "membership/privacy/update_noise.h"
#include "tests/sim/sim_world.h"
#include "tests/unit/daemon/replica/state/test_run.h"

namespace atolld {
namespace {

constexpr size_t kUpdateValues = 100000;

TestRun RunOfUpdates() {
  TestRun run;
  run.elements = kUpdateValues;
  run.chunk_elements = 4096;
  run.codec = "fp32";
  return run;
}

// A peer of a run, mostly one with privacy, whose worker has left an update.
struct PrivateUpdate {
  explicit PrivateUpdate(const TestRun& run = RunOfUpdates(), uint64_t version = 0)
      : world(1), env(world.AddProcess("self").env()) {
    {
      absl::StatusOr<OwnedReplica> made = CreateReplica(env.files, "/r", run);
      EXPECT_TRUE(made.ok());
      run.CommitTo(**made, version);
      payload = run.Payload(version + 1);
      next = run.NextHeader(**made, payload);
      next.mutable_contributors(0)->set_peer("self");
    }
    ReplicaKeeper::Events events;
    events.on_offer = [] {};
    events.on_committed = [](const v1::EntryHeader&) {};
    events.on_digest = [](uint64_t, const Digest&) {};
    keeper = std::make_unique<ReplicaKeeper>(env, "/r", RetentionPolicy(), std::move(events));
    EXPECT_TRUE(keeper->Load().ok());
    own = std::make_unique<OwnUpdate>(env, "self", "/r", *keeper);
    spec = keeper->genesis().spec();
  }

  // Of a clip of 3 and noise of 2 in the sum of 16 parties.
  void Follow(double quantile) {
    v1::PrivacySpec& privacy = *spec.mutable_privacy();
    privacy.set_clip_bits(Bits32(3));
    privacy.set_noise_bits(Bits32(2));
    privacy.set_quantile_bits(Bits32(quantile));
    privacy.set_parties(quantile > 0 ? 100 : 16);
    own->Follow(spec);
  }

  void Leave(const std::vector<float>& update) const {
    const int file = open(keeper->memory()->path().c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(file, 0);
    ASSERT_EQ(pwrite(file, update.data(), update.size() * sizeof(float),
                     static_cast<off_t>(keeper->memory()->update_offset())),
              static_cast<ssize_t>(update.size() * sizeof(float)));
    close(file);
  }

  // What stands of it where the run masks updates.
  absl::StatusOr<OwnUpdate::Encoded> Kept() {
    absl::StatusOr<OwnUpdate::Encoded> kept = absl::UnknownError("not yet");
    bool done = false;
    own->Encode({}, [&](const absl::Status& status, OwnUpdate::Encoded made) {
      if (status.ok()) {
        kept = std::move(made);
      } else {
        kept = status;
      }
      done = true;
    });
    EXPECT_TRUE(world.RunUntil([&] { return done; }, absl::Seconds(10)));
    return kept;
  }

  // What the others get of it.
  std::vector<float> Sent(const OwnUpdate::Trained& trained) {
    bool done = false;
    own->Encode(trained, [&](const absl::Status& status, OwnUpdate::Encoded made) {
      EXPECT_TRUE(status.ok()) << status;
      encoded = std::move(made);
      done = true;
    });
    EXPECT_TRUE(world.RunUntil([&] { return done; }, absl::Seconds(10)));
    std::vector<float> values(kUpdateValues);
    const Codec& codec = **FindCodec("fp32");
    for (uint32_t chunk = 0; chunk < keeper->grid().chunks(); ++chunk) {
      const absl::Span<float> range =
          absl::MakeSpan(values).subspan(size_t{chunk} * 4096, keeper->grid().Elements(chunk));
      EXPECT_TRUE(codec.Decode(encoded.contribution->chunks[chunk].span(), range).ok());
    }
    return values;
  }

  static uint32_t Bits32(double value) {
    return absl::bit_cast<uint32_t>(static_cast<float>(value));
  }

  SimWorld world;
  const Env env;
  SharedBytes payload;   // of the next entry
  v1::EntryHeader next;  // its header, which names this peer
  std::unique_ptr<ReplicaKeeper> keeper;
  std::unique_ptr<OwnUpdate> own;
  v1::RunSpec spec;
  OwnUpdate::Encoded encoded;
};

// Of `sent` less `expected`.
double DeviationFrom(const std::vector<float>& sent, double expected) {
  double squares = 0;
  for (const float value : sent) squares += (value - expected) * (value - expected);
  return std::sqrt(squares / static_cast<double>(sent.size()));
}

double MeanOf(const std::vector<float>& sent) {
  double sum = 0;
  for (const float value : sent) sum += value;
  return sum / static_cast<double>(sent.size());
}

TEST(OwnUpdateTest, WhatIsSentIsClippedAndHasItsNoise) {
  // Broken: reducers would see an update as it is, or with other noise than the run's epsilon
  // counts. Of 100,000 values the deviation is within 2 % for all but one draw in 10^18.
  PrivateUpdate peer;
  peer.Follow(0);
  peer.Leave(std::vector<float>(kUpdateValues, 1.0f));  // 316 long
  const std::vector<float> sent = peer.Sent({});
  const double clipped = 3 / std::sqrt(static_cast<double>(kUpdateValues));
  const double deviation = 2 * 3 / std::sqrt(16.0);
  EXPECT_NEAR(MeanOf(sent), clipped, 0.02 * deviation);
  EXPECT_NEAR(DeviationFrom(sent, clipped), deviation, 0.02 * deviation);
  EXPECT_NE(peer.Sent({}), sent) << "each encoding has noise of its own";
}

TEST(OwnUpdateTest, AHostOfPartiesAddsTheNoiseOfAllOnce) {
  // Broken: a mean of several parties' updates would be hidden less, or drown.
  PrivateUpdate peer;
  peer.Follow(0);
  peer.Leave(std::vector<float>(kUpdateValues, 0.0f));
  OwnUpdate::Trained trained;
  trained.parties = 4;
  // 4 x the mean has the noise of four parties.
  const double deviation = 2 * 3 / std::sqrt(16.0 * 4);
  EXPECT_NEAR(DeviationFrom(peer.Sent(trained), 0), deviation, 0.02 * deviation);
  EXPECT_EQ(peer.encoded.clip, 0);
  EXPECT_EQ(peer.encoded.within, 0) << "a fixed clip counts nobody";
}

TEST(OwnUpdateTest, AMovingClipIsThatOfTheTrain) {
  // Broken: the clip would never follow the updates, or without what was told being hidden.
  PrivateUpdate peer;
  peer.Follow(0.5);
  peer.Leave(std::vector<float>(kUpdateValues, 1.0f));
  OwnUpdate::Trained trained;
  trained.clip = 1000;  // longer than the update
  const double deviation = PrivacyTermsOf(peer.spec.privacy()).Deviation(1000, 0);
  EXPECT_GT(deviation, 2 * 1000 / std::sqrt(100.0)) << "the count is paid for";
  EXPECT_NEAR(DeviationFrom(peer.Sent(trained), 1), deviation, 0.02 * deviation);
  EXPECT_EQ(peer.encoded.clip, 1000);
  const double count = PrivacyTermsOf(peer.spec.privacy()).CountDeviation(1);
  EXPECT_NE(peer.encoded.within, 0.5);
  EXPECT_NEAR(peer.encoded.within, 0.5, 6 * count);
}

TEST(OwnUpdateTest, AMaskedUpdateStandsAsItIsAndTellsNothing) {
  // Broken: what masks hide would be told beside them, or an update would not outlive an attempt.
  PrivateUpdate peer;
  peer.spec.mutable_privacy()->set_masked(true);
  peer.own->Follow(peer.spec);
  peer.Leave(std::vector<float>(kUpdateValues, 0.25f));
  absl::StatusOr<OwnUpdate::Encoded> kept = peer.Kept();
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->contribution, nullptr);
  EXPECT_EQ(*kept->plain->values, std::vector<float>(kUpdateValues, 0.25f));
  v1::Ready told;
  told.set_tokens(640);
  peer.own->Hold(*std::move(kept), told);
  EXPECT_EQ(peer.own->contribution(), nullptr);
  EXPECT_EQ(peer.own->weight(), 640.0f);
  v1::Welcome welcome;
  *welcome.mutable_genesis() = peer.keeper->genesis();
  peer.keeper->Follow(welcome);  // now the state has a digest
  peer.world.RunFor(absl::Seconds(1));
  const std::optional<v1::Ready> ready = peer.own->Offer(1, [] {});
  ASSERT_TRUE(ready.has_value());
  EXPECT_EQ(ready->contribution_root(), "");
  EXPECT_EQ(ready->squared_norm_bits(), 0u);
  peer.own->Stand(std::make_shared<const Contribution>());
  EXPECT_NE(peer.own->contribution(), nullptr);
  peer.own->Stand(nullptr);
  EXPECT_NE(peer.own->plain(), nullptr);
}

TEST(OwnUpdateTest, AMaskedUpdateIsClippedAndMustBeFinite) {
  // Broken: masks would take the place of noise, or hide a NaN that spoils the whole sum.
  PrivateUpdate peer;
  peer.spec.mutable_privacy()->set_masked(true);
  peer.Follow(0);
  peer.Leave(std::vector<float>(kUpdateValues, 1.0f));
  const absl::StatusOr<OwnUpdate::Encoded> kept = peer.Kept();
  ASSERT_TRUE(kept.ok()) << kept.status();
  const double deviation = 2 * 3 / std::sqrt(16.0);
  EXPECT_NEAR(
      DeviationFrom(*kept->plain->values, 3 / std::sqrt(static_cast<double>(kUpdateValues))),
      deviation, 0.02 * deviation);
  PrivateUpdate broken;
  broken.spec.mutable_privacy()->set_masked(true);
  broken.own->Follow(broken.spec);
  std::vector<float> values(kUpdateValues, 0.0f);
  values[7] = std::nanf("");
  broken.Leave(values);
  EXPECT_FALSE(broken.Kept().ok());
}

// Two tensors, each a fragment.
TestRun RunOfFragments() {
  TestRun run;
  run.elements = 10000;
  run.chunk_elements = 4096;
  run.codec = "int8";
  run.fragments = 2;
  return run;
}

std::vector<float> Slope(size_t values) {
  std::vector<float> slope(values);
  for (size_t i = 0; i < values; ++i) slope[i] = 1e-3f * static_cast<float>(i) - 2;
  return slope;
}

std::vector<float> DecodedOf(const OwnUpdate::Encoded& encoded, size_t elements) {
  const ChunkGrid grid(elements, 4096);
  EXPECT_EQ(encoded.contribution->chunks.size(), grid.chunks());
  std::vector<float> values(elements);
  for (uint32_t chunk = 0; chunk < grid.chunks(); ++chunk) {
    const auto part = absl::MakeSpan(values).subspan(grid.Offset(chunk), grid.Elements(chunk));
    const auto bytes = encoded.contribution->chunks[chunk].span();
    EXPECT_TRUE((*FindCodec("int8"))->Decode(bytes, part).ok());
  }
  return values;
}

TEST(OwnUpdateTest, OfAFragmentNothingElseIsSent) {
  // Broken: an entry would take in values that it does not cover, or in the wrong places.
  for (const uint64_t version : {0, 1}) {
    PrivateUpdate peer(RunOfFragments(), version);
    peer.own->Follow(peer.spec);
    peer.Leave(Slope(10000));
    const absl::StatusOr<OwnUpdate::Encoded> made = peer.Kept();
    ASSERT_TRUE(made.ok()) << made.status();
    const std::vector<float> sent = DecodedOf(*made, 5000);
    for (size_t i = 0; i < sent.size(); ++i) {
      EXPECT_NEAR(sent[i], Slope(10000)[5000 * version + i], 0.05) << version << " " << i;
      if (HasFailure()) return;
    }
  }
}

TEST(OwnUpdateTest, AResidualMovesWhereItsEntryCoversIt) {
  // Broken: what one fragment has lost would be added to another, or forgotten at the next entry.
  PrivateUpdate peer(RunOfFragments());
  peer.spec.mutable_exchange()->set_error_feedback(true);
  peer.own->Follow(peer.spec);
  peer.Leave(Slope(10000));
  absl::StatusOr<OwnUpdate::Encoded> made = peer.Kept();
  ASSERT_TRUE(made.ok()) << made.status();
  std::vector<float> lost = DecodedOf(*made, 5000);
  for (size_t i = 0; i < lost.size(); ++i) lost[i] = Slope(10000)[i] - lost[i];
  peer.own->Hold(*std::move(made), v1::Ready());
  peer.own->OnCommitted(peer.next);
  EXPECT_FALSE(peer.own->held());
  EXPECT_TRUE(peer.own->taken());
  EXPECT_FALSE(peer.own->TakeDropped());
  peer.Leave(std::vector<float>(10000, 0.0f));
  made = peer.Kept();  // of the same fragment once more
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->values, lost);
}

// A run of one fragment whose int8 loses something of each update.
TestRun RunWithFeedback() {
  TestRun run = RunOfFragments();
  run.fragments = 1;
  return run;
}

TEST(OwnUpdateTest, AnUpdateThatWasScaledDownLeavesAScaledRest) {
  // Broken: a huge update's length would come back in instalments, with each update after it.
  PrivateUpdate peer(RunWithFeedback());
  peer.spec.mutable_exchange()->set_error_feedback(true);
  peer.own->Follow(peer.spec);
  std::vector<float> huge = Slope(10000);
  for (float& value : huge) value *= 1e20f;
  peer.Leave(huge);
  absl::StatusOr<OwnUpdate::Encoded> made = peer.Kept();
  ASSERT_TRUE(made.ok()) << made.status();
  std::vector<float> rest = DecodedOf(*made, 10000);
  const float scale = 1e-20f;
  for (size_t i = 0; i < rest.size(); ++i) rest[i] = scale * (huge[i] - rest[i]);
  peer.own->Hold(*std::move(made), v1::Ready());
  peer.next.mutable_contributors(0)->set_scale_bits(PrivateUpdate::Bits32(scale));
  peer.own->OnCommitted(peer.next);
  EXPECT_TRUE(peer.own->taken());
  EXPECT_EQ(peer.own->carried(), scale);
  peer.Leave(std::vector<float>(10000, 0.0f));
  made = peer.Kept();
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->values, rest);
}

TEST(OwnUpdateTest, ARefusedUpdateTakesItsResidualAlong) {
  // Broken: one update too long for any scale would make all later ones so, also after a restart,
  // and a run whose quorum is all of its peers would wait for ever.
  PrivateUpdate peer(RunWithFeedback());
  peer.spec.mutable_exchange()->set_error_feedback(true);
  peer.own->Follow(peer.spec);
  peer.Leave(Slope(10000));
  absl::StatusOr<OwnUpdate::Encoded> made = peer.Kept();
  ASSERT_TRUE(made.ok()) << made.status();
  peer.own->Hold(*std::move(made), v1::Ready());
  peer.own->OnCommitted(peer.next);
  peer.world.RunFor(absl::Seconds(1));
  ASSERT_TRUE(peer.env.files.Exists(ResidualPath("/r")));
  peer.Leave(std::vector<float>(10000, 0.25f));
  made = peer.Kept();
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_NE(made->values, std::vector<float>(10000, 0.25f)) << "there is a residual";
  peer.own->Hold(*std::move(made), v1::Ready());
  peer.own->Refuse();
  EXPECT_FALSE(peer.own->held());
  peer.world.RunFor(absl::Seconds(1));
  EXPECT_FALSE(peer.env.files.Exists(ResidualPath("/r")));
  made = peer.Kept();
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->values, std::vector<float>(10000, 0.25f));
}

TEST(OwnUpdateTest, AResidualThatNoUpdateCanTakeIsLeftOut) {
  // Broken: the sum would be infinite, and the worker be ended for it, again and again.
  PrivateUpdate peer(RunWithFeedback());
  peer.spec.mutable_exchange()->set_error_feedback(true);
  peer.own->Follow(peer.spec);
  std::vector<float> huge(10000, 3e38f);
  huge[1] = 1e38f;  // of which int8 loses something
  peer.Leave(huge);
  absl::StatusOr<OwnUpdate::Encoded> made = peer.Kept();
  ASSERT_TRUE(made.ok()) << made.status();
  peer.own->Hold(*std::move(made), v1::Ready());
  peer.next.mutable_records()->mutable_shards(0)->Clear();  // it takes none of the chunks
  peer.own->OnCommitted(peer.next);
  for (const float value : {3e38f, 1.0f}) {
    peer.Leave(std::vector<float>(10000, value));
    made = peer.Kept();
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(made->values[0], value == 1.0f ? 3e38f : value);
  }
}

TEST(OwnUpdateTest, WhatAnEntryLeavesOutIsDroppedAndTheResidualStays) {
  // Broken: the update would be offered for an entry that covers other values, or counted as lost
  // by encoding what was never sent.
  PrivateUpdate peer(RunOfFragments());
  peer.spec.mutable_exchange()->set_error_feedback(true);
  peer.own->Follow(peer.spec);
  peer.Leave(Slope(10000));
  absl::StatusOr<OwnUpdate::Encoded> made = peer.Kept();
  ASSERT_TRUE(made.ok()) << made.status();
  peer.own->Hold(*std::move(made), v1::Ready());
  peer.next.mutable_contributors(0)->set_peer("another");
  peer.own->OnCommitted(peer.next);
  EXPECT_FALSE(peer.own->held());
  EXPECT_FALSE(peer.own->taken());
  EXPECT_TRUE(peer.own->TakeDropped());
  EXPECT_FALSE(peer.own->TakeDropped()) << "told once";
  peer.Leave(std::vector<float>(10000, 0.5f));
  made = peer.Kept();
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->values, std::vector<float>(5000, 0.5f));
}

TEST(OwnUpdateTest, AnEntryThatIsCommittedMeanwhileMakesItTheNextOnes) {
  // Broken: a straggler would offer the values of the fragment before for the next entry.
  PrivateUpdate peer(RunOfFragments());
  peer.own->Follow(peer.spec);
  peer.Leave(Slope(10000));
  bool prepared = false;
  peer.keeper->Prepare(peer.payload, [&](const absl::Status& status) { prepared = status.ok(); });
  ASSERT_TRUE(peer.world.RunUntil([&] { return prepared; }, absl::Seconds(10)));
  ASSERT_TRUE(peer.keeper->Announce(peer.next));
  ASSERT_EQ(peer.keeper->version(), 0u) << "the commit is under way";
  const absl::StatusOr<OwnUpdate::Encoded> made = peer.Kept();
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(peer.keeper->version(), 1u);
  EXPECT_NEAR(DecodedOf(*made, 5000)[7], Slope(10000)[5007], 0.05);
}

}  // namespace
}  // namespace atolld
