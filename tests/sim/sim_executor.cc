#include "tests/sim/sim_executor.h"

#include <utility>

namespace atolld {

SimExecutor::SimExecutor(SimEventQueue& events, SimEventQueue::Owner owner, uint64_t seed,
                         absl::Duration origin, SimPoolSettings pool, SimMachine& machine)
    : events_(events),
      owner_(owner),
      origin_(origin),
      pool_(pool),
      machine_(machine),
      random_(seed),
      pool_random_(seed ^ 0x706f6f6c) {}

absl::Time SimExecutor::Now() const {
  return absl::UnixEpoch() + origin_ + machine_.clock.Monotonic(events_.now());
}

absl::Time SimExecutor::WallTime() const { return machine_.clock.Wall(events_.now()); }

void SimExecutor::Post(Task task) {
  events_.Schedule(absl::ZeroDuration(), owner_, std::move(task));
}

Executor::TimerId SimExecutor::RunAfter(absl::Duration delay, Task task) {
  return events_.Schedule(machine_.clock.TrueDelay(events_.now(), delay), owner_, std::move(task));
}

void SimExecutor::Cancel(TimerId timer) { events_.Cancel(timer); }

void SimExecutor::Offload(Task work, Task done) {
  ++offloads_;
  const absl::Duration cost = pool_.cost + pool_.spread * pool_random_.Unit();
  // The work runs at the end of its cost, the `done` right after: between the call and the work,
  // the loop goes on. What the disk makes it wait is known only then, and lies between the two.
  auto job = [this, work = std::move(work), done = std::move(done)]() mutable {
    machine_.disk.TakeDelay();  // what calls outside of the pool have left there
    work();
    events_.Schedule(machine_.disk.TakeDelay(), owner_, std::move(done));
  };
  if (threads_ == nullptr) {
    events_.Schedule(cost, owner_, std::move(job));
  } else {
    events_.Schedule(cost, owner_, [this, job = std::move(job)] { threads_->Start(job); });
  }
}

uint64_t SimExecutor::Random() { return random_.Next(); }

}  // namespace atolld
