#include "worker/base/session.h"

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
#include "worker/base/file_io.h"
#include "worker/base/manifest.h"
#include "worker/program/model_learner.h"
#include "worker/training/worker_state.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

// The daemon's end, scripted: keeps what the worker sends and answers at once through `react`.
class ScriptedDaemon : public Outbox {
 public:
  explicit ScriptedDaemon(Inbox& inbox) : inbox_(inbox) {}

  bool Send(const v1::WorkerMessage& message) override {
    sent.push_back(message);
    if (react) react(message);
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

  std::vector<v1::Boundary> Boundaries() const {
    std::vector<v1::Boundary> boundaries;
    for (const v1::WorkerMessage& message : sent) {
      if (message.has_boundary()) boundaries.push_back(message.boundary());
    }
    return boundaries;
  }

  std::vector<v1::WorkerMessage> sent;
  std::function<void(const v1::WorkerMessage&)> react;

 private:
  Inbox& inbox_;
};

class SessionTest : public ::testing::Test {
 protected:
  SessionTest() : daemon_(inbox_), elements_(MakeManifest(TinySpec().model())->elements()) {
    std::ofstream(folder_ / "text") << SomeText(5000);
    slot_bytes_ = (elements_ * sizeof(float) + 4095) / 4096 * 4096;
    std::ofstream(folder_ / "memory") << std::string(2 * slot_bytes_, '\0');
    v1::MapMemory map;
    map.set_path(folder_ / "memory");
    map.set_elements(elements_);
    map.set_update_offset(slot_bytes_);
    slots_ = *Slots::Map(map, elements_);
    map_message_.mutable_map_memory()->CopyFrom(map);
    configure_.mutable_configure()->mutable_spec()->CopyFrom(TinySpec());
    configure_.mutable_configure()->set_data_path(folder_ / "text");
    configure_.mutable_configure()->set_state_path(folder_ / "state");
  }

  // Slots are read-only for a worker; here we are the daemon.
  float* theta() { return const_cast<float*>(slots_->theta().data()); }

  absl::Status Run() {
    WorkerEnv env;
    env.now = [this] { return now_ += tick_; };
    env.log = [this](const std::string& line) { log_ += line + "\n"; };
    ModelLearner::Options options;
    options.slower = slower_;
    ModelLearner learner(env, options);
    return Session(inbox_, daemon_, learner, env).Run();
  }

  void Begin() {
    daemon_.Push(configure_);
    daemon_.Push(map_message_);
    v1::DaemonMessage message;
    message.mutable_write_initial_state();
    daemon_.Push(message);
  }

  static v1::DaemonMessage Train(uint64_t version, uint32_t steps) {
    v1::DaemonMessage message;
    v1::TrainSteps& train = *message.mutable_train();
    train.set_version(version);
    train.set_first_step((version - 1) * 4);
    train.set_steps(steps);
    v1::SampleRange& first = *train.add_samples();
    first.set_first(version * 1000);
    first.set_count(3);  // a batch may lie across two ranges
    v1::SampleRange& second = *train.add_samples();
    second.set_first(version * 1000 + 500);
    second.set_count(uint64_t{steps} * 4 - 3);
    return message;
  }

  Inbox inbox_;
  ScriptedDaemon daemon_;
  const TemporaryFolder folder_;
  const uint64_t elements_;
  uint64_t slot_bytes_ = 0;
  std::unique_ptr<Slots> slots_;
  v1::DaemonMessage configure_, map_message_;
  absl::Time now_ = absl::UnixEpoch();
  absl::Duration tick_ = absl::Milliseconds(100);  // of each look at the clock
  std::string log_;
  double slower_ = 1;
};

// Broken: nobody would be told that a run reads a small corpus again and again; or be told each
// round.
TEST_F(SessionTest, ManyEpochsAreWarnedOfOnce) {
  Begin();
  daemon_.react = [&](const v1::WorkerMessage& message) {
    v1::DaemonMessage few = Train(1, 1);
    few.mutable_train()->mutable_samples(0)->set_first(0);
    few.mutable_train()->mutable_samples(1)->set_first(900);
    if (message.has_initial_state_written()) daemon_.Push(few);
    if (!message.has_boundary()) return;
    if (message.boundary().version() == 1) {
      EXPECT_EQ(log_.find("training data"), std::string::npos);
    }
    if (message.boundary().version() == 3) return daemon_.Stop();
    daemon_.Push(Train(message.boundary().version() + 1, 1));
  };
  ASSERT_TRUE(Run().ok());
  EXPECT_THAT(log_, HasSubstr("the run has read its training data 10.0 times"));
  EXPECT_EQ(log_.find("training data"), log_.rfind("training data"));
}

// Broken: a worker would not go through a round, or answer in another order than worker.proto says.
TEST_F(SessionTest, GoesThroughARound) {
  Begin();
  daemon_.react = [&](const v1::WorkerMessage& message) {
    if (message.has_initial_state_written()) {
      std::copy(slots_->update().begin(), slots_->update().end(), theta());
      daemon_.Push(Train(1, 8));
    }
    if (message.has_boundary()) {
      v1::DaemonMessage evaluate;
      evaluate.mutable_evaluate()->set_version(1);
      evaluate.mutable_evaluate()->set_shares(1);
      daemon_.Push(evaluate);
    }
    if (message.has_evaluated()) daemon_.Stop();
  };
  ASSERT_TRUE(Run().ok());
  const auto& sent = daemon_.sent;
  ASSERT_GE(sent.size(), 6u);
  EXPECT_EQ(sent[0].hello().protocol(), 2u);
  EXPECT_EQ(sent[1].configured().manifest().elements(), elements_);
  EXPECT_EQ(sent[1].configured().train_tokens(), 4000u);
  EXPECT_EQ(sent[1].configured().validation_tokens(), 1000u);
  EXPECT_EQ(sent[1].configured().data_digest().size(), 32u);
  EXPECT_TRUE(sent[2].has_initial_state_written());
  EXPECT_EQ(sent[3].progress().step(), 0u);
  const v1::Boundary& boundary = sent[sent.size() - 2].boundary();
  EXPECT_EQ(boundary.version(), 1u);
  EXPECT_EQ(boundary.steps(), 8u);
  EXPECT_EQ(boundary.tokens(), 8u * 4 * 16);
  EXPECT_GT(boundary.loss(), 4.0);
  EXPECT_GT(boundary.seconds(), 0);
  EXPECT_EQ(sent.back().evaluated().tokens(), 992u);
  const auto moved = [](float value) { return value != 0; };
  EXPECT_TRUE(std::any_of(slots_->update().begin(), slots_->update().end(), moved));
}

// Broken: every inner step would send a message.
TEST_F(SessionTest, ProgressIsAtMostFourASecond) {
  Begin();
  daemon_.Push(Train(1, 40));
  daemon_.react = [&](const v1::WorkerMessage& message) {
    if (message.has_boundary()) daemon_.Stop();
  };
  ASSERT_TRUE(Run().ok());
  size_t progress = 0;
  for (const v1::WorkerMessage& message : daemon_.sent) progress += message.has_progress() ? 1 : 0;
  // The clock moves 0.1 s each time it is asked; some 40 steps are some 5 s.
  EXPECT_GE(progress, 5u);
  EXPECT_LE(progress, 25u);
}

// Broken: a machine that is played slow would be idle in the eyes of all that measure it, or deaf
// while its step lasts.
TEST_F(SessionTest, ASlowerMachinesStepIsLongerAndIsTraining) {
  slower_ = 4;  // the step takes 0.1 s by the clock, so 0.3 s more are slept
  configure_.mutable_configure()->clear_state_path();  // writing a state is not training
  for (const bool asked : {true, false}) {
    daemon_.sent.clear();
    Begin();
    daemon_.Push(Train(1, 1));
    absl::Time began, ended;
    size_t in_the_step = 0;
    daemon_.react = [&](const v1::WorkerMessage& message) {
      if (message.has_progress()) {
        EXPECT_EQ(message.progress().step(), 0u) << "it is not over";
        if (++in_the_step == 1) began = now_ - absl::Milliseconds(100);
        v1::DaemonMessage evaluate;
        evaluate.mutable_evaluate()->set_shares(1);
        if (asked && in_the_step == 2) daemon_.Push(evaluate);
      }
      if (!message.has_boundary()) return;
      ended = now_;
      daemon_.Stop();
    };
    ASSERT_TRUE(Run().ok());
    EXPECT_GE(in_the_step, 2u);
    EXPECT_EQ(daemon_.sent.end()[-2].has_evaluated(), asked) << "answered within the step";
    const v1::Boundary& boundary = daemon_.sent.back().boundary();
    EXPECT_EQ(boundary.steps(), 1u);
    EXPECT_EQ(boundary.tokens(), 4u * 16);
    EXPECT_EQ(boundary.waited_seconds(), 0);
    const double whole = absl::ToDoubleSeconds(ended - began);
    if (asked) {
      EXPECT_LT(boundary.seconds(), whole - 0.01) << "an evaluation is not training";
    } else {
      EXPECT_NEAR(boundary.seconds(), whole, 1e-9);
    }
  }
}

// Broken: a straggler would hand over the others' steps as its own, or train on from where they no
// longer are.
TEST_F(SessionTest, ARebaseThatKeepsTheParametersMovesTheBaseAlone) {
  // Broken: a late update would count again what others have brought in meanwhile.
  configure_.mutable_configure()->mutable_spec()->mutable_inner()->set_learning_rate(0);
  configure_.mutable_configure()->mutable_spec()->mutable_inner()->set_min_learning_rate(0);
  bool moved = false;
  Begin();
  daemon_.react = [&](const v1::WorkerMessage& message) {
    if (message.has_initial_state_written()) {
      std::copy(slots_->update().begin(), slots_->update().end(), theta());
      daemon_.Push(Train(1, 20));
    }
    if (message.has_progress() && !std::exchange(moved, true)) {
      for (uint64_t i = 0; i < elements_; ++i) theta()[i] = i % 3 == 0 ? 1.0f : theta()[i];
      v1::DaemonMessage rebase;
      rebase.mutable_rebase()->set_version(1);
      rebase.mutable_rebase()->set_keep_parameters(true);
      daemon_.Push(rebase);
    }
    if (message.has_boundary()) daemon_.Stop();
  };
  EXPECT_TRUE(Run().ok());
  // Without a learning rate the parameters are those that it began from: the update is the move.
  bool any = false;
  for (uint64_t i = 0; i < elements_; ++i) {
    const bool moved_by_others = i % 3 == 0;
    ASSERT_EQ(slots_->update()[i] != 0 && !moved_by_others, false) << i;
    any |= slots_->update()[i] != 0;
  }
  EXPECT_TRUE(any);
}

TEST_F(SessionTest, ARebaseMovesBaseAndParametersAlike) {
  // Without a learning rate whatever is left in the update came from the rebase alone.
  configure_.mutable_configure()->mutable_spec()->mutable_inner()->set_learning_rate(0);
  configure_.mutable_configure()->mutable_spec()->mutable_inner()->set_min_learning_rate(0);
  const auto loss = [&](bool with_rebase) {
    daemon_.sent.clear();
    bool moved = false;
    Begin();
    daemon_.react = [&](const v1::WorkerMessage& message) {
      if (message.has_initial_state_written()) {
        std::copy(slots_->update().begin(), slots_->update().end(), theta());
        daemon_.Push(Train(1, 20));
      }
      if (message.has_progress() && with_rebase && !std::exchange(moved, true)) {
        for (uint64_t i = 0; i < elements_; i += 3) theta()[i] += 0.25f;
        v1::DaemonMessage rebase;
        rebase.mutable_rebase()->set_version(1);
        daemon_.Push(rebase);
      }
      if (message.has_boundary()) daemon_.Stop();
    };
    EXPECT_TRUE(Run().ok());
    return daemon_.Boundaries().back().loss();
  };
  const double plain = loss(false);
  std::filesystem::remove(folder_ / "state");
  const double rebased = loss(true);
  EXPECT_GT(std::abs(rebased - plain), 1e-3) << "the parameters have not moved";
  for (const float value : slots_->update()) ASSERT_EQ(value, 0.0f);
}

// Broken: after a new plan the worker would finish work that nobody waits for.
TEST_F(SessionTest, ANewerTrainStepsSupersedes) {
  Begin();
  daemon_.Push(Train(1, 1000));
  daemon_.Push(Train(2, 2));
  daemon_.react = [&](const v1::WorkerMessage& message) {
    if (message.has_boundary()) daemon_.Stop();
  };
  ASSERT_TRUE(Run().ok());
  ASSERT_EQ(daemon_.Boundaries().size(), 1u);
  EXPECT_EQ(daemon_.Boundaries()[0].version(), 2u);
}

// Broken: the moments would be cold after each restart of the worker.
TEST_F(SessionTest, TheOptimizersStateOutlivesTheWorker) {
  const auto finish = [&](const v1::WorkerMessage& message) {
    if (message.has_boundary()) daemon_.Stop();
  };
  daemon_.react = finish;
  Begin();
  daemon_.Push(Train(1, 3));
  ASSERT_TRUE(Run().ok());
  Begin();
  daemon_.Push(Train(2, 1));
  ASSERT_TRUE(Run().ok());
  EXPECT_THAT(log_, HasSubstr("state of 3 steps taken"));
}

// Broken: a peer that was stopped in the middle of a round would do it again with moments that have
// seen half of it.
TEST_F(SessionTest, AStopInTheMiddleOfATrainingLeavesTheStateOfItsStart) {
  tick_ = absl::Milliseconds(1);
  for (uint64_t i = 0; i < elements_; ++i) theta()[i] = 0.02f * static_cast<float>(i % 17) - 0.16f;
  std::vector<std::vector<float>> updates;
  bool stops = false;
  daemon_.react = [&](const v1::WorkerMessage& message) {
    if (message.has_progress() && stops && message.progress().step() > 0) return daemon_.Stop();
    if (!message.has_boundary()) return;
    updates.emplace_back(slots_->update().begin(), slots_->update().end());
    const uint64_t version = message.boundary().version();
    if (version == 2) return daemon_.Stop();
    stops = stops || updates.size() == 3;
    daemon_.Push(Train(2, stops ? 100000 : 5));
  };
  Begin();
  daemon_.Push(Train(1, 3));
  ASSERT_TRUE(Run().ok());
  ASSERT_EQ(updates.size(), 2u);
  std::filesystem::remove(folder_ / "state");
  std::filesystem::remove(FormerPath(folder_ / "state"));
  Begin();
  daemon_.Push(Train(1, 3));
  ASSERT_TRUE(Run().ok());
  ASSERT_EQ(updates.size(), 3u) << "stopped in the middle of the second";
  stops = false;
  log_.clear();
  Begin();
  daemon_.Push(Train(2, 5));
  ASSERT_TRUE(Run().ok());
  ASSERT_EQ(updates.size(), 4u);
  EXPECT_EQ(updates[2], updates[0]);
  EXPECT_EQ(updates[3], updates[1]);
  EXPECT_THAT(log_, HasSubstr("state of 3 steps taken"));
  EXPECT_EQ(log_.find("may differ"), std::string::npos) << log_;
}

// Broken: a worker whose writing of its state takes long would train half as fast, or nobody would
// learn that its state is none of a finished training.
TEST_F(SessionTest, WritingTheStateTakesAHundredthOfTheTime) {
  tick_ = absl::Milliseconds(250);  // so a write takes that long
  daemon_.react = [&](const v1::WorkerMessage& message) {
    if (message.has_progress() && message.progress().version() == 3 &&
        message.progress().step() > 0) {
      return daemon_.Stop();
    }
    if (!message.has_boundary()) return;
    if (message.boundary().version() == 1) tick_ = absl::Milliseconds(10);
    daemon_.Push(
        Train(message.boundary().version() + 1, message.boundary().version() == 2 ? 100000 : 3));
  };
  Begin();
  daemon_.Push(Train(1, 3));
  ASSERT_TRUE(Run().ok());
  daemon_.react = [&](const v1::WorkerMessage& message) {
    if (message.has_boundary()) daemon_.Stop();
  };
  log_.clear();
  Begin();
  daemon_.Push(Train(3, 3));
  ASSERT_TRUE(Run().ok());
  EXPECT_THAT(log_, HasSubstr("the worker was stopped in the middle of a training"));
}

// Broken: a worker whose daemon is gone, or that was asked to end, would train on.
TEST_F(SessionTest, EndsBetweenStepsWhenTheStreamDoes) {
  for (const Event::Kind kind : {Event::Kind::kClosed, Event::Kind::kTerminated}) {
    daemon_.sent.clear();
    Begin();
    daemon_.Push(Train(1, 1000000));
    daemon_.react = [&](const v1::WorkerMessage& message) {
      if (!message.has_progress() || message.progress().step() == 0) return;
      Event event;
      event.kind = kind;
      inbox_.Push(event);
      daemon_.react = nullptr;
    };
    EXPECT_TRUE(Run().ok());
    EXPECT_TRUE(daemon_.Boundaries().empty());
  }
}

// Broken: the daemon would not learn why its worker is gone.
TEST_F(SessionTest, WhatCannotBeDoneIsSaidAndEndsTheWorker) {
  const auto failure = [&](const std::vector<v1::DaemonMessage>& messages) {
    while (inbox_.TryTake().has_value()) {
    }
    for (const v1::DaemonMessage& message : messages) daemon_.Push(message);
    EXPECT_FALSE(Run().ok());
    return daemon_.sent.back().failed().what();
  };
  EXPECT_EQ(failure({Train(1, 1)}), "TrainSteps came before MapMemory");
  EXPECT_EQ(failure({map_message_}), "MapMemory came before Configure");

  v1::DaemonMessage train = Train(3, 2);
  train.mutable_train()->mutable_samples(1)->set_count(4);
  EXPECT_EQ(failure({configure_, map_message_, train}),
            "version 3: the lease has 7 samples; 2 steps of 4 need 8");

  std::fill(theta(), theta() + elements_, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(failure({configure_, map_message_, Train(1, 1)}), "version 1: step 0: the loss is nan");

  v1::DaemonMessage begin, initial;
  begin.mutable_write_initial_state();
  initial = configure_;
  v1::ModelSpec& model = *initial.mutable_configure()->mutable_spec()->mutable_model();
  model.set_from_file(true);
  model.set_initial_path(folder_ / "model.safetensors");
  std::ofstream(folder_ / "tokenizer.json") << "another tokenizer than bytes";
  EXPECT_THAT(failure({initial, map_message_, begin}),
              HasSubstr("initial: " + (folder_ / "tokenizer.json") + ", the tokenizer of "));
  std::filesystem::remove(folder_ / "tokenizer.json");
  EXPECT_THAT(failure({initial, map_message_, begin}), HasSubstr("model.safetensors"));

  configure_.mutable_configure()->mutable_spec()->mutable_data()->set_digest(std::string(32, 'x'));
  EXPECT_THAT(failure({configure_}), HasSubstr("has SHA-256 "));
}

// -----------------------------------------------------------------------------------------------
// Tensors that are not trained: experts of other peers.

class FrozenSessionTest : public SessionTest {
 protected:
  FrozenSessionTest() {
    for (uint64_t i = 0; i < elements_; ++i) {
      theta()[i] = 0.003f * static_cast<float>(i % 97) - 0.14f;
    }
  }

  // A training in which tensors number `first` to `last` are frozen.
  v1::DaemonMessage Freezing(uint64_t version, int first, int last) const {
    v1::DaemonMessage message = Train(version, 6);
    v1::ValueRange& range = *message.mutable_train()->add_frozen();
    range.set_first(manifest_.tensors(first).offset());
    range.set_count(manifest_.tensors(last).offset() + TensorElements(manifest_.tensors(last)) -
                    range.first());
    return message;
  }

  // Whether the update of any value of these tensors is, and of any other value is not, 0.
  std::pair<bool, bool> Moved(const v1::DaemonMessage& train) const {
    std::pair<bool, bool> moved;
    const v1::ValueRange& range = train.train().frozen(0);
    for (uint64_t i = 0; i < elements_; ++i) {
      const bool frozen = i >= range.first() && i < range.first() + range.count();
      (frozen ? moved.first : moved.second) |= slots_->update()[i] != 0;
    }
    return moved;
  }

  const v1::Manifest manifest_ = *MakeManifest(TinySpec().model());
};

// Broken: a peer would hand over an update of experts that it does not own, if only by the rounding
// of a rebase.
TEST_F(FrozenSessionTest, TheUpdateIsZeroWhereverThetaGoes) {
  for (const bool keeps : {false, true}) {
    const v1::DaemonMessage train = Freezing(1, 3, 5);
    bool moved = false;
    daemon_.react = [&](const v1::WorkerMessage& message) {
      if (message.has_progress() && !std::exchange(moved, true)) {
        for (uint64_t i = 0; i < elements_; ++i) theta()[i] = theta()[i] * 1.1f + 0.013f;
        v1::DaemonMessage rebase;
        rebase.mutable_rebase()->set_version(1);
        rebase.mutable_rebase()->set_keep_parameters(keeps);
        daemon_.Push(rebase);
      }
      if (message.has_boundary()) daemon_.Stop();
    };
    daemon_.Push(configure_);
    daemon_.Push(map_message_);
    daemon_.Push(train);
    ASSERT_TRUE(Run().ok());
    EXPECT_TRUE(moved);
    EXPECT_EQ(Moved(train), std::make_pair(false, true));
  }
}

// Broken: a worker that is started again with other experts than before would lose the moments of
// all its tensors, or go on with other ones than a worker that was never stopped.
TEST_F(FrozenSessionTest, AStateOutlivesARestartAndAnotherSetOfExperts) {
  const std::vector<v1::DaemonMessage> trainings = {Freezing(1, 3, 5), Freezing(2, 5, 9),
                                                    Freezing(3, 2, 2)};
  std::vector<std::vector<float>> updates;
  const auto live = [&](size_t first, size_t end) {  // a worker that does these trainings
    daemon_.react = [&, next = first](const v1::WorkerMessage& message) mutable {
      if (!message.has_boundary()) return;
      updates.emplace_back(slots_->update().begin(), slots_->update().end());
      EXPECT_EQ(Moved(trainings[next]), std::make_pair(false, true));
      if (++next == end) return daemon_.Stop();
      daemon_.Push(trainings[next]);
    };
    daemon_.Push(configure_);
    daemon_.Push(map_message_);
    daemon_.Push(trainings[first]);
    EXPECT_TRUE(Run().ok());
  };
  live(0, 3);
  std::filesystem::remove(folder_ / "state");
  std::filesystem::remove(FormerPath(folder_ / "state"));
  log_.clear();
  for (size_t i = 0; i < 3; ++i) live(i, i + 1);
  ASSERT_EQ(updates.size(), 6u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(updates[i], updates[i + 3]) << i;
  EXPECT_THAT(log_, HasSubstr("state of 6 steps taken"));
  EXPECT_THAT(log_, HasSubstr("state of 12 steps taken"));
  EXPECT_EQ(log_.find("not used"), std::string::npos) << log_;
}

// Broken: a half of an expert would be trained without a word.
TEST_F(FrozenSessionTest, OnlyWholeTensorsAreFrozen) {
  v1::DaemonMessage train = Freezing(4, 3, 3);
  train.mutable_train()->mutable_frozen(0)->set_count(5);
  daemon_.Push(configure_);
  daemon_.Push(map_message_);
  daemon_.Push(train);
  EXPECT_TRUE(absl::IsInvalidArgument(Run()));
  EXPECT_THAT(daemon_.sent.back().failed().what(),
              HasSubstr("version 4: TrainSteps.frozen has 5 values from "));
}

// -----------------------------------------------------------------------------------------------
// A run whose peers train on while an entry is on its way.

class AheadSessionTest : public SessionTest {
 protected:
  AheadSessionTest() {
    std::filesystem::resize_file(folder_ / "memory", 3 * slot_bytes_);
    v1::MapMemory& map = *map_message_.mutable_map_memory();
    map.set_guess_offset(2 * slot_bytes_);
    slots_ = *Slots::Map(map, elements_);
    for (uint64_t i = 0; i < elements_; ++i) {
      theta()[i] = 0.001f * static_cast<float>(i % 101) - 0.05f;
    }
    first_theta_.assign(theta(), theta() + elements_);
    daemon_.Push(configure_);
    daemon_.Push(map_message_);
  }

  // Without a learning rate all that moves parameters is what the daemon says.
  void StandStill() {
    v1::InnerSpec& inner = *configure_.mutable_configure()->mutable_spec()->mutable_inner();
    inner.set_learning_rate(0);
    inner.set_min_learning_rate(0);
    daemon_.Push(configure_);
    daemon_.Push(map_message_);
  }

  static v1::DaemonMessage TrainFrom(uint64_t version, uint32_t steps, const std::string& start,
                                     uint64_t merge_version = 0, uint32_t merge_after = 0) {
    v1::DaemonMessage message = Train(version, std::max(steps, 1u));
    message.mutable_train()->set_steps(steps);
    message.mutable_train()->set_start(start);
    message.mutable_train()->set_merge_version(merge_version);
    message.mutable_train()->set_merge_after(merge_after);
    return message;
  }

  static v1::DaemonMessage Merge(uint64_t version, float own_share) {
    v1::DaemonMessage message;
    message.mutable_merge()->set_version(version);
    message.mutable_merge()->set_own_share_bits(absl::bit_cast<uint32_t>(own_share));
    return message;
  }

  void MoveTheta() {
    for (uint64_t i = 0; i < elements_; ++i) theta()[i] = first_theta_[i] + 0.25f;
  }

  std::vector<float> Update() const { return {slots_->update().begin(), slots_->update().end()}; }

  std::vector<float> first_theta_;
};

// Broken: what a peer learned while an entry was on its way would be lost, or handed over twice; or
// a look at theta, or a theta that has moved, would take the place of its own parameters.
TEST_F(AheadSessionTest, GoesOnFromItsOwnParameters) {
  std::vector<float> learnt, kept;
  daemon_.Push(TrainFrom(1, 3, "own"));  // a new worker: from theta
  daemon_.react = [&](const v1::WorkerMessage& message) {
    if (message.has_evaluated()) daemon_.Push(TrainFrom(2, 0, "own"));
    if (!message.has_boundary()) return;
    if (message.boundary().version() == 1) {
      learnt = Update();
      MoveTheta();
      v1::DaemonMessage evaluate;
      evaluate.mutable_evaluate()->set_version(1);
      evaluate.mutable_evaluate()->set_shares(1);
      return daemon_.Push(evaluate);
    }
    if (message.boundary().version() == 2) {
      kept = Update();
      return daemon_.Push(TrainFrom(3, 0, ""));
    }
    daemon_.Stop();
  };
  ASSERT_TRUE(Run().ok());
  EXPECT_TRUE(std::any_of(learnt.begin(), learnt.end(), [](float value) { return value != 0; }));
  EXPECT_EQ(kept, learnt);
  EXPECT_EQ(Update(), std::vector<float>(elements_, 0.0f)) << "from theta there is nothing yet";
}

// Broken: in mode eager a worker would train from the state before the guess, and what it hands
// over would be counted from there.
TEST_F(AheadSessionTest, StartsFromTheGuess) {
  StandStill();
  float* const guess = const_cast<float*>(slots_->guess().data());
  for (uint64_t i = 0; i < elements_; ++i) guess[i] = first_theta_[i] + 0.5f;
  std::vector<double> losses;
  daemon_.Push(TrainFrom(1, 2, ""));
  daemon_.react = [&](const v1::WorkerMessage& message) {
    if (!message.has_boundary()) return;
    losses.push_back(message.boundary().first_loss());
    switch (message.boundary().version()) {
      case 1: {
        v1::DaemonMessage again = TrainFrom(2, 2, "guess");
        *again.mutable_train()->mutable_samples() = TrainFrom(1, 2, "").train().samples();
        return daemon_.Push(again);
      }
      case 2:
        daemon_.Push(Merge(2, 1));  // base = theta, and the parameters stay
        return daemon_.Push(TrainFrom(3, 0, "own"));
      default:
        return daemon_.Stop();
    }
  };
  ASSERT_TRUE(Run().ok());
  EXPECT_NE(losses[0], losses[1]);
  const std::vector<float> update = Update();
  for (uint64_t i = 0; i < elements_; ++i) {
    const float zero = 0.0f * theta()[i];
    const float from_theta = theta()[i] - (1.0f * guess[i] + zero);
    ASSERT_EQ(update[i], from_theta) << i;
  }
}

// Broken: peers would merge after as many steps as the network takes; or hand over an update that
// still holds the one before; or be taken for hung while they wait.
TEST_F(AheadSessionTest, MergesAtItsStepWhicheverComesFirst) {
  StandStill();
  std::vector<std::vector<float>> updates;
  std::vector<v1::Boundary> boundaries;
  uint32_t waiting = 0;
  for (const bool early : {true, false}) {
    std::copy(first_theta_.begin(), first_theta_.end(), theta());
    daemon_.Push(TrainFrom(1, 1, ""));
    daemon_.react = [&](const v1::WorkerMessage& message) {
      const bool ahead = message.has_progress() && message.progress().version() == 2;
      const bool waits =
          ahead && message.progress().step() == 3 && message.progress().waited_seconds() > 0;
      if (waits) ++waiting;
      if ((early && ahead && message.progress().step() == 0) || (!early && waits)) {
        MoveTheta();
        daemon_.Push(Merge(1, 0.5f));
      }
      if (!message.has_boundary()) return;
      if (message.boundary().version() == 1) return daemon_.Push(TrainFrom(2, 6, "own", 1, 3));
      updates.push_back(Update());
      boundaries.push_back(message.boundary());
      daemon_.Stop();
    };
    ASSERT_TRUE(Run().ok());
    daemon_.Push(configure_);
    daemon_.Push(map_message_);
  }
  ASSERT_EQ(updates.size(), 2u);
  EXPECT_EQ(updates[0], updates[1]);
  EXPECT_EQ(boundaries[0].loss(), boundaries[1].loss()) << "of three steps before, and three after";
  EXPECT_NE(boundaries[0].loss(), boundaries[0].first_loss());
  EXPECT_EQ(boundaries[1].steps(), 6u);
  EXPECT_EQ(boundaries[0].waited_seconds(), 0);
  EXPECT_GT(boundaries[1].waited_seconds(), 0);
  EXPECT_GE(waiting, 1u) << "it tells that it lives";
  for (uint64_t i = 0; i < elements_; ++i) {
    const float merged = 0.5f * first_theta_[i] + 0.5f * theta()[i];
    ASSERT_EQ(updates[0][i], theta()[i] - merged) << i;
  }
}

// Broken: a peer whose entry never comes would wait for ever, whatever it is told.
TEST_F(AheadSessionTest, NewerWorkAndTheEndEndTheWait) {
  daemon_.Push(TrainFrom(2, 4, "", 1, 1));
  daemon_.react = [&](const v1::WorkerMessage& message) {
    if (message.has_progress() && message.progress().waited_seconds() > 0) {
      if (message.progress().version() == 2) daemon_.Push(TrainFrom(5, 2, ""));
      if (message.progress().version() == 6) daemon_.Stop();
    }
    if (message.has_boundary()) daemon_.Push(TrainFrom(6, 2, "own", 9, 7));
  };
  ASSERT_TRUE(Run().ok());
  ASSERT_EQ(daemon_.Boundaries().size(), 1u) << "not before the merge, though its steps are done";
  EXPECT_EQ(daemon_.Boundaries()[0].version(), 5u);
  EXPECT_EQ(daemon_.Boundaries()[0].waited_seconds(), 0);
}

// Broken: an update that no entry took would be dropped with what was learnt of it; or a merge
// before any training would be a crash.
TEST_F(AheadSessionTest, AMergeWithoutATrainingIsDoneAtOnce) {
  std::vector<float> learnt;
  daemon_.Push(Merge(1, 0.5f));
  daemon_.Push(TrainFrom(1, 1, ""));
  daemon_.react = [&](const v1::WorkerMessage& message) {
    if (!message.has_boundary()) return;
    if (message.boundary().version() == 2) return daemon_.Stop();
    learnt = Update();
    MoveTheta();
    v1::DaemonMessage merge = Merge(1, 0);
    merge.mutable_merge()->set_rebase(true);
    v1::ValueRange& range = *merge.mutable_merge()->add_ranges();
    range.set_first(3);
    range.set_count(2);
    daemon_.Push(merge);
    merge.mutable_merge()->set_rebase(false);
    merge.mutable_merge()->mutable_ranges(0)->set_first(6);
    daemon_.Push(merge);
    daemon_.Push(TrainFrom(2, 0, "own", 1, 1));  // which is done, and so not waited for
  };
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(daemon_.Boundaries().back().waited_seconds(), 0);
  EXPECT_NE(learnt[6], 0.0f);
  const std::vector<float> update = Update();
  for (uint64_t i = 0; i < elements_; ++i) {
    if (i == 6 || i == 7) {
      ASSERT_EQ(update[i], 0.0f) << "theta's values have taken its place";
    } else {
      ASSERT_NEAR(update[i], learnt[i], i == 3 || i == 4 ? 1e-6 : 0) << i;
    }
  }
}

// Broken: a worker would train from somewhere else than it is told.
TEST_F(AheadSessionTest, WhatCannotBeDoneIsSaid) {
  const auto failure = [&](const v1::DaemonMessage& message) {
    daemon_.Push(configure_);
    v1::DaemonMessage map = map_message_;
    map.mutable_map_memory()->clear_guess_offset();
    daemon_.Push(map);
    daemon_.Push(message);
    EXPECT_FALSE(Run().ok());
    return daemon_.sent.back().failed().what();
  };
  EXPECT_THAT(failure(TrainFrom(1, 1, "guess")), HasSubstr("MapMemory named no slot for it"));
  EXPECT_THAT(failure(TrainFrom(1, 1, "base")), HasSubstr("TrainSteps.start is 'base'"));
  daemon_.Push(configure_);
  daemon_.Push(map_message_);
  daemon_.Push(TrainFrom(1, 1, ""));
  daemon_.Push(Merge(1, 2));
  EXPECT_FALSE(Run().ok());
  EXPECT_THAT(daemon_.sent.back().failed().what(), HasSubstr("own_share is 2"));
}

}  // namespace
}  // namespace atolld
