#include "worker/program/session.h"

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

#include "tests/unit/worker/training/fixtures.h"
#include "worker/base/file_io.h"
#include "worker/base/manifest.h"

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
    Session::Options options;
    options.now = [this] { return now_ += absl::Milliseconds(100); };
    options.log = [this](const std::string& line) { log_ += line + "\n"; };
    return Session(inbox_, daemon_, options).Run();
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
  std::string log_;
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
  EXPECT_EQ(sent[0].hello().protocol(), 1u);
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

// Broken: a straggler would hand over the others' steps as its own, or train on from where they no
// longer are.
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

  configure_.mutable_configure()->mutable_spec()->mutable_data()->set_digest(std::string(32, 'x'));
  EXPECT_THAT(failure({configure_}), HasSubstr("has SHA-256 "));
}

}  // namespace
}  // namespace atolld
