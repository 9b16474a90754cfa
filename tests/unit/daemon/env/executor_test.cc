#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "daemon/env/float_mode.h"
#include "daemon/env/posix_executor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace atolld {
namespace {

using ::testing::ElementsAre;

constexpr absl::Duration kLimit = absl::Seconds(20);

PosixExecutor::Options Threads(int threads) {
  PosixExecutor::Options options;
  options.threads = threads;
  return options;
}

// State machines rely on events in the order in which they were posted, never run from inside Post.
TEST(PosixExecutor, RunsPostedTasksInOrderAndNeverInside) {
  PosixExecutor executor(Threads(1));
  std::vector<int> ran;
  executor.Post([&] {
    executor.Post([&] { ran.push_back(3); });
    ran.push_back(1);
  });
  executor.Post([&] { ran.push_back(2); });
  EXPECT_TRUE(ran.empty());
  EXPECT_TRUE(executor.RunUntil([&] { return ran.size() == 3; }, kLimit));
  EXPECT_THAT(ran, ElementsAre(1, 2, 3));
}

// A lost or reordered post from a reactor would lose or reorder frames.
TEST(PosixExecutor, KeepsEachThreadsOrder) {
  PosixExecutor executor(Threads(1));
  constexpr int kPosts = 2000;
  std::vector<int> seen[2];
  std::thread threads[2];
  for (int t = 0; t < 2; ++t) {
    threads[t] = std::thread([&executor, &seen, t] {
      for (int i = 0; i < kPosts; ++i) executor.Post([&seen, t, i] { seen[t].push_back(i); });
    });
  }
  EXPECT_TRUE(executor.RunUntil(
      [&] { return seen[0].size() == kPosts && seen[1].size() == kPosts; }, kLimit));
  for (int t = 0; t < 2; ++t) {
    threads[t].join();
    for (int i = 0; i < kPosts; ++i) ASSERT_EQ(seen[t][static_cast<size_t>(i)], i);
  }
}

// Deadlines of a round that fire in the wrong order would close it by the wrong rule.
TEST(PosixExecutor, FiresTimersByTimeThenByCall) {
  PosixExecutor executor(Threads(1));
  std::vector<int> fired;
  executor.RunAfter(absl::Milliseconds(20), [&] { fired.push_back(4); });
  executor.RunAfter(absl::Milliseconds(5), [&] { fired.push_back(3); });
  executor.RunAfter(absl::ZeroDuration(), [&] { fired.push_back(1); });
  executor.RunAfter(-absl::Seconds(1), [&] { fired.push_back(2); });
  executor.RunAfter(absl::InfiniteDuration(), [&] { fired.push_back(9); });
  EXPECT_TRUE(executor.RunUntil([&] { return fired.size() == 4; }, kLimit));
  EXPECT_THAT(fired, ElementsAre(1, 2, 3, 4));
}

// A timer must not fire early: deadlines promise at least their delay.
TEST(PosixExecutor, NeverFiresEarly) {
  PosixExecutor executor(Threads(1));
  const absl::Time begin = executor.Now();
  absl::Time fired = begin;
  executor.RunAfter(absl::Milliseconds(15), [&] { fired = executor.Now(); });
  EXPECT_TRUE(executor.RunUntil([&] { return fired != begin; }, kLimit));
  EXPECT_GE(fired - begin, absl::Milliseconds(15));
}

// A cancelled timer that still runs would act for a round that is over; even one that is due
// already.
TEST(PosixExecutor, CancelledTimersNeverRun) {
  PosixExecutor executor(Threads(1));
  bool cancelled_ran = false;
  bool end = false;
  Executor::TimerId second = 0;
  const auto far = executor.RunAfter(absl::Hours(1), [&] { cancelled_ran = true; });
  const auto first = executor.RunAfter(absl::ZeroDuration(), [&] { executor.Cancel(second); });
  second = executor.RunAfter(absl::ZeroDuration(), [&] { cancelled_ran = true; });
  executor.RunAfter(absl::ZeroDuration(), [&] { end = true; });
  executor.Cancel(far);
  executor.Cancel(far);
  EXPECT_TRUE(executor.RunUntil([&] { return end; }, kLimit));
  executor.Cancel(first);
  EXPECT_FALSE(cancelled_ran);
}

// Work on the loop would stall every heartbeat; `done` off the loop would race with all state.
TEST(PosixExecutor, OffloadsWorkAndAnswersOnTheLoop) {
  PosixExecutor executor(Threads(2));
  const std::thread::id loop = std::this_thread::get_id();
  std::atomic<int> on_pool{0};
  int done = 0;
  for (int i = 0; i < 50; ++i) {
    executor.Offload(
        [&] {
          if (std::this_thread::get_id() != loop) ++on_pool;
        },
        [&] {
          if (std::this_thread::get_id() == loop) ++done;
        });
  }
  EXPECT_TRUE(executor.RunUntil([&] { return done == 50; }, kLimit));
  EXPECT_EQ(on_pool, 50);
}

// What work owns (a Call, a replica) must be destroyed on the loop.
TEST(PosixExecutor, DestroysWorkOnTheLoop) {
  PosixExecutor executor(Threads(1));
  std::thread::id destroyed_on;
  bool done = false;
  {
    std::shared_ptr<int> owned(new int(1), [&](int* pointer) {
      destroyed_on = std::this_thread::get_id();
      delete pointer;
    });
    executor.Offload([owned] {}, [&done] { done = true; });
  }
  EXPECT_TRUE(executor.RunUntil([&] { return destroyed_on != std::thread::id(); }, kLimit));
  EXPECT_TRUE(done);
  EXPECT_EQ(destroyed_on, std::this_thread::get_id());
}

// A process that ignores Stop cannot be ended in order.
TEST(PosixExecutor, StopsAfterTheRunningTaskAndRunsAgain) {
  PosixExecutor executor(Threads(1));
  int ran = 0;
  executor.Post([&] {
    executor.Stop();
    ++ran;
  });
  executor.Post([&] {
    ++ran;
    executor.Stop();
  });
  executor.Run();
  EXPECT_EQ(ran, 1);
  executor.Run();
  EXPECT_EQ(ran, 2);
  std::thread other([&] { executor.Stop(); });
  executor.Run();
  other.join();
}

// Leftover tasks that run after their owners are gone, or leak, would crash the end of every
// process.
TEST(PosixExecutor, DropsWhatHasNotRun) {
  auto token = std::make_shared<int>(1);
  {
    PosixExecutor executor(Threads(1));
    executor.Post([token] { FAIL(); });
    executor.RunAfter(absl::ZeroDuration(), [token] { FAIL(); });
    executor.Offload([token] {}, [token] { FAIL(); });
  }
  EXPECT_EQ(token.use_count(), 1);
}

// Two peers that draw the same number would collide.
TEST(PosixExecutor, DrawsDifferentNumbers) {
  PosixExecutor executor(Threads(1));
  EXPECT_NE(executor.Random(), executor.Random());
}

#if defined(__x86_64__)
// A pool thread that flushes denormals computes other bits than the other replicas.
TEST(PosixExecutorDeathTest, EndsTheProcessWhenAJobLeavesOtherFloatModes) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        PosixExecutor executor(Threads(1));
        bool done = false;
        executor.Offload([] { _mm_setcsr(_mm_getcsr() | 0x8040); }, [&] { done = true; });
        executor.RunUntil([&] { return done; }, kLimit);
      },
      "FloatModeIsDefault");
}

// The same where the modes were changed on a thread from outside: setting must undo it.
TEST(FloatMode, SetRestoresTheDefaults) {
  _mm_setcsr(_mm_getcsr() | 0x8040 | 0x2000);
  EXPECT_FALSE(FloatModeIsDefault());
  SetDefaultFloatMode();
  EXPECT_TRUE(FloatModeIsDefault());
}
#endif

// Two jobs on one replica at once, or out of order, would break it.
TEST(SerialQueue, RunsOneJobAfterAnother) {
  PosixExecutor executor(Threads(3));
  SerialQueue queue(executor);
  std::atomic<int> inside{0};
  std::atomic<bool> overlapped{false};
  std::vector<int> order;
  std::vector<int> done;
  for (int i = 0; i < 100; ++i) {
    queue.Run(
        [&, i] {
          if (++inside != 1) overlapped = true;
          order.push_back(i);  // safe only because jobs never overlap
          --inside;
        },
        [&, i] { done.push_back(i); });
  }
  EXPECT_FALSE(queue.idle());
  EXPECT_TRUE(executor.RunUntil([&] { return done.size() == 100; }, kLimit));
  EXPECT_TRUE(queue.idle());
  EXPECT_FALSE(overlapped);
  EXPECT_EQ(order, done);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(order[static_cast<size_t>(i)], i);
}

// `done` reads what its job made: the next job must not run yet. And it may queue more, behind what
// waits.
TEST(SerialQueue, RunsDoneBeforeTheNextJob) {
  PosixExecutor executor(Threads(2));
  SerialQueue queue(executor);
  int made = 0;
  std::vector<int> seen;
  queue.Run([&] { made = 1; },
            [&] {
              queue.Run([&] { made = 3; }, [&] { seen.push_back(made); });
              seen.push_back(made);
            });
  queue.Run([&] { made = 2; }, [&] { seen.push_back(made); });
  EXPECT_TRUE(executor.RunUntil([&] { return seen.size() == 3; }, kLimit));
  EXPECT_THAT(seen, ElementsAre(1, 2, 3));
}

// A peer that is torn down with jobs waiting must not be called again, also when it ends inside a
// `done`.
TEST(SerialQueue, DropsWaitingJobsWhenDestroyed) {
  PosixExecutor executor(Threads(1));
  auto queue = std::make_unique<SerialQueue>(executor);
  auto token = std::make_shared<int>(0);
  int done = 0;
  queue->Run([] {},
             [&] {
               ++done;
               queue.reset();
             });
  queue->Run([token] { *token = 1; }, [&, token] { ++done; });
  EXPECT_TRUE(executor.RunUntil([&] { return queue == nullptr; }, kLimit));
  bool end = false;
  executor.Offload([] {}, [&] { end = true; });
  EXPECT_TRUE(executor.RunUntil([&] { return end; }, kLimit));
  EXPECT_EQ(done, 1);
  EXPECT_EQ(*token, 0);
  EXPECT_EQ(token.use_count(), 1);
}

// A job that still works would touch what its owner has just destroyed.
TEST(SerialQueue, WaitsForARunningJobWhenDestroyed) {
  PosixExecutor executor(Threads(1));
  auto queue = std::make_unique<SerialQueue>(executor);
  std::promise<void> begun;
  std::promise<void> go_on;
  std::atomic<bool> finished{false};
  bool done = false;
  queue->Run(
      [&] {
        begun.set_value();
        go_on.get_future().wait();
        finished = true;
      },
      [&] { done = true; });
  begun.get_future().wait();
  std::thread releaser([&] { go_on.set_value(); });
  queue.reset();
  EXPECT_TRUE(finished);
  releaser.join();
  bool end = false;
  executor.Offload([] {}, [&] { end = true; });
  EXPECT_TRUE(executor.RunUntil([&] { return end; }, kLimit));
  EXPECT_FALSE(done);
}

}  // namespace
}  // namespace atolld
