// SimThreads: threads of a simulated process whose code blocks, on the world's virtual clock.
//
// Each is a thread of the operating system, but only one of them or the world runs at a time. The
// world starts or resumes a thread within an event, and continues when that thread waits or has
// ended. A blocked thread therefore keeps its stack while the world goes on, and one seed is one
// history. A thread is woken by an event of its process. That event is held while the process is
// stopped and lost when the process dies. When a process dies, every wait of its threads ends at
// once, so that each thread can finish.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "daemon/env/env.h"
#include "tests/sim/sim_events.h"

namespace atolld {

class SimThreads {
 public:
  class Job;  // one thread

  SimThreads(SimEventQueue& events, SimEventQueue::Owner owner) : events_(events), owner_(owner) {}
  ~SimThreads();  // All threads must have ended.
  SimThreads(const SimThreads&) = delete;
  SimThreads& operator=(const SimThreads&) = delete;

  // Starts a thread, which begins to run in a later event. With `owned` the caller must also join
  // it, at the latest when the process has died.
  std::shared_ptr<Job> Start(Task work, bool owned = false);
  // Waits, inside one of the threads, until the job has ended. If the process has died, runs the
  // job on to its end, or does nothing if it has not begun.
  void Join(const std::shared_ptr<Job>& job);

  // Waits, inside one of the threads, for the pool's jobs that have begun. Call it before
  // destroying an object that these jobs use.
  void JoinPool();

  // The thread that runs now; null if the world runs.
  const std::shared_ptr<Job>& current() const { return current_; }
  // Makes the running thread wait until Wake, or for `wait`. Returns at once if the process has
  // died.
  void Park(absl::Duration wait);
  // Wakes the job if it waits; otherwise does nothing.
  void Wake(const std::shared_ptr<Job>& job);

  // Called when the process dies. From now on waits end at once, and time jumps ahead instead.
  void Die() { dead_ = true; }
  bool dead() const { return dead_; }
  // Runs all threads on to their ends, except those that are owned. The world calls this after Die.
  void EndAll();

 private:
  void Resume(const std::shared_ptr<Job>& job);
  void Remove(const std::shared_ptr<Job>& job);

  SimEventQueue& events_;
  const SimEventQueue::Owner owner_;
  bool dead_ = false;
  std::shared_ptr<Job> current_;
  std::vector<std::shared_ptr<Job>> jobs_;  // the jobs that have not ended
};

}  // namespace atolld
