// The seams between a worker's loop and its daemon: the inbox, a queue of what came in; the outbox,
// a way to answer; the slots, memory that both share; and SIGTERM, which is an event too.
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

// The slots of worker.proto. Who may touch one is decided by the messages alone; this class only
// maps. One thread at a time.
class Slots {
 public:
  // NOT_FOUND, UNAVAILABLE: the mapping failed. INVALID_ARGUMENT: `elements` differs from the
  // request, an offset is not aligned to a page, slots overlap or do not fit the file.
  static absl::StatusOr<std::unique_ptr<Slots>> Map(const v1::MapMemory& request,
                                                    uint64_t elements);
  ~Slots();
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;

  absl::Span<const float> theta() const { return theta_; }
  absl::Span<float> update() const { return update_; }
  // The common control variate; empty: the run has none.
  absl::Span<const float> control() const { return control_; }
  // The daemon's guess of a state that is to come; empty: the run has none.
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

// SIGTERM as an event in a worker's inbox, so that it ends between two steps.
//
// One a process, made in main() before the session and destroyed after it. A second SIGTERM ends
// the process at once. SIGINT and SIGPIPE are ignored: the daemon decides when its worker ends.
class Termination {
 public:
  explicit Termination(Inbox& inbox);  // outlives this
  ~Termination();
  Termination(const Termination&) = delete;
  Termination& operator=(const Termination&) = delete;

 private:
  // A signal handler has no argument: the one value of the program that it must find by itself.
  static int& WriteEnd();

  int pipe_[2] = {-1, -1};
  std::thread thread_;
};

}  // namespace atolld
