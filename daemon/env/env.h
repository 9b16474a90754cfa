// The seam between Atoll and the machine: time, threads, files, network and randomness.
//
// Every state machine of the daemon sees the world through these interfaces alone, so that the same
// code runs in production (posix_executor.h, posix_files.h, process_log.h,
// transport/grpc_transport.h) and in a deterministic simulation. Nothing outside an implementation
// of this header may read a clock, sleep, open a file or a socket, or draw a random number.
//
// Thread rule: one loop thread runs all state. Every callback below runs on it, one at a time,
// never from inside the call that caused it. Only Executor::Post may be called from other threads.
// Work that takes long (encode, reduce, hash, outer step, files) goes to the pool by
// Executor::Offload and touches no shared state.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "compression/base/bytes.h"
#include "membership/trust/identity.h"

namespace google::protobuf {
class MessageLite;
}

namespace atolld {

using Task = std::function<void()>;

// -----------------------------------------------------------------------------------------------
// Time and threads

class Executor {
 public:
  using TimerId = uint64_t;

  virtual ~Executor() = default;

  // Monotonic time, on an arbitrary origin. Never compare it with another process's.
  virtual absl::Time Now() const = 0;

  // The wall clock: for logs and certificates alone, never for a decision of the protocol.
  virtual absl::Time WallTime() const = 0;

  // Runs `task` on the loop, after all that was posted before. From any thread.
  virtual void Post(Task task) = 0;

  // Runs `task` on the loop after `delay`. Cancel of a timer that has run or was cancelled does
  // nothing.
  virtual TimerId RunAfter(absl::Duration delay, Task task) = 0;
  virtual void Cancel(TimerId timer) = 0;

  // Runs `work` on a pool thread, then `done` on the loop. No order between two Offloads.
  virtual void Offload(Task work, Task done) = 0;

  // A number from the environment's seed (production: from the kernel).
  virtual uint64_t Random() = 0;
};

// 32 of its random bytes: a key or a nonce.
std::string RandomBytes(Executor& executor);

// -----------------------------------------------------------------------------------------------
// Files. Synchronous: call it from the pool, or at start before the loop runs. Paths are absolute.
// Errors: NOT_FOUND, RESOURCE_EXHAUSTED (disk full: ENOSPC, EDQUOT), PERMISSION_DENIED, else
// UNKNOWN; each names the path.

class WritableFile {
 public:
  virtual ~WritableFile() = default;  // closes; unsynced bytes may be lost
  virtual absl::Status Append(absl::Span<const uint8_t> bytes) = 0;
  // Returns once all appended bytes are durable. A failed fsync ends the process: the kernel has
  // dropped the dirty pages, so a retry would lie.
  virtual absl::Status Sync() = 0;
};

class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual uint64_t size() const = 0;  // at open
  // Fills all of `out` or fails (OUT_OF_RANGE past the end). Any thread.
  virtual absl::Status ReadAt(uint64_t offset, absl::Span<uint8_t> out) const = 0;
};

class Files {
 public:
  virtual ~Files() = default;
  // empties it
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) = 0;
  // The same, and nobody but the owner may read it: for keys.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> CreatePrivate(const std::string& path) = 0;
  // Whether nobody but the owner may read a file.
  virtual absl::StatusOr<bool> IsPrivate(const std::string& path) = 0;
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> OpenToAppend(const std::string& path) = 0;
  virtual absl::StatusOr<std::unique_ptr<ReadableFile>> OpenToRead(const std::string& path) = 0;
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  virtual absl::Status Remove(const std::string& path) = 0;  // file or empty folder, if any
  virtual absl::Status Truncate(const std::string& path, uint64_t size) = 0;
  // Those that are missing; each is durable, with its name in its parent.
  virtual absl::Status MakeDirectories(const std::string& path) = 0;
  // Makes creations, renames and removals in `directory` durable.
  virtual absl::Status SyncDirectory(const std::string& directory) = 0;
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& path) = 0;  // sorted
  virtual bool Exists(const std::string& path) = 0;
};

// Reads a whole file of at most `limit` bytes.
absl::StatusOr<std::string> ReadFile(Files& files, const std::string& path, uint64_t limit);
// Writes `path` so that after a crash it is there whole, or as it was before: temporary file, sync,
// rename, sync.
absl::Status WriteFileDurably(Files& files, const std::string& path,
                              absl::Span<const uint8_t> bytes);
// The same with CreatePrivate.
absl::Status WriteSecretDurably(Files& files, const std::string& path,
                                absl::Span<const uint8_t> bytes);

// -----------------------------------------------------------------------------------------------
// Network. Every RPC, unary ones too, is one bidirectional call that carries frames.

// The number of the bulk field of every message (run.proto).
inline constexpr int kPayloadField = 15;

// One message: a serialised protobuf without its field 15, and that field's bytes, if any.
struct Frame {
  std::string message;
  ByteParts payload;
  SharedBytes shared{};  // if not empty, in place of `message`: the same bytes for many calls
  absl::string_view bytes() const { return shared.empty() ? message : shared.str(); }
};
Frame Pack(const google::protobuf::MessageLite& message, ByteParts payload = ByteParts());
Frame PackShared(const google::protobuf::MessageLite& message);  // its copies share its bytes
// INVALID_ARGUMENT if the bytes are not such a message.
absl::Status Unpack(const Frame& frame, google::protobuf::MessageLite* message);

// One end of one call. Destroying it before on_closed cancels the call, also after Finish; no
// further callback runs. A server that cancels is UNAVAILABLE to the client.
class Call {
 public:
  struct Events {
    std::function<void(Frame)> on_frame;  // answers one Read()
    // Writes have ended and unsent_bytes() is at or below the low-water mark. Comes whenever that
    // is so.
    std::function<void()> on_writable;
    // Once, last: the call is over. Client: the server's status, or UNAVAILABLE when the link broke
    // or could not be made. Server: OK when the client has half-closed and all was read, or when
    // its own Finish has gone out; else CANCELLED/UNAVAILABLE. A half-close is noticed by an
    // outstanding Read alone, so a server that streams its answers does not Read past the question.
    // After a half-close the server may still Write and Finish; destroying the Call then lets what
    // is queued go out, with OK where Finish was not called.
    std::function<void(absl::Status)> on_closed;
    // Payloads come as the network has them, in parts of its memory, of which it has little: they
    // are copied or dropped at once, but for the frame that a client's end holds ahead. Otherwise
    // they come in one piece, in memory of their own.
    bool takes_parts = false;
  };

  virtual ~Call() = default;

  // Must be called once, before the loop returns to the executor, by whoever received or made the
  // call.
  virtual void Start(Events events) = 0;

  // Asks for one frame. At most one may be outstanding; not asking is the back-pressure (a client's
  // end may hold one frame ahead). When the call ends instead, on_closed is the answer.
  virtual void Read() = 0;

  // Queues a frame; never after Finish. On a call that is over it does nothing. The caller watches
  // unsent_bytes() and waits for on_writable above its own limit.
  virtual void Write(Frame frame) = 0;
  virtual size_t unsent_bytes() const = 0;

  // Client: no more writes (half-close). Server: ends the call with `status` once all queued frames
  // are sent.
  virtual void Finish(absl::Status status) = 0;

  // Bytes handed to the wire so far on this call: messages with their 5-byte prefix, without TCP
  // and HTTP/2 frames.
  virtual uint64_t sent_bytes() const = 0;

  // Who is at the other end: "host:port" or "unix:...".
  virtual std::string remote() const = 0;

  // An accepted call's: who the caller has proved to be. None where there are no certificates, and
  // on a dialled call.
  virtual std::optional<Identity> identity() const = 0;
};

class Listener {  // destroying it stops listening and breaks every call accepted through it
 public:
  virtual ~Listener() = default;
  virtual std::string address()
      const = 0;  // with the port that the system chose, if 0 was asked for
};

class Transport {
 public:
  // `method` is the full name, "/atolld.v1.Membership/Session". With certificates a caller whose
  // role may not call it (membership/trust/identity.h) is refused before, and none of its bytes is
  // read.
  using Acceptor = std::function<void(const std::string& method, std::unique_ptr<Call> call)>;

  virtual ~Transport() = default;

  // Address "host:port" or "unix:/path". FAILED_PRECONDITION names the address when it is in use.
  virtual absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                           Acceptor acceptor) = 0;

  // Never blocks; on_closed(UNAVAILABLE) when nobody can be reached, or nobody who is the peer that
  // the address names (network.h). Every call has a deadline; a long-lived stream passes
  // absl::InfiniteDuration() and relies on keepalive and its own liveness rule.
  virtual std::unique_ptr<Call> Dial(const std::string& address, const std::string& method,
                                     absl::Duration deadline) = 0;

  // Whoever answers with one of these keys (Identity::key) is nobody that an address names, from
  // the next dial on. They replace the former. A transport without certificates has no keys.
  virtual void RefuseKeys(const std::set<std::string>& /*keys*/) {}
};

// -----------------------------------------------------------------------------------------------

// Where a process says what happened. One line a call; begin it with the round it is about ("round
// 12: ..."). Any thread.
class Log {
 public:
  enum class Level { kDebug, kInfo, kWarning, kError };
  virtual ~Log() = default;
  virtual void Write(Level level, absl::string_view line) = 0;

  void Debug(absl::string_view line) { Write(Level::kDebug, line); }
  void Info(absl::string_view line) { Write(Level::kInfo, line); }
  void Warning(absl::string_view line) { Write(Level::kWarning, line); }
  void Error(absl::string_view line) { Write(Level::kError, line); }
};

struct Env {
  Executor& executor;
  Files& files;
  Transport& transport;
  Log& log;
};

// Wraps callbacks so that they do nothing once the owner is gone. A member of the owner, declared
// last.
class CallbackGuard {
 public:
  template <typename Function>
  auto Wrap(Function function) const {
    return [weak = std::weak_ptr<const bool>(alive_),
            function = std::move(function)](auto&&... arguments) mutable {
      if (weak.lock() != nullptr) function(std::forward<decltype(arguments)>(arguments)...);
    };
  }

 private:
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

// Runs jobs on the pool one after another, in the order of Run: for state that long work changes (a
// replica, a store). Loop thread.
class SerialQueue {
 public:
  explicit SerialQueue(Executor& executor);
  ~SerialQueue();  // drops jobs not yet begun, waits for a running one; no `done` runs any more
  void Run(Task work, Task done);
  bool idle() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace atolld
