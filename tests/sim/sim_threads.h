// SimThreads: threads of a simulated process whose code blocks, on the world's virtual clock.
//
// Each is a thread of the system, but only one thing runs at a time: the world hands over to a
// thread within an event, and goes on when that thread waits or has ended. So whoever blocks keeps
// its stack, the world goes on meanwhile, and one seed is one history. What wakes a thread is an
// event of its process: it is held while the process is stopped, and lost with its death. Of a
// process that dies every wait ends at once, so that each thread comes to its end.
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
  ~SimThreads();  // all have ended
  SimThreads(const SimThreads&) = delete;
  SimThreads& operator=(const SimThreads&) = delete;

  // Begins with an event of its own. `owned`: whoever started it also joins it, when the process
  // has died at the latest.
  std::shared_ptr<Job> Start(Task work, bool owned = false);
  // Waits until it has ended: inside one of the threads. Of a process that has died: runs it on to
  // its end, or not at all if it has not begun.
  void Join(const std::shared_ptr<Job>& job);

  // Joins those of the pool that have begun, inside one of the threads: what destroys an object
  // that they use would wait for them as well.
  void JoinPool();

  // The thread that runs; null: the world does.
  const std::shared_ptr<Job>& current() const { return current_; }
  // The thread that runs waits until Wake, or for so long; at once over if the process has died.
  void Park(absl::Duration wait);
  // Does nothing to one that does not wait.
  void Wake(const std::shared_ptr<Job>& job);

  // Nothing waits from now on, and time flies by where it is waited for.
  void Die() { dead_ = true; }
  bool dead() const { return dead_; }
  // Runs all on to their ends, but those that are owned. After Die, by the world.
  void EndAll();

 private:
  void Resume(const std::shared_ptr<Job>& job);
  void Remove(const std::shared_ptr<Job>& job);

  SimEventQueue& events_;
  const SimEventQueue::Owner owner_;
  bool dead_ = false;
  std::shared_ptr<Job> current_;
  std::vector<std::shared_ptr<Job>> jobs_;  // that have not ended
};

}  // namespace atolld
