// The seam between Atoll and the machine: time, threads, files, network and randomness.
//
// Every state machine of the daemon uses the machine only through these interfaces, so that the
// same code runs in production (posix_executor.h, posix_files.h, process_log.h,
// transport/grpc_transport.h) and in a deterministic simulation. Only an implementation of this
// header may read a clock, sleep, open a file or a socket, or draw a random number.
//
// Thread rule: one loop thread runs all state. Every callback below runs on it, one at a time,
// never from inside the call that caused it. Only Executor::Post may be called from other threads.
// Long work (encoding, reducing, hashing, the outer step, files) goes to the pool by
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

  // Returns monotonic time, from an arbitrary origin. Never compare it with another process's.
  virtual absl::Time Now() const = 0;

  // Returns the wall clock's time, for logs and certificates. No decision may depend on it.
  virtual absl::Time WallTime() const = 0;

  // Runs `task` on the loop, after all tasks posted before. May be called from any thread.
  virtual void Post(Task task) = 0;

  // Runs `task` on the loop after `delay`. Cancel does nothing if it has run or was cancelled.
  virtual TimerId RunAfter(absl::Duration delay, Task task) = 0;
  virtual void Cancel(TimerId timer) = 0;

  // Runs `work` on a pool thread, then `done` on the loop. Two Offloads may run in any order.
  virtual void Offload(Task work, Task done) = 0;

  // Returns a random number, in production from the kernel.
  virtual uint64_t Random() = 0;
};

// Returns 32 random bytes, for a key or a nonce, from the executor's random numbers.
std::string RandomBytes(Executor& executor);

// -----------------------------------------------------------------------------------------------
// Files. The calls block: make them on the pool, or before the loop runs. Paths are absolute.
// Errors are NOT_FOUND, RESOURCE_EXHAUSTED (disk full: ENOSPC, EDQUOT), PERMISSION_DENIED, and
// UNKNOWN for all others; each message names the path.

class WritableFile {
 public:
  virtual ~WritableFile() = default;  // Closes the file; unsynced bytes may be lost.
  virtual absl::Status Append(absl::Span<const uint8_t> bytes) = 0;
  // Returns once all appended bytes are durable. A failed fsync ends the process: the kernel has
  // dropped the dirty pages, so a retry would lie.
  virtual absl::Status Sync() = 0;
};

class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual uint64_t size() const = 0;  // The size when the file was opened.
  // Fills all of `out` or fails (OUT_OF_RANGE past the end). May be called from any thread.
  virtual absl::Status ReadAt(uint64_t offset, absl::Span<uint8_t> out) const = 0;
};

class Files {
 public:
  virtual ~Files() = default;
  // Creates the file, or empties it.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) = 0;
  // Does the same for a key, which only the owner may read.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> CreatePrivate(const std::string& path) = 0;
  // Returns true if only the owner may read the file.
  virtual absl::StatusOr<bool> IsPrivate(const std::string& path) = 0;
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> OpenToAppend(const std::string& path) = 0;
  virtual absl::StatusOr<std::unique_ptr<ReadableFile>> OpenToRead(const std::string& path) = 0;
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  // Removes a file or an empty folder, if it exists.
  virtual absl::Status Remove(const std::string& path) = 0;
  virtual absl::Status Truncate(const std::string& path, uint64_t size) = 0;
  // Makes the folders of `path` that are missing, durably.
  virtual absl::Status MakeDirectories(const std::string& path) = 0;
  // Makes creations, renames and removals in `directory` durable.
  virtual absl::Status SyncDirectory(const std::string& directory) = 0;
  // Returns the names, sorted.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& path) = 0;
  virtual bool Exists(const std::string& path) = 0;
};

std::string DirectoryOf(const std::string& path);  // The directory that contains the path. Pure.
// Reads a whole file of at most `limit` bytes.
absl::StatusOr<std::string> ReadFile(Files& files, const std::string& path, uint64_t limit);
// Writes the file `path`, durably. After a crash it is either complete or as it was before.
absl::Status WriteFileDurably(Files& files, const std::string& path,
                              absl::Span<const uint8_t> bytes);
// Does the same, but only the owner may read the file.
absl::Status WriteSecretDurably(Files& files, const std::string& path,
                                absl::Span<const uint8_t> bytes);

// -----------------------------------------------------------------------------------------------
// Network. Every RPC, even a unary one, is one bidirectional call that carries frames.

// The number of the field that carries the bulk data in every message (run.proto).
inline constexpr int kPayloadField = 15;

// One message: a serialised protobuf without its field 15, and the bytes of that field, if any.
struct Frame {
  std::string message;
  ByteParts payload;
  SharedBytes shared{};  // If not empty, it is used in place of `message`. Many calls can share it.
  absl::string_view bytes() const { return shared.empty() ? message : shared.str(); }
};
Frame Pack(const google::protobuf::MessageLite& message, ByteParts payload = ByteParts());
// Copies of the frame share its bytes.
Frame PackShared(const google::protobuf::MessageLite& message);
// Fails with INVALID_ARGUMENT if the bytes are not such a message.
absl::Status Unpack(const Frame& frame, google::protobuf::MessageLite* message);

// One end of one call. Destroying the Call before on_closed cancels the call, even after Finish; no
// further callback runs. If a server cancels the call, the client gets UNAVAILABLE.
class Call {
 public:
  struct Events {
    std::function<void(Frame)> on_frame;  // Answers one Read().
    // Called when a write has ended and unsent_bytes() is at or below the low-water mark.
    std::function<void()> on_writable;
    // Called once, last, when the call has ended. A client gets the server's status, or UNAVAILABLE
    // if the connection broke or could not be made. A server gets OK if the client has half-closed
    // and everything was read, or if its own Finish was sent; otherwise CANCELLED or UNAVAILABLE.
    // Only an outstanding Read notices a half-close, so a server that streams its answers must not
    // Read after the request. After a half-close the server may still Write and Finish; if the Call
    // is then destroyed, the queued frames are still sent, with OK if Finish was not called.
    std::function<void(absl::Status)> on_closed;
    // If true, payloads arrive in parts that lie in the network's scarce memory. The owner must
    // copy or drop them immediately. (A client's end may hold one frame ahead.) If false, each
    // payload arrives in one piece, in memory of its own.
    bool takes_parts = false;
  };

  virtual ~Call() = default;

  // Must be called once, in the task that accepted or dialled the call.
  virtual void Start(Events events) = 0;

  // Asks for one frame. At most one Read may be outstanding. Back-pressure works by not calling
  // Read (a client's end may hold one frame ahead). If the call ends instead, on_closed is called.
  virtual void Read() = 0;

  // Queues a frame. Must not be called after Finish; does nothing if the call has ended. The caller
  // must watch unsent_bytes() and, above a limit of its own, wait for on_writable.
  virtual void Write(Frame frame) = 0;
  virtual size_t unsent_bytes() const = 0;

  // On a client, ends the writes (half-close). On a server, ends the call with `status` once all
  // queued frames are sent.
  virtual void Finish(absl::Status status) = 0;

  // Returns the bytes sent so far: messages with their 5-byte prefixes, without other framing.
  virtual uint64_t sent_bytes() const = 0;

  // Returns the other end's address: "host:port" or "unix:...".
  virtual std::string remote() const = 0;

  // Returns the identity that the caller of an accepted call has proved; nullopt without
  // certificates, and on a dialled call.
  virtual std::optional<Identity> identity() const = 0;
};

class Listener {  // Destroying it stops listening and breaks every call accepted through it.
 public:
  virtual ~Listener() = default;
  virtual std::string address()
      const = 0;  // Has the port that the system chose, if port 0 was requested.
};

class Transport {
 public:
  // `method` is the full name, "/atolld.v1.Membership/Session". With certificates, a caller whose
  // role may not call it (membership/trust/identity.h) is refused before the acceptor runs, and
  // none of its bytes is read.
  using Acceptor = std::function<void(const std::string& method, std::unique_ptr<Call> call)>;

  virtual ~Transport() = default;

  // `address` is "host:port" or "unix:/path". Fails with FAILED_PRECONDITION if the address is in
  // use; the message names it.
  virtual absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                           Acceptor acceptor) = 0;

  // Never blocks. on_closed gets UNAVAILABLE if no server can be reached, or if the server is not
  // the peer that the address names (network.h). Every call has a deadline; a long-lived stream
  // passes absl::InfiniteDuration() and relies on keepalive and its own liveness rule.
  virtual std::unique_ptr<Call> Dial(const std::string& address, const std::string& method,
                                     absl::Duration deadline) = 0;

  // From the next dial on, refuses every server that shows one of these keys (Identity::key). They
  // replace the keys of the previous call. Without certificates it does nothing.
  virtual void RefuseKeys(const std::set<std::string>& /*keys*/) {}
};

// -----------------------------------------------------------------------------------------------
// The log of a process. Each call writes one line. A line about a round begins with its number
// ("round 12: ..."). Thread-safe.
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

// Wraps callbacks so that they do nothing once the owner is destroyed. Must be the owner's last
// member.
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

// Runs jobs on the pool one after another, in the order of the calls of Run. It is for state that
// is changed by long work (a replica, a store). Used on the loop thread.
class SerialQueue {
 public:
  explicit SerialQueue(Executor& executor);
  // Drops the jobs that have not begun, and waits for a running one. No `done` runs afterwards.
  ~SerialQueue();
  void Run(Task work, Task done);
  bool idle() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace atolld
