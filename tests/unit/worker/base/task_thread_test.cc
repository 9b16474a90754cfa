#include "worker/base/task_thread.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"

namespace atolld {
namespace {

// Broken: a step would begin before the one before has ended, or each on a thread that must be
// warmed up again.
TEST(TaskThreadTest, DoesOneTaskAfterAnotherOnOneThread) {
  TaskThread thread;
  std::vector<int> done;
  std::set<std::thread::id> ids;
  for (int i = 0; i < 100; ++i) {
    thread.Start([&, i] {
      done.push_back(i);
      ids.insert(std::this_thread::get_id());
    });
    if (i % 3 == 0) thread.Wait();
  }
  thread.Wait();
  thread.Wait();  // nothing runs
  ASSERT_EQ(done.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(done[static_cast<size_t>(i)], i);
  EXPECT_EQ(ids.size(), 1u);
  EXPECT_EQ(ids.count(std::this_thread::get_id()), 0u);
}

// Broken: two devices would compute one after the other.
TEST(TaskThreadTest, ThreadsRunAtOnce) {
  TaskThread a, b;
  absl::Notification from_a, from_b;
  a.Start([&] {
    from_a.Notify();
    from_b.WaitForNotification();
  });
  b.Start([&] {
    from_b.Notify();
    from_a.WaitForNotification();
  });
  a.Wait();
  b.Wait();
}

// Broken: a worker that ends would take memory away under a step that goes on.
TEST(TaskThreadTest, ItsEndWaitsForTheTask) {
  absl::Notification begun, go_on;
  bool done = false;
  auto thread = std::make_unique<TaskThread>();
  thread->Start([&] {
    begun.Notify();
    go_on.WaitForNotification();
    done = true;
  });
  begun.WaitForNotification();
  std::thread ending([&] { thread = nullptr; });
  go_on.Notify();
  ending.join();
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace atolld
