// The executor of production: one loop thread, timers on the steady clock, a fixed pool for long
// work.
//
// The thread that calls Run is the loop. Post may be called from any thread, everything else from
// the loop (or before Run by the thread that will call it). The pool's threads run each job under
// the default floating-point modes and end the process if a job leaves others behind: its results
// could not be trusted.
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
    int threads = 1;  // of the pool; at least 1
    // added to the pool threads' nice value, so that a volunteer's machine stays usable
    int nice = 0;
  };

  explicit PosixExecutor(Options options);

  // Run must have returned. Jobs that have begun finish, those that wait are dropped, and so is
  // every task that has not run. Whoever may Post from another thread must be gone.
  ~PosixExecutor() override;

  PosixExecutor(const PosixExecutor&) = delete;
  PosixExecutor& operator=(const PosixExecutor&) = delete;

  // Runs tasks until Stop. May be called again.
  void Run();

  // Makes Run, or the next Run, return after the task that is running. Any thread.
  void Stop();

  // Runs tasks until `condition` holds (checked before each task) or `limit` has passed or Stop;
  // returns whether it holds.
  bool RunUntil(const std::function<bool()>& condition, absl::Duration limit);

  absl::Time Now() const override;
  absl::Time WallTime() const override;
  void Post(Task task) override;
  TimerId RunAfter(absl::Duration delay,
                   Task task) override;  // equal times: in the order of the calls
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

  // The loop's own.
  std::deque<Task> ready_;
  std::map<std::pair<Clock::time_point, TimerId>, Task> timers_;
  std::unordered_map<TimerId, Clock::time_point> due_;
  TimerId next_timer_ = 1;

  // Guarded by loop_mutex_.
  mutable std::mutex loop_mutex_;
  std::condition_variable loop_wakes_;
  std::deque<Task> posted_;
  bool stop_ = false;
  std::thread::id loop_thread_;  // none while Run is not running

  // Guarded by pool_mutex_.
  std::mutex pool_mutex_;
  std::condition_variable pool_wakes_;
  std::deque<Job> jobs_;
  bool closing_ = false;
  std::vector<std::thread> pool_;
};

}  // namespace atolld
