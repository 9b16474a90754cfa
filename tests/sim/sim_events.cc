#include "tests/sim/sim_events.h"

#include <algorithm>
#include <utility>

#include "compression/base/check.h"

namespace atolld {
namespace {

// A rate near zero gives an endless delay: such an event never comes, and must not stop the clock.
constexpr int64_t kNeverNanoseconds = int64_t{1} << 61;  // some 73 years

}  // namespace

uint64_t SimRandom::Next() {
  state_ += 0x9e3779b97f4a7c15;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

uint64_t SimRandom::Below(uint64_t bound) { return bound == 0 ? 0 : Next() % bound; }

double SimRandom::Unit() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

absl::Duration SimRandom::Between(absl::Duration least, absl::Duration most) {
  return least + (most - least) * Unit();
}

bool SimRandom::Chance(double probability) {
  if (probability <= 0) return false;
  return probability >= 1 || Unit() < probability;
}

SimEventQueue::Owner SimEventQueue::NewOwner() {
  owners_.emplace_back();
  return owners_.size() - 1;
}

bool SimEventQueue::Later(const Entry& a, const Entry& b) {
  return a.time != b.time ? a.time > b.time : a.order > b.order;
}

void SimEventQueue::Push(Entry entry) {
  heap_.push_back(entry);
  std::push_heap(heap_.begin(), heap_.end(), Later);
}

void SimEventQueue::Pop() {
  std::pop_heap(heap_.begin(), heap_.end(), Later);
  heap_.pop_back();
}

bool SimEventQueue::Stale(const Entry& entry) const {
  return slots_[entry.slot].generation != entry.generation;
}

Task SimEventQueue::Take(uint32_t slot) {
  Slot& taken = slots_[slot];
  Task task = std::move(taken.task);
  taken.task = nullptr;
  taken.used = false;
  ++taken.generation;
  free_.push_back(slot);
  --live_;
  return task;
}

SimEventQueue::Id SimEventQueue::Schedule(absl::Duration delay, Owner owner, Task task) {
  ++orders_;
  int64_t wait = std::max<int64_t>(0, absl::ToInt64Nanoseconds(delay));
  if (ended_ || owners_[owner].dropped || wait > kNeverNanoseconds - now_) {
    return ~Id{0};  // of no slot: task is destroyed on return
  }
  // Up, never down: whoever waits for an instant must find it reached.
  if (absl::Nanoseconds(wait) < delay) ++wait;
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const uint32_t index = free_.back();
  free_.pop_back();
  Slot& slot = slots_[index];
  slot.task = std::move(task);
  slot.owner = owner;
  slot.used = true;
  ++live_;
  Push({now_ + wait, orders_, index, slot.generation});
  return (Id{slot.generation} << 32) | index;
}

void SimEventQueue::Cancel(Id id) {
  const uint32_t slot = static_cast<uint32_t>(id);
  if (slot >= slots_.size() || !slots_[slot].used || slots_[slot].generation != id >> 32) return;
  // Destroying the task may run destructors that come back here: it dies on return.
  const Task task = Take(slot);
}

void SimEventQueue::Drop(Owner owner) {
  owners_[owner].dropped = true;
  owners_[owner].waiting.clear();
  std::vector<Task> doomed;
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].used && slots_[slot].owner == owner) doomed.push_back(Take(slot));
  }
}

void SimEventQueue::DropAll() {
  ended_ = true;
  for (Owner owner = 0; owner < owners_.size(); ++owner) Drop(owner);
}

void SimEventQueue::Hold(Owner owner) {
  CHECK(owner != kWorld);
  owners_[owner].held = true;
}

void SimEventQueue::Release(Owner owner) {
  OwnerState& state = owners_[owner];
  state.held = false;
  for (Entry& entry : state.waiting) {
    entry.time = now_;
    entry.order = ++orders_;
    Push(entry);
  }
  state.waiting.clear();
}

bool SimEventQueue::RunNext(absl::Duration limit) {
  CHECK(!running_);
  // Down: an event past the limit, if by a part of a nanosecond, must wait.
  const int64_t last = absl::ToInt64Nanoseconds(limit);
  while (!heap_.empty() && heap_.front().time <= last) {
    const Entry entry = heap_.front();
    Pop();
    if (Stale(entry)) continue;
    const Owner owner = slots_[entry.slot].owner;
    if (owners_[owner].held) {
      owners_[owner].waiting.push_back(entry);
      continue;
    }
    now_ = entry.time;
    MixIntoDigest(static_cast<uint64_t>(now_));
    MixIntoDigest((entry.order << 20) ^ owner);
    ++ran_;
    running_ = true;
    if (watcher_) watcher_(owner, true);
    {
      const Task task = Take(entry.slot);
      task();
    }
    if (watcher_) watcher_(owner, false);
    running_ = false;
    return true;
  }
  if (last < kNeverNanoseconds) now_ = std::max(now_, last);
  return false;
}

void SimEventQueue::MixIntoDigest(uint64_t word) {
  digest_ = (digest_ ^ word) * 0x100000001b3;
  digest_ ^= digest_ >> 29;
}

}  // namespace atolld
