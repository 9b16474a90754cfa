// A thread that does what its owner gives it, one task after another.
//
// It lives as long as its owner wants, since what libtorch keeps for a thread (its pool of helpers,
// a GPU's handles) is dear to make anew. Start and Wait: one owner's thread.
#pragma once

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace atolld {

class TaskThread {
 public:
  TaskThread();
  ~TaskThread();  // after the task that runs
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  // Begins the task, which must not throw; the one before must have been waited for.
  void Start(std::function<void()> task);

  // Returns when nothing runs; what the task wrote is seen then.
  void Wait();

 private:
  void Run();
  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return task_ == nullptr; }
  bool Called() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return task_ != nullptr || ending_; }

  absl::Mutex mutex_;
  std::function<void()> task_ ABSL_GUARDED_BY(mutex_);  // kept until it is done
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace atolld
