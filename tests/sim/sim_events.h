// The simulated clock: one queue of events for the whole world, and the random numbers of a seed.
//
// Events run in the order of (time, sequence of scheduling), in the test's only thread. An event
// belongs to one life of one process (its owner) and disappears with it. An owner may be held: its
// events then wait, in order, until it is released. This code never reads a real clock, so one seed
// is one history.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "daemon/env/env.h"

namespace atolld {

// SplitMix64: small, seedable, the same on every machine.
class SimRandom {
 public:
  explicit SimRandom(uint64_t seed) : state_(seed) {}
  uint64_t Next();
  uint64_t Below(uint64_t bound);  // Returns 0 if bound is 0.
  double Unit();                   // Returns a number in [0, 1).
  absl::Duration Between(absl::Duration least, absl::Duration most);
  // Draws no random number if the answer is certain, so that a fault that is off does not change
  // any other draw.
  // draw.
  bool Chance(double probability);

 private:
  uint64_t state_;
};

class SimEventQueue {
 public:
  using Owner = uint64_t;
  using Id = uint64_t;  // never 0
  static constexpr Owner kWorld = 0;

  SimEventQueue() : owners_(1) {}

  absl::Duration now() const { return absl::Nanoseconds(now_); }  // The time since the world began.
  Owner NewOwner();

  // Runs `task` once `delay` (not negative; rounded up to nanoseconds) has passed, and never from
  // inside this call. A delay of centuries or more never passes.
  Id Schedule(absl::Duration delay, Owner owner, Task task);
  // Does nothing if the event has run or was cancelled.
  void Cancel(Id id);

  // Drops all events of `owner`; later ones scheduled for it are dropped at once.
  void Drop(Owner owner);
  void DropAll();  // Drops the events of every owner: the world ends.

  // Holds all events of `owner` until Release. Those that are due by then run at once, in order.
  void Hold(Owner owner);
  void Release(Owner owner);
  bool held(Owner owner) const { return owners_[owner].held; }

  bool empty() const { return live_ == 0; }

  // Runs the next event, or moves the clock to `limit` and returns false if that comes first.
  bool RunNext(absl::Duration limit);
  bool running() const { return running_; }
  uint64_t ran() const { return ran_; }  // the number of events so far

  // Sets the function that is called with the event's owner before and after each event, so that a
  // test can measure what one process costs. It must not change anything in the world.
  void Watch(std::function<void(Owner owner, bool begins)> watcher) {
    watcher_ = std::move(watcher);
  }

  // Returns a digest of all events run so far and of the values that were mixed in. It is equal for
  // equal seeds.
  uint64_t digest() const { return digest_; }
  void MixIntoDigest(uint64_t word);

 private:
  // The heap's entries are small, because the tasks stay in their slots. If the slot's generation
  // differs from the entry's, the event was cancelled.
  struct Entry {
    int64_t time;
    uint64_t order;
    uint32_t slot;
    uint32_t generation;
  };
  struct Slot {
    Task task;
    Owner owner = kWorld;
    uint32_t generation = 1;
    bool used = false;
  };
  struct OwnerState {
    bool dropped = false;
    bool held = false;
    std::vector<Entry> waiting;  // the events that became due while they were held
  };

  static bool Later(const Entry& a, const Entry& b);
  void Push(Entry entry);
  void Pop();
  bool Stale(const Entry& entry) const;
  Task Take(uint32_t slot);  // Empties the slot.

  std::function<void(Owner, bool)> watcher_;
  int64_t now_ = 0;  // in nanoseconds
  uint64_t orders_ = 0;
  uint64_t ran_ = 0;
  size_t live_ = 0;
  bool running_ = false;
  bool ended_ = false;
  uint64_t digest_ = 0xcbf29ce484222325;
  std::vector<Entry> heap_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  std::vector<OwnerState> owners_;
};

}  // namespace atolld
