// The seams between the worker's loop and the daemon's stream: a queue of what came in, a way to
// answer.
#pragma once

#include <deque>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "atoll/v1/worker.pb.h"

namespace atolld {

// What the loop must react to.
struct Event {
  enum class Kind {
    kMessage,     // `message` holds it
    kClosed,      // the stream to the daemon ended
    kTerminated,  // the process was asked to end (SIGTERM)
  };
  Kind kind = Kind::kMessage;
  v1::DaemonMessage message;
};

// Events in the order of their arrival. Any thread.
class Inbox {
 public:
  void Push(Event event);

  // Blocks until there is one.
  Event Take();

  absl::optional<Event> TryTake();

  // Blocks until there is one or `limit` has passed; then nothing.
  absl::optional<Event> TakeFor(absl::Duration limit);

  // True once the worker should stop what it does: the stream ended, SIGTERM came, or Stop waits in
  // the queue.
  bool Ending() const;

 private:
  mutable absl::Mutex mutex_;
  std::deque<Event> events_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
};

// Sends to the daemon. One thread.
class Outbox {
 public:
  virtual ~Outbox() = default;

  // False: the stream is gone; an Event::kClosed comes too.
  virtual bool Send(const v1::WorkerMessage& message) = 0;
};

}  // namespace atolld
