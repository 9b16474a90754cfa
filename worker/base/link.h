// The interfaces between a worker's loop and its daemon: Inbox is a queue of incoming events,
// Outbox sends answers, Slots maps the memory that both share, and Termination turns SIGTERM into
// an event.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "atoll/v1/worker.pb.h"

namespace atolld {

// An event to which the worker's loop must react.
struct Event {
  enum class Kind {
    kMessage,     // A message of the daemon has arrived; it is in `message`.
    kClosed,      // The stream to the daemon has ended.
    kTerminated,  // The process has been asked to end by SIGTERM.
  };
  Kind kind = Kind::kMessage;
  v1::DaemonMessage message;
};

// A queue of events in the order of their arrival. Thread-safe.
class Inbox {
 public:
  virtual ~Inbox() = default;

  void Push(Event event);

  // Blocks until there is an event, and removes it from the queue.
  Event Take();

  absl::optional<Event> TryTake();

  // Blocks until there is an event or `limit` has passed. Returns nullopt if `limit` has passed. It
  // is virtual so that a test can move its clock instead of waiting.
  virtual absl::optional<Event> TakeFor(absl::Duration limit);

  // Returns true once the worker should stop, because the stream has ended, SIGTERM has arrived, or
  // the daemon has sent Stop.
  bool Ending() const;

 private:
  mutable absl::Mutex mutex_;
  std::deque<Event> events_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
};

// Sends messages to the daemon. Used by one thread.
class Outbox {
 public:
  virtual ~Outbox() = default;

  // Returns false if the stream has ended; in that case an Event::kClosed also arrives.
  virtual bool Send(const v1::WorkerMessage& message) = 0;
};

// The slots of worker.proto, mapped into memory. The messages decide when the worker may touch a
// slot; this class only maps the slots. Used by one thread at a time.
class Slots {
 public:
  // Fails with NOT_FOUND or UNAVAILABLE if the mapping failed, and with INVALID_ARGUMENT if
  // `elements` differs from the request, an offset is not aligned to a page, or slots overlap or do
  // not fit in the file.
  static absl::StatusOr<std::unique_ptr<Slots>> Map(const v1::MapMemory& request,
                                                    uint64_t elements);
  ~Slots();
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;

  absl::Span<const float> theta() const { return theta_; }
  absl::Span<float> update() const { return update_; }
  // The common control variate; empty if the run has none.
  absl::Span<const float> control() const { return control_; }
  // The daemon's guess of a future state; empty if the run has none.
  absl::Span<const float> guess() const { return guess_; }

 private:
  Slots() = default;

  void* mapping_ = nullptr;
  size_t size_ = 0;
  absl::Span<const float> theta_;
  absl::Span<float> update_;
  absl::Span<const float> control_;
  absl::Span<const float> guess_;
};

// Turns SIGTERM into an event in a worker's inbox, so that the worker ends between two steps.
//
// A process has only one Termination. main() makes it before the session and destroys it after the
// session. A second SIGTERM ends the process at once. SIGINT and SIGPIPE are ignored: the daemon
// decides when its worker ends.
class Termination {
 public:
  explicit Termination(Inbox& inbox);  // `inbox` must outlive this object.
  ~Termination();
  Termination(const Termination&) = delete;
  Termination& operator=(const Termination&) = delete;

 private:
  // The pipe's end to which the signal handler writes. It is static because a signal handler takes
  // no argument for an object.
  static int& WriteEnd();

  int pipe_[2] = {-1, -1};
  std::thread thread_;
};

}  // namespace atolld
