#include "daemon/experiment/run_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace atolld {
namespace {

using ::testing::HasSubstr;
using State = RunQueue::State;

// Runs that end when a test says so.
class FakeLauncher : public RunLauncher {
 public:
  bool Finished(size_t run) override { return finished.count(run) > 0; }
  bool Busy(size_t run) override { return busy.count(run) > 0; }
  absl::Status Start(size_t run) override {
    if (refused.count(run) > 0) return absl::UnknownError("no room");
    started.push_back(run);
    return absl::OkStatus();
  }
  std::optional<LaunchEnd> Ended(size_t run) override {
    const auto found = ends.find(run);
    if (found == ends.end()) return std::nullopt;
    return found->second;
  }
  uint64_t Round(size_t run) override { return rounds[run]; }
  void Stop(size_t run) override { stopped.push_back(run); }

  std::set<size_t> finished, busy, refused;
  std::vector<size_t> started, stopped;
  std::map<size_t, LaunchEnd> ends;
  std::map<size_t, uint64_t> rounds;
};

std::vector<QueuedRun> FourRuns() {
  return {{"a", "A", 1, 10}, {"b", "B", 1, 10}, {"c", "A", 2, 10}, {"d", "B", 2, 10}};
}

TEST(RunQueueTest, KeepsAsManyRunningAsFit) {
  // Broken: a machine would be crowded, or stand idle while runs wait.
  FakeLauncher launcher;
  RunQueue queue(FourRuns(), 2, launcher);
  queue.Step(0);
  EXPECT_EQ(launcher.started, (std::vector<size_t>{0, 1}));
  queue.Step(1);
  EXPECT_EQ(launcher.started.size(), 2u);
  launcher.ends[1] = {true, ""};
  queue.Step(2);
  EXPECT_EQ(launcher.started, (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(queue.state(1), State::kFinished);
  EXPECT_FALSE(queue.done());
}

TEST(RunQueueTest, ASecondStartSkipsWhatIsFinishedAndGoesOn) {
  // Broken: after SIGKILL an experiment would train everything again, or leave runs out.
  FakeLauncher launcher;
  launcher.finished = {0, 2};
  launcher.rounds[1] = 6;
  RunQueue queue(FourRuns(), 1, launcher);
  EXPECT_EQ(queue.Count(State::kFinished), 2u);
  const std::vector<std::string> lines = queue.Step(0);
  EXPECT_EQ(launcher.started, (std::vector<size_t>{1}));
  EXPECT_THAT(lines, ::testing::ElementsAre("B, seed 1: goes on at round 6"));
  launcher.ends[1] = {true, ""};
  queue.Step(1);
  launcher.ends[3] = {true, ""};
  queue.Step(2);
  EXPECT_TRUE(queue.done());
  EXPECT_EQ(queue.Count(State::kFinished), 4u);
  EXPECT_EQ(queue.Share(), 1);
}

TEST(RunQueueTest, WaitsForWhatIsStillEnding) {
  // Broken: after SIGKILL a run would be started beside its own last processes, and refused.
  FakeLauncher launcher;
  launcher.busy = {0};
  RunQueue queue(FourRuns(), 1, launcher);
  queue.Step(0);
  EXPECT_EQ(launcher.started, (std::vector<size_t>{1}));
  launcher.busy.clear();
  launcher.ends[1] = {true, ""};
  queue.Step(1);
  EXPECT_EQ(launcher.started, (std::vector<size_t>{1, 0}));
}

TEST(RunQueueTest, AFailedRunDoesNotKeepTheOthers) {
  // Broken: one bad setting would end an experiment of days.
  FakeLauncher launcher;
  launcher.refused = {1};
  RunQueue queue(FourRuns(), 4, launcher);
  const std::vector<std::string> lines = queue.Step(0);
  EXPECT_EQ(launcher.started, (std::vector<size_t>{0, 2, 3}));
  EXPECT_EQ(queue.state(1), State::kBroken);
  EXPECT_EQ(queue.why(1), "no room");
  launcher.ends = {{0, {true, ""}}, {2, {false, "it was killed"}}, {3, {true, ""}}};
  EXPECT_THAT(queue.Step(1), ::testing::Contains(HasSubstr("A, seed 2: failed: it was killed")));
  EXPECT_TRUE(queue.done());
  EXPECT_EQ(queue.Count(State::kFinished), 2u);
}

TEST(RunQueueTest, StopEndsInOrder) {
  // Broken: Ctrl-C would leave runs behind, or count what was stopped as failed.
  FakeLauncher launcher;
  RunQueue queue(FourRuns(), 2, launcher);
  queue.Step(0);
  queue.Stop();
  queue.Stop();
  EXPECT_EQ(launcher.stopped, (std::vector<size_t>{0, 1}));
  EXPECT_FALSE(queue.done());
  launcher.ends = {{0, {false, "stopped"}}, {1, {true, ""}}};
  queue.Step(1);
  EXPECT_TRUE(queue.done());
  EXPECT_EQ(launcher.started.size(), 2u);
  EXPECT_EQ(queue.state(0), State::kWaiting);
  EXPECT_EQ(queue.state(1), State::kFinished);
}

TEST(RunQueueTest, TimeLeftFollowsThePaceSinceTheStart) {
  // Broken: what was done before a restart would count as done in no time.
  FakeLauncher launcher;
  launcher.finished = {0, 1};
  RunQueue queue(FourRuns(), 2, launcher);
  queue.Step(100);
  EXPECT_FALSE(queue.SecondsLeft(100).has_value());
  launcher.rounds = {{2, 5}, {3, 5}};
  queue.Step(110);
  EXPECT_DOUBLE_EQ(queue.Share(), 0.75);
  ASSERT_TRUE(queue.SecondsLeft(110).has_value());
  EXPECT_NEAR(*queue.SecondsLeft(110), 10, 1e-9);
}

}  // namespace
}  // namespace atolld
