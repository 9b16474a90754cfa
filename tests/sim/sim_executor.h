// A simulated process's view of the world's event queue, as an Executor.
//
// Now() is the machine's monotonic clock, but each life of the process has a different origin. Its
// pool is also virtual: a job costs some virtual time, plus what the disk makes it wait.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "daemon/env/env.h"
#include "tests/sim/sim_events.h"
#include "tests/sim/sim_machine.h"
#include "tests/sim/sim_threads.h"

namespace atolld {

struct SimPoolSettings {
  absl::Duration cost = absl::Microseconds(100);  // The cost of one job.
  // A random part of this is added, so that jobs overtake each other.
  absl::Duration spread = absl::Microseconds(100);
};

class SimExecutor final : public Executor {
 public:
  SimExecutor(SimEventQueue& events, SimEventQueue::Owner owner, uint64_t seed,
              absl::Duration origin, SimPoolSettings pool, SimMachine& machine);

  absl::Time Now() const override;  // Each life of the process has a different origin.
  absl::Time WallTime() const override;
  void Post(Task task) override;
  TimerId RunAfter(absl::Duration delay, Task task) override;
  void Cancel(TimerId timer) override;
  // Runs `work` as a separate event after some virtual time, and `done` once the job's cost has
  // passed.
  void Offload(Task work, Task done) override;
  uint64_t Random() override;

  // From now on each job of the pool runs in one of these threads, so it may block. The threads
  // must outlive this object.
  void RunPoolOn(SimThreads& threads) { threads_ = &threads; }

  SimEventQueue& events() { return events_; }
  SimEventQueue::Owner owner() const { return owner_; }
  uint64_t offloads() const { return offloads_; }

 private:
  SimEventQueue& events_;
  const SimEventQueue::Owner owner_;
  const absl::Duration origin_;
  const SimPoolSettings pool_;
  SimMachine& machine_;

  SimThreads* threads_ = nullptr;
  SimRandom random_;
  // This generator is separate so that an additional job does not change what the process draws.
  SimRandom pool_random_;
  uint64_t offloads_ = 0;
};

}  // namespace atolld
