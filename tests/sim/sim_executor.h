// The simulated clock: one queue of events for the whole world, and each process's view of it as an
// Executor.
//
// Events run in the order of (time, sequence of scheduling), in the one thread of the test; an
// event belongs to one life of one process (its owner) and dies with it. Nothing here reads a real
// clock, so one seed is one history.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "daemon/env.h"

namespace atolld {

// SplitMix64: small, seedable, the same everywhere.
class SimRandom {
 public:
  explicit SimRandom(uint64_t seed) : state_(seed) {}
  uint64_t Next();
  uint64_t Below(uint64_t bound);  // 0 if bound is 0
  double Unit();                   // [0, 1)

 private:
  uint64_t state_;
};

class SimEventQueue {
 public:
  using Owner = uint64_t;
  using Id = uint64_t;
  static constexpr Owner kWorld = 0;

  absl::Duration now() const { return now_; }  // since the world began
  Owner NewOwner() { return ++owners_; }

  // Runs `task` once `delay` (not below zero) has passed. Never from inside this call.
  Id Schedule(absl::Duration delay, Owner owner, Task task);
  void Cancel(Id id);

  // Drops all events of `owner`; later ones scheduled for it are dropped at once.
  void Drop(Owner owner);

  bool empty() const { return events_.empty(); }
  absl::Duration next() const { return events_.begin()->first.first; }

  // Runs the next event, or moves the clock to `limit` if that comes first (then false).
  bool RunNext(absl::Duration limit);
  bool running() const { return running_; }

  // A digest of all events run so far: equal for equal seeds.
  uint64_t digest() const { return digest_; }

 private:
  struct Event {
    Owner owner;
    Task task;
  };
  using Key = std::pair<absl::Duration, Id>;

  absl::Duration now_ = absl::ZeroDuration();
  Owner owners_ = 0;
  Id ids_ = 0;
  bool running_ = false;
  uint64_t digest_ = 0xcbf29ce484222325;
  std::map<Key, Event> events_;
  absl::flat_hash_map<Id, absl::Duration> times_;
  absl::flat_hash_map<Owner, bool> dropped_;
};

struct SimPoolSettings {
  absl::Duration cost = absl::Microseconds(100);  // of one job
  // a random part of it is added, so that jobs overtake each other
  absl::Duration spread = absl::Microseconds(100);
};

class SimExecutor final : public Executor {
 public:
  SimExecutor(SimEventQueue& events, SimEventQueue::Owner owner, uint64_t seed,
              absl::Duration origin, SimPoolSettings pool);

  absl::Time Now() const override;  // on an origin of this process's own
  absl::Time WallTime() const override;
  void Post(Task task) override;
  TimerId RunAfter(absl::Duration delay, Task task) override;
  void Cancel(TimerId timer) override;
  // The work runs as an event of its own, some virtual time later; `done` once its cost has passed.
  void Offload(Task work, Task done) override;
  uint64_t Random() override;

  SimEventQueue& events() { return events_; }
  SimEventQueue::Owner owner() const { return owner_; }
  uint64_t offloads() const { return offloads_; }

 private:
  SimEventQueue& events_;
  const SimEventQueue::Owner owner_;
  const absl::Duration origin_;
  const SimPoolSettings pool_;

  SimRandom random_;
  SimRandom pool_random_;  // apart, so that a job more does not change what the process draws
  uint64_t offloads_ = 0;
};

}  // namespace atolld
