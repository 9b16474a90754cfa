#include "daemon/peer/worker_watch.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/sim/sim_world.h"

namespace atolld {
namespace {

// A worker that says what the test makes it say.
class SilentWorker final : public Worker {
 public:
  void Start(const v1::RunSpec&, Events started) override { events = std::move(started); }
  void Renew(const v1::RunSpec&, const std::string&) override {}
  void Send(const v1::DaemonMessage&) override {}
  void Restart(const absl::Status& why) override {
    ends.push_back(why);
    events.on_lost(why);
    events.on_configured({});
  }
  void Pause() override {}
  void Resume() override {}
  void Stop(Task done) override { done(); }

  Events events;
  std::vector<absl::Status> ends;
};

class WorkerWatchTest : public ::testing::Test {
 protected:
  WorkerWatchTest() {
    watch_.Start({}, {[](const v1::WorkerConfigured&) {}, [](const v1::WorkerMessage&) {},
                      [](const absl::Status&) {}});
  }

  void Configure() { worker_.events.on_configured({}); }
  void Train(uint64_t version) {
    v1::DaemonMessage order;
    order.mutable_train()->set_version(version);
    watch_.Send(order);
  }
  void Evaluate() {
    v1::DaemonMessage order;
    order.mutable_evaluate()->set_version(7);
    watch_.Send(order);
  }
  void Step(uint32_t step) {
    v1::WorkerMessage said;
    said.mutable_progress()->set_step(step);
    worker_.events.on_message(said);
  }
  void Boundary() {
    v1::WorkerMessage said;
    said.mutable_boundary();
    worker_.events.on_message(said);
  }
  void RunFor(double seconds) { world_.RunFor(absl::Seconds(seconds)); }
  size_t ends() const { return worker_.ends.size(); }

  SimWorld world_{1};
  SilentWorker worker_;
  WorkerWatch watch_{world_.AddProcess("p").env(), worker_, absl::Seconds(1)};
};

// Would break: a machine that its owner has paused for an hour would be taken for one that hangs.
TEST_F(WorkerWatchTest, WhoIsToPauseIsNotWaitedFor) {
  Configure();
  Train(3);
  watch_.Pause();
  RunFor(3600);
  EXPECT_EQ(ends(), 0u);
  watch_.Resume();  // and starts: five minutes
  RunFor(299);
  EXPECT_EQ(ends(), 0u);
  RunFor(3);
  EXPECT_EQ(ends(), 1u);
}

// Would break: a worker that hangs is never ended; or one that is only slow in its first step, in
// which it compiles what it runs, is.
TEST_F(WorkerWatchTest, WhoHasNeverShownAStepHasLong) {
  Configure();
  Train(3);
  RunFor(30);
  Step(0);  // it has begun: nothing is known of how long a step takes
  RunFor(59);
  EXPECT_EQ(ends(), 0u);
  RunFor(2);
  ASSERT_EQ(ends(), 1u);
  EXPECT_EQ(worker_.ends[0],
            absl::DeadlineExceededError("no sign of life for 1m while it trains version 3"));
}

// Would break: a worker of known speed that hangs is ended as late as one of which nothing is
// known.
TEST_F(WorkerWatchTest, WhoseStepsAreKnownIsEndedAfterEightOfThem) {
  Configure();
  Train(3);
  RunFor(2);
  for (uint32_t step = 1; step <= 4; ++step) {
    Step(step);
    RunFor(2);
  }
  Boundary();
  RunFor(1000);
  EXPECT_EQ(ends(), 0u);  // idle
  Train(4);
  RunFor(27.4);  // 8 x 2 s + 12 s, looked at every half second
  EXPECT_EQ(ends(), 0u);
  RunFor(1.2);
  EXPECT_EQ(ends(), 1u);
}

// Would break: an evaluation, of which nothing was measured, is held to the time of a step; or what
// is measured in the middle of one counts as a step's.
TEST_F(WorkerWatchTest, AnEvaluationHasItsOwnTime) {
  Configure();
  Train(3);
  RunFor(1);
  Step(1);
  Evaluate();
  RunFor(50);
  EXPECT_EQ(ends(), 0u);
  v1::WorkerMessage said;
  said.mutable_evaluated()->set_version(7);
  worker_.events.on_message(said);
  RunFor(19);
  EXPECT_EQ(ends(), 0u);
  RunFor(2);  // the training's: 8 x 1 s + 12 s since then
  EXPECT_EQ(ends(), 1u);
}

// Would break: a worker whose steps have become slower than they were is ended for ever.
TEST_F(WorkerWatchTest, EachEndInARowDoublesItsTime) {
  Configure();
  Train(3);
  RunFor(61);
  ASSERT_EQ(ends(), 1u);
  Train(3);
  RunFor(119);
  EXPECT_EQ(ends(), 1u);
  Boundary();
  Train(4);
  RunFor(8 * 119);
  EXPECT_EQ(ends(), 1u);
  RunFor(14);
  EXPECT_EQ(ends(), 2u);
}

// Would break: a worker that reads its data for ever is never started again.
TEST_F(WorkerWatchTest, AStartHasAnEndAsWell) {
  RunFor(299);
  EXPECT_EQ(ends(), 0u);
  RunFor(2);
  EXPECT_EQ(ends(), 1u);
}

// Would break: a laptop that was asleep ends its worker when it wakes up.
TEST_F(WorkerWatchTest, ADaemonThatWasStoppedBlamesNobody) {
  Configure();
  Train(3);
  RunFor(1);
  world_.Pause("p", absl::Minutes(10));
  RunFor(601);
  EXPECT_EQ(ends(), 0u);
  RunFor(61);
  EXPECT_EQ(ends(), 1u);
}

}  // namespace
}  // namespace atolld
