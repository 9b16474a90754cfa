#include "worker/stub/stub_learner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/casts.h"
#include "tests/unit/worker/training/fixtures.h"
#include "worker/base/session.h"

namespace atolld {
namespace {

constexpr size_t kSize = 10001;  // blocks, and a rest that fills no vector

// Broken: a run of stubs would not get better, and a wrong mean or a lost round would not be seen
// in its loss.
TEST(StubModel, UpdatesLeadToTheTarget) {
  std::vector<float> theta(kSize), update(kSize);
  FillStubParameters(7, absl::MakeSpan(theta));
  const double before = StubSquaredDistance(theta, 0);
  for (uint64_t round = 0; round < 30; ++round) {
    FillStubUpdate(theta, round, absl::MakeSpan(update));
    for (size_t i = 0; i < kSize; ++i) theta[i] -= update[i];
  }
  const double after = StubSquaredDistance(theta, 0);
  EXPECT_GT(before / kSize, 1.0);  // of independent values in [-0.5, 0.5) and [-2, 2): 17/12
  EXPECT_LT(before / kSize, 1.8);
  EXPECT_LT(after, before / 1000);
}

// Broken: an update would not be what the header says, 0.3 x (theta - target) and small noise.
TEST(StubModel, AnUpdateIsTheStepAndSmallNoise) {
  std::vector<float> theta(kSize), one(kSize), other(kSize), again(kSize);
  FillStubParameters(7, absl::MakeSpan(theta));
  FillStubUpdate(theta, 1, absl::MakeSpan(one));
  FillStubUpdate(theta, 2, absl::MakeSpan(other));
  FillStubUpdate(theta, 1, absl::MakeSpan(again));
  EXPECT_EQ(one, again);
  size_t differing = 0;
  for (size_t i = 0; i < kSize; ++i) {
    ASSERT_NEAR(one[i], 0.3f * (theta[i] - StubTarget(i)), 0.0051f) << i;
    differing += one[i] != other[i] ? 1 : 0;
  }
  EXPECT_GT(differing, kSize * 9 / 10);
}

// Broken: shares of an evaluation would not add up to the whole.
TEST(StubModel, DistancesOfPartsAddUp) {
  std::vector<float> theta(kSize);
  FillStubParameters(3, absl::MakeSpan(theta));
  double whole = 0;
  for (size_t i = 0; i < kSize; ++i) {
    const double distance = static_cast<double>(theta[i]) - static_cast<double>(StubTarget(i));
    whole += distance * distance;
  }
  const absl::Span<const float> all(theta);
  EXPECT_NEAR(StubSquaredDistance(all, 0), whole, whole * 1e-6);
  const double parts =
      StubSquaredDistance(all.subspan(0, 4099), 0) + StubSquaredDistance(all.subspan(4099), 4099);
  EXPECT_NEAR(parts, whole, whole * 1e-6);
}

// Broken: the vectors of two seeds, or the values of one, would be the same.
TEST(StubModel, ValuesDiffer) {
  std::vector<float> one(kSize), other(kSize);
  FillStubParameters(1, absl::MakeSpan(one));
  FillStubParameters(2, absl::MakeSpan(other));
  EXPECT_NE(one, other);
  for (const float value : one) ASSERT_LE(std::abs(value), 0.5f);
  std::sort(one.begin(), one.end());
  const auto distinct = std::unique(one.begin(), one.end()) - one.begin();
  EXPECT_GT(static_cast<size_t>(distinct), kSize * 99 / 100);
}

}  // namespace

namespace {

using ::testing::HasSubstr;

constexpr uint64_t kElements = 5000;
constexpr uint64_t kSlotBytes = 20480;

// Time moves only while the worker waits.
class SteppedInbox final : public Inbox {
 public:
  absl::optional<Event> TakeFor(absl::Duration limit) override {
    absl::optional<Event> event = TryTake();
    if (event.has_value()) return event;
    EXPECT_LT(limit, absl::InfiniteDuration()) << "it would wait for ever";
    if (limit == absl::InfiniteDuration()) {
      Event closed;
      closed.kind = Event::Kind::kClosed;
      return closed;
    }
    now += limit;
    if (on_wait) on_wait();
    return absl::nullopt;
  }

  absl::Time now = absl::UnixEpoch();
  std::function<void()> on_wait;
};

// The daemon's end.
class StubLearnerTest : public ::testing::Test, public Outbox {
 protected:
  StubLearnerTest() {
    std::ofstream(folder_ / "memory") << std::string(2 * kSlotBytes, '\0');
    v1::MapMemory& map = *map_message_.mutable_map_memory();
    map.set_path(folder_ / "memory");
    map.set_elements(kElements);
    map.set_update_offset(kSlotBytes);
    slots_ = *Slots::Map(map, kElements);
    v1::RunSpec& spec = *configure_.mutable_configure()->mutable_spec();
    spec.set_run_id("stub");
    spec.set_seed(5);
    spec.mutable_model()->set_kind("stub");
    spec.mutable_model()->set_parameters(kElements);
    spec.mutable_model()->set_context(64);
    spec.mutable_inner()->set_batch(2);
    spec.mutable_inner()->set_step_microseconds(20000);
  }

  bool Send(const v1::WorkerMessage& message) override {
    sent_.push_back(message);
    if (react_) react_(message);
    return true;
  }

  void Push(const v1::DaemonMessage& message) {
    Event event;
    event.message = message;
    inbox_.Push(event);
  }
  void Stop() {
    v1::DaemonMessage message;
    message.mutable_stop();
    Push(message);
  }
  void Train(uint64_t version, uint32_t steps) {
    v1::DaemonMessage message;
    message.mutable_train()->set_version(version);
    message.mutable_train()->set_steps(steps);
    v1::SampleRange& range = *message.mutable_train()->add_samples();
    range.set_first(version * 100);
    range.set_count(uint64_t{steps} * 2);
    Push(message);
  }
  void Evaluate(uint32_t share, uint32_t shares) {
    v1::DaemonMessage message;
    message.mutable_evaluate()->set_version(1);
    message.mutable_evaluate()->set_share(share);
    message.mutable_evaluate()->set_shares(shares);
    Push(message);
  }

  absl::Status Run() {
    WorkerEnv env;
    env.now = [this] { return inbox_.now; };
    StubLearner learner(env, /*slower=*/1, /*shift=*/0);
    return Session(inbox_, *this, learner, env).Run();
  }

  // Slots are read-only for a worker; here we are the daemon.
  float* theta() { return const_cast<float*>(slots_->theta().data()); }

  SteppedInbox inbox_;
  const TemporaryFolder folder_;
  std::unique_ptr<Slots> slots_;
  v1::DaemonMessage configure_, map_message_;
  std::vector<v1::WorkerMessage> sent_;
  std::function<void(const v1::WorkerMessage&)> react_;
};

// Broken: a daemon could not go through a round with a stub as it does with a real worker.
TEST_F(StubLearnerTest, GoesThroughARound) {
  Push(configure_);
  Push(map_message_);
  v1::DaemonMessage initial;
  initial.mutable_write_initial_state();
  Push(initial);
  react_ = [&](const v1::WorkerMessage& message) {
    if (message.has_initial_state_written()) {
      std::copy(slots_->update().begin(), slots_->update().end(), theta());
      Train(1, 50);
    }
    if (message.has_boundary()) {
      for (uint32_t share = 0; share < 3; ++share) Evaluate(share, 3);
      Stop();
    }
  };
  ASSERT_TRUE(Run().ok());
  ASSERT_GE(sent_.size(), 8u);
  EXPECT_EQ(sent_[0].hello().protocol(), 2u);
  EXPECT_EQ(sent_[1].configured().manifest().elements(), kElements);
  EXPECT_EQ(sent_[1].configured().data_digest().size(), 32u);
  EXPECT_TRUE(sent_[2].has_initial_state_written());
  EXPECT_EQ(sent_[3].progress().step(), 0u);
  EXPECT_EQ(sent_[3].progress().steps(), 50u);
  const v1::Boundary& boundary = sent_[sent_.size() - 4].boundary();
  EXPECT_EQ(boundary.version(), 1u);
  EXPECT_EQ(boundary.steps(), 50u);
  EXPECT_EQ(boundary.tokens(), 50u * 2 * 64);
  EXPECT_DOUBLE_EQ(boundary.seconds(), 1.0) << "50 steps of 20 ms";
  double sum = 0;
  uint64_t tokens = 0;
  for (size_t i = sent_.size() - 3; i < sent_.size(); ++i) {
    sum += sent_[i].evaluated().loss_sum();
    tokens += sent_[i].evaluated().tokens();
  }
  EXPECT_EQ(tokens, kElements);
  EXPECT_NEAR(sum, StubSquaredDistance(slots_->theta(), 0), 1e-3);
}

// Broken: progress would be a message a step, or none at all during a long round.
TEST_F(StubLearnerTest, TellsItsProgressFourTimesASecond) {
  Push(configure_);
  Push(map_message_);
  Train(1, 100);  // two seconds
  react_ = [&](const v1::WorkerMessage& message) {
    if (message.has_boundary()) Stop();
  };
  ASSERT_TRUE(Run().ok());
  std::vector<uint32_t> steps;
  for (const v1::WorkerMessage& message : sent_) {
    if (message.has_progress()) steps.push_back(message.progress().step());
  }
  EXPECT_EQ(steps, (std::vector<uint32_t>{0, 12, 25, 37, 50, 62, 75, 87}));
}

// Broken: a straggler would hand over the others' steps as its own: the update was formed at the
// theta at which the training began, and base and parameters of a rebase move alike.
TEST_F(StubLearnerTest, ARebaseLeavesTheUpdate) {
  FillStubParameters(9, absl::MakeSpan(theta(), kElements));
  std::vector<float> expected;
  inbox_.on_wait = [&] {
    if (!expected.empty()) return;
    expected.assign(slots_->update().begin(), slots_->update().end());
    for (uint64_t i = 0; i < kElements; ++i) theta()[i] += 1;
    v1::DaemonMessage rebase;
    rebase.mutable_rebase()->set_version(1);
    Push(rebase);
  };
  Push(configure_);
  Push(map_message_);
  Train(1, 50);
  react_ = [&](const v1::WorkerMessage& message) {
    if (message.has_boundary()) Stop();
  };
  ASSERT_TRUE(Run().ok());
  ASSERT_TRUE(sent_.back().has_boundary());
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), slots_->update().begin()));
  EXPECT_NEAR(expected[0], 0.3f * (theta()[0] - 1 - StubTarget(0)), 0.0051f);
}

// Broken: after a new Train the worker would finish work that nobody waits for.
TEST_F(StubLearnerTest, ANewerTrainStepsSupersedes) {
  Push(configure_);
  Push(map_message_);
  Train(1, 1000);
  Train(2, 2);
  react_ = [&](const v1::WorkerMessage& message) {
    if (message.has_boundary()) Stop();
  };
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(sent_.back().boundary().version(), 2u);
  EXPECT_DOUBLE_EQ(sent_.back().boundary().seconds(), 0.04);
}

// Broken: a worker whose daemon is gone, or that was asked to end, would stay.
TEST_F(StubLearnerTest, EndsWhenTheStreamDoes) {
  for (const Event::Kind kind : {Event::Kind::kClosed, Event::Kind::kTerminated}) {
    sent_.clear();
    Push(configure_);
    Push(map_message_);
    Train(1, 1000000);
    bool ended = false;
    inbox_.on_wait = [&] {
      if (std::exchange(ended, true)) return;
      Event event;
      event.kind = kind;
      inbox_.Push(event);
    };
    EXPECT_TRUE(Run().ok());
    EXPECT_FALSE(sent_.back().has_boundary());
  }
}

// Broken: the daemon would not learn why its worker is gone.
TEST_F(StubLearnerTest, WhatCannotBeDoneIsSaid) {
  const auto failure = [&](const std::vector<v1::DaemonMessage>& messages) {
    for (const v1::DaemonMessage& message : messages) Push(message);
    EXPECT_FALSE(Run().ok());
    return sent_.back().failed().what();
  };
  v1::DaemonMessage train;
  train.mutable_train()->set_steps(1);
  EXPECT_EQ(failure({train}), "TrainSteps came before MapMemory");
  EXPECT_EQ(failure({map_message_}), "MapMemory came before Configure");
  v1::DaemonMessage real = configure_;
  real.mutable_configure()->mutable_spec()->mutable_model()->set_kind("gpt");
  EXPECT_THAT(failure({real}), HasSubstr("needs atoll-worker"));
  v1::DaemonMessage empty = configure_;
  empty.mutable_configure()->mutable_spec()->mutable_model()->clear_parameters();
  EXPECT_THAT(failure({empty}), HasSubstr("it must be 1 to 2^34"));
  v1::DaemonMessage larger = map_message_;
  larger.mutable_map_memory()->set_elements(kElements + 1);
  EXPECT_THAT(failure({configure_, larger}), HasSubstr("slots of 5001 values"));
}

// Broken: end-to-end tests and the simulator would have no parties whose data differ.
TEST_F(StubLearnerTest, PartiesLearnTargetsOfTheirOwn) {
  v1::Configure& configure = *configure_.mutable_configure();
  configure.mutable_spec()->mutable_data()->set_private_(true);
  configure.mutable_spec()->mutable_inner()->set_epochs(1);
  configure.set_parties(3);
  configure.set_first_party(2);  // parties 2, 3 and 4 of the run
  Push(configure_);
  Push(map_message_);
  std::vector<float> first;
  const auto train = [&](uint32_t party) {
    v1::DaemonMessage message;
    message.mutable_train()->set_version(1);
    message.mutable_train()->set_steps(9);
    message.mutable_train()->set_party(party);
    Push(message);
  };
  train(1);
  react_ = [&](const v1::WorkerMessage& message) {
    if (message.has_boundary() && message.boundary().party() == 1) {
      first.assign(slots_->update().begin(), slots_->update().end());
      return train(2);
    }
    if (message.has_boundary()) {
      v1::DaemonMessage evaluate;
      evaluate.mutable_evaluate()->set_own(true);
      Push(evaluate);
    }
    if (message.has_evaluated()) Stop();
  };
  ASSERT_TRUE(Run().ok());
  const v1::WorkerConfigured& configured = sent_[1].configured();
  EXPECT_EQ(configured.data_digest(), "");
  EXPECT_EQ(configured.parties(), 4u);
  EXPECT_EQ(configured.samples(), StubPartySamples(2) + StubPartySamples(3) + StubPartySamples(4));
  double apart = 0;  // of the updates: by 0.3 of the targets', and the noise is as often above
  for (uint64_t i = 0; i < kElements; ++i) apart += first[i] - slots_->update()[i];
  EXPECT_NEAR(apart / kElements, 0.3 * (StubPartyShift(3) - StubPartyShift(2)), 0.001);
  EXPECT_NE(StubPartyShift(3), StubPartyShift(2));
  const v1::Boundary& boundary = sent_[sent_.size() - 2].boundary();
  EXPECT_EQ(boundary.samples(), StubPartySamples(3));
  EXPECT_EQ(boundary.steps(), StubPartySamples(3) / 2);
  EXPECT_EQ(boundary.first_loss(), boundary.loss());
  EXPECT_EQ(sent_.back().evaluated().own_losses_size(), 3);
  EXPECT_EQ(sent_.back().evaluated().own_losses(1), boundary.loss());
}

// Broken: the simulator and benchmarks would see no run whose peers train on while an entry is on
// its way: a stub would not keep what it learnt, would merge at another step, or not tell that it
// waits.
TEST_F(StubLearnerTest, OfADelayedRunWaitsForItsEntry) {
  configure_.mutable_configure()->mutable_spec()->mutable_mode()->set_kind("delayed");
  FillStubParameters(9, absl::MakeSpan(theta(), kElements));
  const std::vector<float> before(theta(), theta() + kElements);
  Push(configure_);
  Push(map_message_);
  v1::DaemonMessage ahead;
  v1::TrainSteps& train = *ahead.mutable_train();
  train.set_version(2);
  train.set_steps(50);
  train.set_merge_after(std::numeric_limits<uint32_t>::max());
  train.set_merge_version(1);
  train.add_samples()->set_first(200);
  Push(ahead);
  inbox_.on_wait = [&, sent = false]() mutable {
    const absl::Time late = absl::UnixEpoch() + absl::Seconds(2);
    if (inbox_.now < late || std::exchange(sent, true)) return;
    v1::DaemonMessage merge;
    merge.mutable_merge()->set_version(1);
    merge.mutable_merge()->set_own_share_bits(absl::bit_cast<uint32_t>(1.0f));
    Push(merge);
  };
  react_ = [&](const v1::WorkerMessage& message) {
    if (message.has_boundary()) Stop();
  };
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(sent_.back().boundary().steps(), 50u);
  EXPECT_DOUBLE_EQ(sent_.back().boundary().seconds(), 1.0);
  EXPECT_GE(sent_.back().boundary().waited_seconds(), 0.75);
  std::vector<float> update(kElements);
  FillStubUpdate(before, 200, absl::MakeSpan(update));
  for (uint64_t i = 0; i < kElements; ++i) ASSERT_EQ(slots_->update()[i], update[i]) << i;
}

TEST_F(StubLearnerTest, OfAStreamingRunKeepsItsParametersAndMerges) {
  configure_.mutable_configure()->mutable_spec()->mutable_mode()->set_kind("streaming");
  FillStubParameters(9, absl::MakeSpan(theta(), kElements));
  const std::vector<float> before(theta(), theta() + kElements);
  Push(configure_);
  Push(map_message_);
  Train(1, 50);
  std::vector<float> first;
  react_ = [&](const v1::WorkerMessage& message) {
    if (!message.has_boundary()) return;
    if (message.boundary().version() == 2) return Stop();
    first.assign(slots_->update().begin(), slots_->update().end());
    for (uint64_t i = 0; i < kElements; ++i) theta()[i] += 1;
    v1::DaemonMessage ahead;
    v1::TrainSteps& train = *ahead.mutable_train();
    train.set_version(2);
    train.set_steps(50);
    train.set_start("own");
    train.set_merge_after(10);
    train.set_merge_version(1);
    train.add_samples()->set_first(200);
    Push(ahead);
  };
  const absl::Time merge_at = absl::UnixEpoch() + absl::Milliseconds(2200);
  inbox_.on_wait = [&, sent = false]() mutable {
    if (inbox_.now < merge_at || std::exchange(sent, true)) return;
    v1::DaemonMessage merge;
    merge.mutable_merge()->set_version(1);
    merge.mutable_merge()->set_own_share_bits(absl::bit_cast<uint32_t>(0.25f));
    v1::ValueRange& range = *merge.mutable_merge()->add_ranges();
    range.set_count(1000);
    Push(merge);
  };
  ASSERT_TRUE(Run().ok());
  const v1::Boundary& boundary = sent_.back().boundary();
  EXPECT_EQ(boundary.steps(), 50u);
  EXPECT_DOUBLE_EQ(boundary.seconds(), 1.0);
  EXPECT_DOUBLE_EQ(boundary.waited_seconds(), 1.0) << "from 1.2 s to the look at 2.2 s";
  EXPECT_DOUBLE_EQ(absl::ToDoubleSeconds(inbox_.now - absl::UnixEpoch()), 3.0);
  std::vector<double> waited;
  for (const v1::WorkerMessage& message : sent_) {
    if (message.progress().waited_seconds() > 0 && message.progress().step() == 10) {
      waited.push_back(message.progress().waited_seconds());
    }
  }
  EXPECT_GE(waited.size(), 4u) << "it tells that it lives";
  EXPECT_TRUE(std::is_sorted(waited.begin(), waited.end()));
  std::vector<float> one(kElements), own(kElements), moved(kElements);
  FillStubUpdate(before, 100, absl::MakeSpan(one));
  for (uint64_t i = 0; i < kElements; ++i) {
    ASSERT_NEAR(first[i], one[i], 1e-6f) << i;
    own[i] = before[i] - one[i];
  }
  FillStubUpdate(own, 200, absl::MakeSpan(moved));
  std::vector<float> base = before;
  for (uint64_t i = 0; i < kElements; ++i) {
    own[i] -= 0.2f * moved[i];
    if (i >= 1000) continue;
    own[i] = 0.25f * own[i] + 0.75f * theta()[i];
    base[i] = theta()[i];
  }
  FillStubUpdate(own, 200, absl::MakeSpan(moved));
  for (uint64_t i = 0; i < kElements; ++i) {
    ASSERT_NEAR(slots_->update()[i], base[i] - (own[i] - 0.8f * moved[i]), 1e-5f) << i;
  }
}

// Broken: a run in another mode would seem to stream; and one in mode eager would start from theta.
TEST_F(StubLearnerTest, StartsWhereItIsTold) {
  v1::DaemonMessage train;
  train.mutable_train()->set_version(3);
  train.mutable_train()->set_steps(1);
  const auto failure = [&](const v1::DaemonMessage& message) {
    Push(configure_);
    Push(map_message_);
    Push(message);
    EXPECT_FALSE(Run().ok());
    return sent_.back().failed().what();
  };
  train.mutable_train()->set_start("own");
  EXPECT_THAT(failure({train}),
              HasSubstr("version 3: TrainSteps asks for parameters of the worker"));
  train.mutable_train()->set_start("guess");
  EXPECT_THAT(failure(train), HasSubstr("MapMemory named no slot for it"));
  std::filesystem::resize_file(folder_ / "memory", 3 * kSlotBytes);
  map_message_.mutable_map_memory()->set_guess_offset(2 * kSlotBytes);
  slots_ = *Slots::Map(map_message_.map_memory(), kElements);
  float* const guess = const_cast<float*>(slots_->guess().data());
  FillStubParameters(8, absl::MakeSpan(guess, kElements));
  Push(configure_);
  Push(map_message_);
  Push(train);
  react_ = [&](const v1::WorkerMessage& message) {
    if (message.has_boundary()) Stop();
  };
  ASSERT_TRUE(Run().ok());
  std::vector<float> expected(kElements);
  FillStubUpdate(slots_->guess(), 0, absl::MakeSpan(expected));
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), slots_->update().begin()));
}

// Broken: no run in which peers own experts could be tried with stubs, or they would train the
// experts of others.
TEST_F(StubLearnerTest, ExpertsThatAreFrozenHaveNoUpdate) {
  FillStubParameters(8, absl::MakeSpan(theta(), kElements));
  configure_.mutable_configure()->mutable_spec()->mutable_experts()->add_tensors("experts.#");
  v1::DaemonMessage train;
  train.mutable_train()->set_steps(3);
  v1::ValueRange& range = *train.mutable_train()->add_frozen();
  range.set_first(3125);  // experts 1 and 2
  range.set_count(1250);
  Push(configure_);
  Push(map_message_);
  Push(train);
  react_ = [&](const v1::WorkerMessage& message) {
    if (message.has_boundary()) Stop();
  };
  ASSERT_TRUE(Run().ok());
  const v1::Manifest& manifest = sent_[1].configured().manifest();
  EXPECT_EQ(manifest.elements(), kElements);
  ASSERT_EQ(manifest.tensors_size(), 5);
  EXPECT_EQ(manifest.tensors(0).name(), "stub");
  EXPECT_EQ(manifest.tensors(2).name(), "experts.1");
  EXPECT_EQ(manifest.tensors(2).offset(), 3125u);
  EXPECT_EQ(manifest.tensors(2).shape(0), 625u);
  std::vector<float> expected(kElements);
  FillStubUpdate(slots_->theta(), 0, absl::MakeSpan(expected));
  std::fill_n(expected.begin() + 3125, 1250, 0.0f);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), slots_->update().begin()));

  sent_.clear();
  train.mutable_train()->mutable_frozen(0)->set_count(1249);
  Push(configure_);
  Push(map_message_);
  Push(train);
  EXPECT_FALSE(Run().ok());
  EXPECT_THAT(sent_.back().failed().what(), HasSubstr("it has a part of experts.2"));
}

// Broken: a peer with too few parties would not hear of it from a stub, as it does from a worker.
TEST_F(StubLearnerTest, CountsThePartiesOfAFolder) {
  configure_.mutable_configure()->mutable_spec()->mutable_data()->set_private_(true);
  configure_.mutable_configure()->set_data_path(folder_.path());  // which has one file
  configure_.mutable_configure()->set_parties(2);
  Push(configure_);
  EXPECT_FALSE(Run().ok());
  EXPECT_THAT(sent_.back().failed().what(), HasSubstr("holds 1 party; this peer is to have 2"));
}

}  // namespace

}  // namespace atolld
