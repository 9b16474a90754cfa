#include "daemon/peer/eager_guess.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/base/casts.h"
#include "compression/codec.h"
#include "tests/sim/sim_world.h"
#include "tests/unit/daemon/replica/state/test_run.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

constexpr size_t kGuessed = 1000;  // values, in chunks of 256

std::vector<float> UpdateNow() {
  std::vector<float> values(kGuessed);
  for (size_t i = 0; i < kGuessed; ++i) values[i] = 0.001f * static_cast<float>(i % 7) - 0.002f;
  return values;
}

std::vector<float> UpdateBefore() {
  std::vector<float> values(kGuessed);
  for (size_t i = 0; i < kGuessed; ++i) values[i] = 0.0005f * static_cast<float>(i % 5);
  return values;
}

// A peer whose replica stands at a version, and whose worker leaves updates.
struct EagerPeer {
  explicit EagerPeer(uint64_t version) : world(1), env(world.AddProcess("p2").env()) {
    run.codec = "fp32";
    {
      absl::StatusOr<OwnedReplica> replica = CreateReplica(env.files, "/r", run);
      EXPECT_TRUE(replica.ok()) << replica.status();
      run.CommitTo(**replica, version);
      if (version > 0) header = *(*replica)->header();
    }
    ReplicaKeeper::Events events;
    events.on_offer = [] {};
    events.on_digest = [](uint64_t, const Digest&) {};
    keeper = std::make_unique<ReplicaKeeper>(env, "/r", RetentionPolicy(), std::move(events));
    EXPECT_TRUE(keeper->Load().ok());
    own = std::make_unique<OwnUpdate>(env, "p2", "/r", *keeper);
    spec = keeper->genesis().spec();
    guess = std::make_unique<EagerGuess>(*keeper, *own);
  }

  void Hold(const std::vector<float>& update) {
    const int file = open(keeper->memory()->path().c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(file, 0);
    ASSERT_EQ(pwrite(file, update.data(), update.size() * sizeof(float),
                     static_cast<off_t>(keeper->memory()->update_offset())),
              static_cast<ssize_t>(update.size() * sizeof(float)));
    close(file);
    bool done = false;
    own->Encode({}, [&](const absl::Status& status, OwnUpdate::Encoded made) {
      EXPECT_TRUE(status.ok()) << status;
      own->Hold(std::move(made), v1::Ready());
      done = true;
    });
    EXPECT_TRUE(world.RunUntil([&] { return done; }, absl::Seconds(10)));
  }

  // The entry of this version has taken the held update: of weights 1, 2 and 3 it has 2, and it
  // was halved.
  void Commit() {
    for (int i = 0; i < 3; ++i) {
      header.mutable_contributors(i)->set_weight_bits(
          absl::bit_cast<uint32_t>(static_cast<float>(i + 1)));
    }
    header.mutable_contributors(1)->set_scale_bits(absl::bit_cast<uint32_t>(0.5f));
    guess->OnCommitted(header);
    own->Drop();
  }

  absl::Status Make() {
    absl::Status made = absl::UnknownError("not yet");
    bool done = false;
    guess->Make([&](const absl::Status& status) {
      made = status;
      done = true;
    });
    EXPECT_FALSE(done) << "it is told later";
    EXPECT_TRUE(world.RunUntil([&] { return done; }, absl::Seconds(10)));
    return made;
  }

  std::vector<float> Guessed() const {
    const absl::Span<const float> values = keeper->memory()->guess();
    return {values.begin(), values.end()};
  }

  std::vector<float> Theta() const {
    const absl::Span<const float> values = keeper->memory()->theta();
    return {values.begin(), values.end()};
  }

  // The mean of entry 1, which is also the momentum after it.
  std::vector<float> FirstMean() const {
    std::vector<float> values;
    const ChunkGrid grid(run.elements, run.chunk_elements);
    const Codec& codec = **FindCodec("fp32");
    const absl::StatusOr<std::vector<SharedBytes>> chunks =
        SplitPayload(grid, codec, run.Payload(1));
    EXPECT_TRUE(chunks.ok()) << chunks.status();
    for (uint32_t chunk = 0; chunk < grid.chunks(); ++chunk) {
      std::vector<float> part(grid.Elements(chunk));
      EXPECT_TRUE(codec.Decode((*chunks)[chunk].span(), absl::MakeSpan(part)).ok());
      values.insert(values.end(), part.begin(), part.end());
    }
    return values;
  }

  // Nesterov's step with 0.7 and 0.9 from theta and a momentum, by `mean`.
  static std::vector<float> Stepped(std::vector<float> theta, const std::vector<float>& momentum,
                                    const std::vector<float>& mean) {
    for (size_t i = 0; i < theta.size(); ++i) {
      const float kept = 0.9f * momentum[i];
      const float buffer = kept + mean[i];
      const float ahead = 0.9f * buffer;
      const float step = mean[i] + ahead;
      const float change = 0.7f * step;
      theta[i] -= change;
    }
    return theta;
  }

  TestRun run;
  SimWorld world;
  const Env env;
  v1::EntryHeader header;
  std::unique_ptr<ReplicaKeeper> keeper;
  std::unique_ptr<OwnUpdate> own;
  std::unique_ptr<EagerGuess> guess;
  v1::RunSpec spec;
};

TEST(EagerGuessTest, TheOwnStaleShareIsReplacedByTheFreshOne) {
  // Broken: a worker would train on from another guess than arXiv:2502.12996 has it, and eager
  // would be no better than delayed. Single values' bits were computed apart (numpy, float32).
  EagerPeer peer(1);
  peer.own->Follow(peer.spec);
  peer.Hold(UpdateBefore());
  peer.Commit();
  peer.Hold(UpdateNow());
  const std::vector<float> theta = peer.Theta();
  const absl::Status made = peer.Make();
  ASSERT_TRUE(made.ok()) << made;
  const std::vector<float> first = peer.FirstMean(), now = UpdateNow(), before = UpdateBefore();
  std::vector<float> mean = first;
  for (size_t i = 0; i < kGuessed; ++i) {
    const float gave = 0.5f * before[i];
    const float fresh = now[i] - gave;
    const float change = (1.0f / 3) * fresh;
    mean[i] += change;
  }
  const std::vector<float> guessed = peer.Guessed();
  EXPECT_EQ(guessed, EagerPeer::Stepped(theta, first, mean));
  EXPECT_EQ(absl::bit_cast<uint32_t>(guessed[0]), 0xbf1498d9u);
  EXPECT_EQ(absl::bit_cast<uint32_t>(guessed[255]), 0x3f6166c9u);
  EXPECT_EQ(absl::bit_cast<uint32_t>(guessed[256]), 0xbb4dfeacu);
  EXPECT_EQ(absl::bit_cast<uint32_t>(guessed[999]), 0xbefe43aeu);
  EXPECT_EQ(peer.Theta(), theta) << "the state itself moves by entries alone";
  ASSERT_TRUE(peer.Make().ok());
  EXPECT_EQ(peer.Guessed(), guessed) << "nor do its buffers";
}

TEST(EagerGuessTest, WithoutAnEntryTheOwnUpdateIsTheGuess) {
  // Broken: the first round after the start would train from version 0 twice.
  EagerPeer peer(0);
  peer.own->Follow(peer.spec);
  peer.Hold(UpdateNow());
  ASSERT_TRUE(peer.Make().ok());
  EXPECT_EQ(peer.Guessed(),
            EagerPeer::Stepped(peer.Theta(), std::vector<float>(kGuessed, 0.0f), UpdateNow()));
}

TEST(EagerGuessTest, AMeanThatHoldsNothingOfThisPeerStandsAlone) {
  // Broken: a peer that was left out, or was started anew, would subtract what nobody added.
  EagerPeer peer(1);
  peer.own->Follow(peer.spec);
  peer.Hold(UpdateNow());
  const std::vector<float> mean = peer.FirstMean();
  const std::vector<float> expected = EagerPeer::Stepped(peer.Theta(), mean, mean);
  v1::EntryHeader others = peer.header;
  others.mutable_contributors()->DeleteSubrange(1, 1);
  peer.guess->OnCommitted(others);
  ASSERT_TRUE(peer.Make().ok());
  EXPECT_EQ(peer.Guessed(), expected);
  peer.Commit();  // this time it was in it
  peer.Hold(UpdateNow());
  peer.guess->Forget();
  ASSERT_TRUE(peer.Make().ok());
  EXPECT_EQ(peer.Guessed(), expected);
}

TEST(EagerGuessTest, AShareOfAnotherEntryIsNone) {
  // Broken: what went into entry 2 would be taken out of entry 1.
  EagerPeer peer(1);
  peer.own->Follow(peer.spec);
  peer.Hold(UpdateBefore());
  peer.header.set_version(2);
  peer.Commit();
  peer.Hold(UpdateNow());
  const std::vector<float> mean = peer.FirstMean();
  ASSERT_TRUE(peer.Make().ok());
  EXPECT_EQ(peer.Guessed(), EagerPeer::Stepped(peer.Theta(), mean, mean));
}

TEST(EagerGuessTest, AFormerLifesUpdateIsNotTheHeldOne) {
  // Broken: after a restart the new update would be subtracted from a mean that holds the old one.
  EagerPeer peer(1);
  peer.own->Follow(peer.spec);
  bool done = false;
  peer.own->Encode({}, [&](const absl::Status&, OwnUpdate::Encoded made) {
    v1::Ready ready;
    v1::SampleRange* const range = ready.add_samples();
    range->set_first(500);
    range->set_count(4);
    peer.own->Hold(std::move(made), std::move(ready));
    done = true;
  });
  ASSERT_TRUE(peer.world.RunUntil([&] { return done; }, absl::Seconds(10)));
  v1::SampleRange* const spent = peer.header.mutable_contributors(1)->add_samples();
  spent->set_first(100);
  spent->set_count(4);
  EXPECT_EQ(peer.own->TakenBy(peer.header), nullptr);
  spent->set_first(500);
  EXPECT_EQ(peer.own->TakenBy(peer.header), &peer.header.contributors(1));
}

TEST(EagerGuessTest, WithNothingKnownTheStateIsTheGuess) {
  // Broken: a worker would start from zeros, or from a guess of another round.
  EagerPeer peer(0);
  peer.own->Follow(peer.spec);
  ASSERT_TRUE(peer.Make().ok());
  EXPECT_EQ(peer.Guessed(), peer.Theta());
}

TEST(EagerGuessTest, WhatCannotBeGuessedIsSaid) {
  // Broken: a worker would be told to start from values that are none.
  EagerPeer peer(0);
  peer.own->Follow(peer.spec);
  peer.Hold(std::vector<float>(kGuessed, 3e38f));
  const absl::Status overflown = peer.Make();
  EXPECT_EQ(overflown.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(overflown.message()), HasSubstr("the guess of version 1: value 0"));
  ReplicaKeeper::Events events;
  ReplicaKeeper empty(peer.env, "/none", RetentionPolicy(), std::move(events));
  ASSERT_TRUE(empty.Load().ok());
  EagerGuess guess(empty, *peer.own);
  absl::Status status;
  bool done = false;
  guess.Make([&](const absl::Status& made) {
    status = made;
    done = true;
  });
  ASSERT_TRUE(peer.world.RunUntil([&] { return done; }, absl::Seconds(10)));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace atolld
