#include "tests/sim/sim_executor.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "daemon/status_macros.h"

namespace atolld {

uint64_t SimRandom::Next() {
  state_ += 0x9e3779b97f4a7c15;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

uint64_t SimRandom::Below(uint64_t bound) { return bound == 0 ? 0 : Next() % bound; }

double SimRandom::Unit() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

SimEventQueue::Id SimEventQueue::Schedule(absl::Duration delay, Owner owner, Task task) {
  const Id id = ++ids_;
  if (dropped_.contains(owner)) return id;
  // A rate of nearly nothing gives an endless delay: such an event never comes, and must not stop
  // the clock.
  if (delay == absl::InfiniteDuration()) return id;
  const absl::Duration time = now_ + std::max(delay, absl::ZeroDuration());
  events_.emplace(Key(time, id), Event{owner, std::move(task)});
  times_.emplace(id, time);
  return id;
}

void SimEventQueue::Cancel(Id id) {
  const auto found = times_.find(id);
  if (found == times_.end()) return;
  // Destroying the task may run destructors that come back here: take it out first.
  auto node = events_.extract(Key(found->second, id));
  times_.erase(found);
}

void SimEventQueue::Drop(Owner owner) {
  dropped_.emplace(owner, true);
  std::vector<Event> doomed;
  for (auto it = events_.begin(); it != events_.end();) {
    if (it->second.owner != owner) {
      ++it;
      continue;
    }
    times_.erase(it->first.second);
    doomed.push_back(std::move(it->second));
    it = events_.erase(it);
  }
}

bool SimEventQueue::RunNext(absl::Duration limit) {
  CHECK(!running_);
  if (events_.empty() || events_.begin()->first.first > limit) {
    now_ = std::max(now_, limit);
    return false;
  }
  auto node = events_.extract(events_.begin());
  now_ = node.key().first;
  times_.erase(node.key().second);
  for (const uint64_t word : {static_cast<uint64_t>(absl::ToInt64Nanoseconds(now_)),
                              node.key().second, node.mapped().owner}) {
    digest_ = (digest_ ^ word) * 0x100000001b3;
    digest_ ^= digest_ >> 29;
  }
  running_ = true;
  {
    const Task task = std::move(node.mapped().task);
    task();
  }
  running_ = false;
  return true;
}

SimExecutor::SimExecutor(SimEventQueue& events, SimEventQueue::Owner owner, uint64_t seed,
                         absl::Duration origin, SimPoolSettings pool)
    : events_(events),
      owner_(owner),
      origin_(origin),
      pool_(pool),
      random_(seed),
      pool_random_(seed ^ 0x706f6f6c) {}

absl::Time SimExecutor::Now() const { return absl::UnixEpoch() + origin_ + events_.now(); }

absl::Time SimExecutor::WallTime() const {
  return absl::FromUnixSeconds(1767225600) + events_.now();  // 2026-01-01
}

void SimExecutor::Post(Task task) {
  events_.Schedule(absl::ZeroDuration(), owner_, std::move(task));
}

Executor::TimerId SimExecutor::RunAfter(absl::Duration delay, Task task) {
  return events_.Schedule(delay, owner_, std::move(task));
}

void SimExecutor::Cancel(TimerId timer) { events_.Cancel(timer); }

void SimExecutor::Offload(Task work, Task done) {
  ++offloads_;
  const absl::Duration cost = pool_.cost + pool_.spread * pool_random_.Unit();
  // The work runs at the end of its cost, the `done` right after: between the call and the work,
  // the loop goes on.
  events_.Schedule(cost, owner_, [this, work = std::move(work), done = std::move(done)]() mutable {
    work();
    Post(std::move(done));
  });
}

uint64_t SimExecutor::Random() { return random_.Next(); }

}  // namespace atolld
