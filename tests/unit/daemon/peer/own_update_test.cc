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

// A peer of a run with privacy, whose worker has left an update.
struct PrivateUpdate {
  PrivateUpdate() : world(1), env(world.AddProcess("self").env()) {
    TestRun run;
    run.elements = kUpdateValues;
    run.chunk_elements = 4096;
    run.codec = "fp32";
    EXPECT_TRUE(CreateReplica(env.files, "/r", run).ok());
    ReplicaKeeper::Events events;
    events.on_offer = [] {};
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

}  // namespace
}  // namespace atolld
