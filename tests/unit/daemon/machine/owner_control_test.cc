// Would break: an order that an owner was told holds is forgotten by a restart, or does nothing.
#include "daemon/machine/owner_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compression/base/check.h"
#include "tests/sim/sim_world.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class FakeSensors final : public Sensors {
 public:
  explicit FakeSensors(Env env) : env_(env) {}
  void Read(const MachineConfig&, std::function<void(const MachineView&)> done) override {
    env_.executor.Post([this, done = std::move(done)] { done(view); });
  }
  MachineView view;

 private:
  const Env env_;
};

// A daemon's part for its owner, and the owner who asks over its socket.
class OwnerControlTest : public ::testing::Test {
 protected:
  struct Daemon {
    explicit Daemon(Env env) : sensors(env) {}
    FakeSensors sensors;
    std::unique_ptr<OwnerControl> control;
    std::unique_ptr<Listener> listener;
  };

  OwnerControlTest() {
    world_.AddProcess("owner");
    world_.AddProcess("p", [this](Env env) { return StartDaemon(env); });
  }

  std::shared_ptr<void> StartDaemon(Env env) {
    CHECK_OK(env.files.MakeDirectories("/r"));
    auto daemon = std::make_shared<Daemon>(env);
    daemon_ = daemon.get();
    OwnerControl::Events events;
    events.on_verdict = [this](const MachineVerdict& verdict) { verdicts_.push_back(verdict); };
    events.finish_round = [this](bool wanted) { finishing_.push_back(wanted); };
    events.tell = [this](v1::MachineStatus* status) {
      status->set_peer("p");
      status->set_connected(true);
      status->mutable_progress()->set_train_seconds(train_seconds_);
    };
    events.bytes_today = [this] { return bytes_; };
    events.on_caps = [this](uint64_t up, uint64_t down) { caps_ = {up, down}; };
    events.on_processors = [this](double per_cent) { processors_ = per_cent; };
    daemon->control = std::make_unique<OwnerControl>(env, "/r", configured_, daemon->sensors,
                                                     absl::UTCTimeZone(), events);
    loaded_ = daemon->control->Load();
    if (!loaded_.ok()) return daemon;
    if (!trace_.empty()) {
      absl::StatusOr<Availability> trace = Availability::Parse(trace_);
      CHECK_OK(trace.status());
      const size_t line = trace->LineOfNumber(1);
      daemon->control->Follow(TraceFollower(*std::move(trace), line, trace_speed_),
                              absl::InfinitePast());
    }
    daemon->control->Start();
    auto listening = env.transport.Listen(
        "p:1",
        [control = daemon->control.get()](const std::string& method, std::unique_ptr<Call> call) {
          control->Accept(method, std::move(call));
        });
    CHECK_OK(listening.status());
    daemon->listener = *std::move(listening);
    return daemon;
  }

  absl::StatusOr<v1::MachineStatus> Ask(const std::string& method,
                                        const google::protobuf::MessageLite& question) {
    absl::StatusOr<v1::MachineStatus> answer = absl::UnknownError("no answer");
    bool over = false;
    const auto call = world_.process("owner").env().transport.Dial(
        "p:1", "/atolld.v1.Machine/" + method, absl::Seconds(10));
    Call::Events events;
    events.on_frame = [&](const Frame& frame) {
      v1::MachineStatus status;
      CHECK_OK(Unpack(frame, &status));
      answer = status;
    };
    events.on_closed = [&](const absl::Status& status) {
      if (!status.ok()) answer = status;
      over = true;
    };
    call->Start(std::move(events));
    call->Write(Pack(question));
    call->Finish(absl::OkStatus());
    call->Read();
    EXPECT_TRUE(world_.RunUntil([&] { return over || answer.ok(); }, absl::Seconds(20)));
    return answer;
  }
  absl::StatusOr<v1::MachineStatus> Set(const std::string& key, const std::string& value,
                                        bool until_restart = false) {
    v1::SetLimitsRequest request;
    request.set_until_restart(until_restart);
    v1::Limit* const limit = request.add_limits();
    limit->set_key(key);
    limit->set_value(value);
    return Ask("SetLimits", request);
  }
  absl::StatusOr<v1::MachineStatus> PauseFor(uint64_t seconds) {
    v1::PauseMachineRequest request;
    request.set_seconds(seconds);
    return Ask("Pause", request);
  }
  void KillAndRestart(absl::Duration away) {
    world_.Kill("p");
    world_.RunFor(away);
    verdicts_.clear();
    finishing_.clear();
    world_.Restart("p");
  }
  bool Trains() const { return verdicts_.back().may_train; }

  MachineConfig configured_;
  std::string trace_;  // that a daemon follows from its next start on
  double trace_speed_ = 1;
  std::vector<MachineVerdict> verdicts_;
  std::vector<bool> finishing_;
  BytesToday bytes_;
  std::pair<uint64_t, uint64_t> caps_;
  std::optional<double> processors_;
  double train_seconds_ = 0;
  absl::Status loaded_;
  Daemon* daemon_ = nullptr;
  SimWorld world_{1};
};

TEST_F(OwnerControlTest, APauseHoldsOverAKillUntilResume) {
  EXPECT_TRUE(Trains());
  const absl::StatusOr<v1::MachineStatus> paused = PauseFor(0);
  ASSERT_TRUE(paused.ok()) << paused.status();
  EXPECT_TRUE(paused->paused());
  EXPECT_EQ(paused->paused_until_unix_seconds(), 0);
  EXPECT_THAT(paused->idle(), ElementsAre("paused by its owner"));
  EXPECT_GT(paused->idle_since_unix_seconds(), 0);
  EXPECT_FALSE(Trains());
  KillAndRestart(absl::Hours(24));  // what was answered is on the disk
  EXPECT_FALSE(verdicts_.front().may_train) << "not even for a moment";
  ASSERT_TRUE(Ask("Resume", v1::ResumeMachineRequest()).ok());
  EXPECT_TRUE(Trains());
  KillAndRestart(absl::Seconds(1));
  EXPECT_TRUE(verdicts_.front().may_train);
}

TEST_F(OwnerControlTest, ATimedPauseEndsByItselfAlsoWhileTheDaemonIsDown) {
  ASSERT_TRUE(PauseFor(3600).ok());
  world_.RunFor(absl::Minutes(59));
  EXPECT_FALSE(Trains());
  world_.RunFor(absl::Minutes(2));
  EXPECT_TRUE(Trains());
  ASSERT_TRUE(PauseFor(3600).ok());
  KillAndRestart(absl::Minutes(30));
  EXPECT_FALSE(verdicts_.front().may_train);
  KillAndRestart(absl::Minutes(31));
  EXPECT_TRUE(verdicts_.front().may_train);
  const absl::StatusOr<v1::MachineStatus> status = Ask("Show", v1::ShowMachineRequest());
  EXPECT_FALSE(status->paused());
  EXPECT_THAT(status->idle(), IsEmpty());
}

TEST_F(OwnerControlTest, FinishLetsTheRoundEndAndThenPauses) {
  v1::FinishRoundRequest request;
  request.set_pause_seconds(600);
  const absl::StatusOr<v1::MachineStatus> asked = Ask("FinishRound", request);
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_TRUE(asked->finishing());
  EXPECT_THAT(finishing_, ElementsAre(true));
  EXPECT_TRUE(Trains());
  KillAndRestart(absl::Seconds(1));
  EXPECT_THAT(finishing_, ElementsAre(true)) << "it is still wanted";
  daemon_->control->OnRoundFinished();
  EXPECT_FALSE(Trains());
  EXPECT_THAT(finishing_, ElementsAre(true, false));
  world_.RunFor(absl::Minutes(11));
  EXPECT_TRUE(Trains());
  // Of what is paused there is nothing to finish, and it does not begin for it.
  ASSERT_TRUE(PauseFor(60).ok());
  const size_t before = verdicts_.size();
  EXPECT_TRUE(Ask("FinishRound", request)->paused());
  for (size_t i = before; i < verdicts_.size(); ++i) EXPECT_FALSE(verdicts_[i].may_train);
  world_.RunFor(absl::Minutes(2));
  EXPECT_FALSE(Trains());
  ASSERT_TRUE(Ask("Resume", v1::ResumeMachineRequest()).ok());
  // Resume takes it back before.
  ASSERT_TRUE(Ask("FinishRound", request).ok());
  ASSERT_TRUE(Ask("Resume", v1::ResumeMachineRequest()).ok());
  EXPECT_THAT(finishing_, ElementsAre(true, false, true, false));
  daemon_->control->OnRoundFinished();
  EXPECT_TRUE(Trains());
}

TEST_F(OwnerControlTest, LimitsTakeEffectAtOnceAreKeptAndAreAllOrNone) {
  daemon_->sensors.view.disk_free_bytes = 5000;
  absl::StatusOr<v1::MachineStatus> status = Set("disk_floor", "6000");
  ASSERT_TRUE(status.ok()) << status.status();
  ASSERT_TRUE(world_.RunUntil([&] { return !Trains(); }, absl::Seconds(5)));
  EXPECT_THAT(verdicts_.back().reasons, ElementsAre(HasSubstr("of the disk is free")));
  ASSERT_TRUE(Set("disk_floor", "0").ok());
  EXPECT_TRUE(Trains());
  ASSERT_TRUE(Set("up_cap", "8Mbit").ok());
  EXPECT_EQ(caps_, std::make_pair(uint64_t{1000000}, uint64_t{0}));
  ASSERT_TRUE(Set("processors", "50").ok());
  EXPECT_EQ(processors_, 50);
  ASSERT_TRUE(Set("hours", "mon 00:00-00:01", true).ok());
  EXPECT_FALSE(Trains());
  status = Set("hour", "");
  EXPECT_TRUE(absl::IsInvalidArgument(status.status())) << status.status();
  KillAndRestart(absl::Seconds(1));
  EXPECT_TRUE(Trains()) << "hours were set until the restart";
  EXPECT_EQ(daemon_->control->limits().up_cap, 1000000u);
}

TEST_F(OwnerControlTest, AnOrderThatCannotBeWrittenFailsAndNeverTakesEffect) {
  // Broken: an owner would be told that the machine is paused, and it would train on after the next
  // start; or it would pause hours after the owner was told that it could not.
  ASSERT_TRUE(Set("up_cap", "8Mbit").ok());
  world_.disk("p").SetCapacity(0);
  const absl::StatusOr<v1::MachineStatus> paused = PauseFor(0);
  EXPECT_TRUE(absl::IsResourceExhausted(paused.status())) << paused.status();
  EXPECT_THAT(std::string(paused.status().message()), HasSubstr("nothing has changed"));
  EXPECT_TRUE(absl::IsResourceExhausted(Set("up_cap", "4Mbit").status()));
  EXPECT_TRUE(absl::IsResourceExhausted(Ask("FinishRound", v1::FinishRoundRequest()).status()));
  EXPECT_TRUE(Trains());
  EXPECT_THAT(finishing_, IsEmpty());
  EXPECT_EQ(caps_, std::make_pair(uint64_t{1000000}, uint64_t{0}));
  ASSERT_TRUE(Set("processors", "50", true).ok()) << "it is not kept, so it needs no disk";
  world_.disk("p").SetCapacity(uint64_t{1} << 20);
  world_.RunFor(absl::Minutes(1));
  EXPECT_TRUE(Trains());
  KillAndRestart(absl::Seconds(1));
  EXPECT_TRUE(Trains());
  EXPECT_EQ(daemon_->control->limits().up_cap, 1000000u);
  ASSERT_TRUE(PauseFor(0).ok());
  EXPECT_FALSE(Trains());
}

TEST_F(OwnerControlTest, WhatIsCountedWhileAnOrderIsWrittenDoesNotTakeItBack) {
  // Broken: the order would be on the disk for a moment, and a restart would forget it.
  const auto call = world_.process("owner").env().transport.Dial("p:1", "/atolld.v1.Machine/Pause",
                                                                 absl::Seconds(10));
  call->Start({nullptr, nullptr, nullptr});
  call->Write(Pack(v1::PauseMachineRequest()));
  for (int i = 0; i < 200 && Trains(); ++i) {
    daemon_->control->OnRoundFinished();
    daemon_->control->OnContributed(10);
    world_.RunFor(absl::Microseconds(50));
  }
  world_.RunFor(absl::Minutes(1));
  EXPECT_FALSE(Trains());
  KillAndRestart(absl::Seconds(1));
  EXPECT_FALSE(Trains());
}

TEST_F(OwnerControlTest, LimitsThatWereSetWithoutADaemonHoldFromItsNextStart) {
  // Broken: who sets limits before the first start, or while it is stopped, finds them forgotten.
  ASSERT_TRUE(Set("up_cap", "8Mbit").ok());
  world_.Kill("p");
  SimFiles files(world_.disk("p"));
  configured_.processors = 75;
  const auto keep = [&](const std::vector<std::pair<std::string, std::string>>& values) {
    return KeepLimits(files, "/r", configured_, absl::UTCTimeZone(), values);
  };
  const absl::StatusOr<LimitBook> kept =
      keep({{"hours", "mon 00:00-00:01"}, {"down_cap", "16Mbit"}});
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->limits().processors, 75);  // the config's
  // All or none.
  EXPECT_THAT(std::string(keep({{"up_cap", "1Mbit"}, {"hour", ""}}).status().message()),
              HasSubstr("the nearest is 'hours'"));
  EXPECT_TRUE(absl::IsInvalidArgument(keep({{"hours", "at night"}}).status()));
  world_.Restart("p");
  EXPECT_FALSE(Trains());
  EXPECT_EQ(daemon_->control->limits().up_cap, 1000000u);  // set while it ran
  EXPECT_EQ(daemon_->control->limits().down_cap, 2000000u);
  world_.Kill("p");
  SimFiles later(world_.disk("p"));
  ASSERT_TRUE(WriteFileDurably(later, "/r/limits.toml", BytesOf("up_cap = lots\n")).ok());
  const auto refused =
      KeepLimits(later, "/r", configured_, absl::UTCTimeZone(), {{"up_cap", "1Mbit"}});
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status())) << refused.status();
}

TEST_F(OwnerControlTest, AConfigThatIsReadAgainTakesEffectAtOnceBeneathWhatWasSet) {
  ASSERT_TRUE(Set("processors", "50").ok());
  MachineConfig changed;
  changed.processors = 25;
  changed.up_cap = 7000;
  changed.hours = "mon 00:00-00:01";
  ASSERT_TRUE(daemon_->control->Configure(changed).ok());
  EXPECT_FALSE(Trains());
  EXPECT_EQ(caps_, std::make_pair(uint64_t{7000}, uint64_t{0}));
  EXPECT_EQ(processors_, 50);
  changed.hours = "at night";
  changed.up_cap = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(daemon_->control->Configure(changed)));
  EXPECT_FALSE(Trains());
  EXPECT_EQ(daemon_->control->limits().up_cap, 7000u) << "all or none";
  ASSERT_TRUE(daemon_->control->Configure(configured_).ok());
  EXPECT_TRUE(Trains());
  EXPECT_EQ(caps_, std::make_pair(uint64_t{0}, uint64_t{0}));
}

TEST_F(OwnerControlTest, SpentBytesPauseAndLimitsThatAreLiftedLetItGoOn) {
  configured_.bytes_a_day = 1000;
  bytes_ = {400, 500};
  KillAndRestart(absl::Seconds(1));
  EXPECT_TRUE(Trains());
  bytes_.received = 600;
  ASSERT_TRUE(world_.RunUntil([&] { return !Trains(); }, absl::Seconds(5)));
  EXPECT_FALSE(verdicts_.back().may_exchange);
  ASSERT_TRUE(Set("bytes_a_day", "2000").ok());
  EXPECT_TRUE(Trains());
  const absl::StatusOr<v1::MachineStatus> status = Ask("Show", v1::ShowMachineRequest());
  EXPECT_EQ(status->bytes_sent_today(), 400u);
  EXPECT_EQ(status->bytes_received_today(), 600u);
}

TEST_F(OwnerControlTest, ATraceSendsThePeerAwayAndLetsItComeBack) {
  // Broken: an experiment's machines never leave, stay away for good, or begin their day anew with
  // each restart.
  trace_ = "period 1000\n1 0-100,300-400\n";
  KillAndRestart(absl::Seconds(1));
  EXPECT_TRUE(Trains());
  world_.RunFor(absl::Seconds(101));
  EXPECT_FALSE(Trains());
  EXPECT_FALSE(verdicts_.back().may_exchange);
  const absl::StatusOr<v1::MachineStatus> away = Ask("Show", v1::ShowMachineRequest());
  ASSERT_TRUE(away.ok()) << away.status();
  ASSERT_THAT(away->idle(), Not(IsEmpty()));
  EXPECT_THAT(away->idle(0), HasSubstr("away by its trace until "));
  EXPECT_FALSE(away->paused()) << "nobody has given an order";
  const size_t said = verdicts_.size();
  world_.RunFor(absl::Seconds(150));
  EXPECT_EQ(verdicts_.size(), said) << "a reason that lasts stays the same";
  world_.RunFor(absl::Seconds(100));
  EXPECT_TRUE(Trains()) << "350 s";
  KillAndRestart(absl::Seconds(200));
  EXPECT_FALSE(verdicts_.front().may_train) << "550 s: not even for a moment";
  world_.RunFor(absl::Seconds(500));
  EXPECT_TRUE(Trains()) << "1050 s: the trace begins again";
  ASSERT_TRUE(PauseFor(0).ok());
  EXPECT_FALSE(Trains());
  EXPECT_THAT(verdicts_.back().reasons, ElementsAre("paused by its owner"));
}

TEST_F(OwnerControlTest, ATraceMayRunFaster) {
  // Broken: a day of a trace takes a day.
  trace_ = "period 86400\n1 0-43200\n";
  trace_speed_ = 864;  // a day in 100 s
  KillAndRestart(absl::Seconds(1));
  EXPECT_TRUE(Trains());
  world_.RunFor(absl::Seconds(51));
  EXPECT_FALSE(Trains());
  world_.RunFor(absl::Seconds(50));
  EXPECT_TRUE(Trains());
}

TEST_F(OwnerControlTest, WhatItGaveIsKept) {
  daemon_->control->OnContributed(500);
  daemon_->control->OnContributed(700);
  train_seconds_ = 12;
  world_.RunFor(absl::Seconds(11));
  train_seconds_ = 0;
  KillAndRestart(absl::Seconds(1));
  const absl::StatusOr<v1::MachineStatus> status = Ask("Show", v1::ShowMachineRequest());
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->rounds(), 2u);
  EXPECT_EQ(status->tokens(), 1200u);
  EXPECT_EQ(status->train_seconds_today(), 12);
}

TEST(OwnerStateTest, ItsTextIsReadBackAndADamagedOneIsNamed) {
  EXPECT_THAT(std::string(OwnerState::Parse("rounds 1\npaws\n").status().message()),
              HasSubstr("'paws'"));
  OwnerState state;
  state.order.kind = OwnerOrder::Kind::kFinish;
  state.order.pause = absl::Seconds(90);
  state.rounds = 3;
  state.day = "2026-11-26";
  state.train_seconds = 4.5;
  const absl::StatusOr<OwnerState> read = OwnerState::Parse(state.Text());
  ASSERT_TRUE(read.ok()) << state.Text();
  EXPECT_EQ(read->order.kind, state.order.kind);
  EXPECT_EQ(read->order.pause, state.order.pause);
  EXPECT_EQ(read->rounds, 3u);
  EXPECT_EQ(read->train_seconds, 4.5);
}

}  // namespace
}  // namespace atolld
