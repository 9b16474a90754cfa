// The production executor: one loop thread, timers on the steady clock, and a fixed pool of threads
// for long work.
//
// The thread that calls Run is the loop. Post may be called from any thread, everything else from
// the loop (or, before Run, by the thread that will call it). The pool's threads run each job under
// the default floating-point modes and end the process if a job leaves other modes behind, because
// its results could not be trusted.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/env/env.h"

namespace atolld {

class PosixExecutor final : public Executor {
 public:
  struct Options {
    int threads = 1;  // The number of threads in the pool; at least 1.
    // Added to the nice value of the pool's threads, so that a volunteer's machine stays usable.
    int nice = 0;
  };

  explicit PosixExecutor(Options options);

  // Run must have returned, and no other thread may call Post any more. Jobs that have begun are
  // finished; waiting jobs and all tasks that have not run are dropped.
  ~PosixExecutor() override;

  PosixExecutor(const PosixExecutor&) = delete;
  PosixExecutor& operator=(const PosixExecutor&) = delete;

  // Runs tasks until Stop. May be called again.
  void Run();

  // Makes Run, or the next call of Run, return after the task that is running. May be called from
  // any thread.
  void Stop();

  // Runs tasks until `condition` is true (checked before each task), until `limit` has passed, or
  // until Stop. Returns true if the condition is true.
  bool RunUntil(const std::function<bool()>& condition, absl::Duration limit);

  absl::Time Now() const override;
  absl::Time WallTime() const override;
  void Post(Task task) override;
  TimerId RunAfter(absl::Duration delay,
                   Task task) override;  // Tasks with equal times run in the order of the calls.
  void Cancel(TimerId timer) override;
  // Both closures are destroyed on the loop.
  void Offload(Task work, Task done) override;
  uint64_t Random() override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Job {
    Task work;
    Task done;
  };

  void RunLoop(const std::function<bool()>* condition, Clock::time_point limit, bool* holds);
  void MoveDueTimers();
  void Wait(Clock::time_point limit);
  void CheckOnLoop() const;
  void PoolThread(int nice);

  // Used only on the loop thread.
  std::deque<Task> ready_;
  std::map<std::pair<Clock::time_point, TimerId>, Task> timers_;
  std::unordered_map<TimerId, Clock::time_point> due_;
  TimerId next_timer_ = 1;

  // Guarded by loop_mutex_.
  mutable std::mutex loop_mutex_;
  std::condition_variable loop_wakes_;
  std::deque<Task> posted_;
  bool stop_ = false;
  std::thread::id loop_thread_;  // Set only while Run is running.

  // Guarded by pool_mutex_.
  std::mutex pool_mutex_;
  std::condition_variable pool_wakes_;
  std::deque<Job> jobs_;
  bool closing_ = false;
  std::vector<std::thread> pool_;
};

}  // namespace atolld
