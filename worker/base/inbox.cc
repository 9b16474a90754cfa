#include "worker/base/inbox.h"

#include <utility>

namespace atolld {

void Inbox::Push(Event event) {
  const absl::MutexLock lock(&mutex_);
  ending_ = ending_ || event.kind != Event::Kind::kMessage || event.message.has_stop();
  events_.push_back(std::move(event));
}

Event Inbox::Take() {
  const absl::MutexLock lock(
      &mutex_, absl::Condition(
                   +[](std::deque<Event>* events) { return !events->empty(); }, &events_));
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

absl::optional<Event> Inbox::TryTake() {
  const absl::MutexLock lock(&mutex_);
  if (events_.empty()) return absl::nullopt;
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

absl::optional<Event> Inbox::TakeFor(absl::Duration limit) {
  {
    const absl::MutexLock lock(&mutex_);
    const absl::Condition filled(
        +[](std::deque<Event>* events) { return !events->empty(); }, &events_);
    mutex_.AwaitWithTimeout(filled, limit);
  }
  return TryTake();
}

bool Inbox::Ending() const {
  const absl::MutexLock lock(&mutex_);
  return ending_;
}

}  // namespace atolld
