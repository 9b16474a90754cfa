// Calls over gRPC. The owner holds a Call on the loop; behind it works one of gRPC's callback
// reactors.
//
// A reactor owns itself from the start of its call until gRPC calls its OnDone. OnDone always
// comes, because a broken call ends without help from the loop. LiveCalls holds the reactors whose
// OnDone has not come yet.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/generic/async_generic_service.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/env/env.h"
#include "daemon/transport/line_relay.h"
#include "daemon/transport/wire.h"
#include "membership/trust/identity.h"

namespace atolld {

// The calls whose OnDone has not come yet. Thread-safe.
class LiveCalls {
 public:
  // `line` counts the bytes of the calls; it is null for calls that stay on this machine.
  LiveCalls(Executor& executor, std::shared_ptr<CappedLine> line)
      : executor_(executor), line_(std::move(line)) {}

  bool Add(std::shared_ptr<Wire> wire);  // returns false, and adds nothing, after Close
  void Retire(const Wire* wire);         // removes the wire; the loop releases it

  // Both break all calls. After Close, Add returns false.
  void Break(const absl::Status& status);
  void Close(const absl::Status& status);
  void WaitUntilEmpty();

  void CountSent(uint64_t bytes) {
    if (line_ != nullptr) line_->count().sent += bytes;
  }
  void CountReceived(uint64_t bytes) {
    if (line_ != nullptr) line_->count().received += bytes;
  }

 private:
  Executor& executor_;
  const std::shared_ptr<CappedLine> line_;
  std::mutex mutex_;
  std::condition_variable empty_;
  std::map<const Wire*, std::shared_ptr<Wire>> calls_;
  bool closed_ = false;
};

struct Dialled {
  // `connect` calls it once with the channel: immediately, or later on another thread if a name
  // must be looked up first.
  using Connected = std::function<void(absl::StatusOr<std::shared_ptr<grpc::Channel>>)>;
  std::function<void(Connected)> connect;
  std::string address;  // the channel's address, for messages
  std::string method;
  absl::Duration deadline;
  // Called on one of gRPC's threads when the link of this channel broke, or when it could not be
  // made. `heard` is true if a frame had arrived, that is, if the link was made. The channel is
  // null if none was made.
  std::function<void(const std::shared_ptr<grpc::Channel>& channel, bool heard)> on_unavailable;
  // Examines the other end if the link could not be made and gRPC does not say why, and returns the
  // reason. Runs on the pool.
  std::function<absl::Status()> probe;
  // True if the call goes through a LineRelay. gRPC always reaches the relay, so its errors do not
  // say why the other end cannot be reached.
  bool relayed = false;
};

// Makes a client's call, which is passed to gRPC when its owner starts it. Used on the loop thread.
std::unique_ptr<Call> MakeClientCall(Executor& executor, std::shared_ptr<LiveCalls> live,
                                     Dialled dialled);

using CallTaker = std::function<void(const std::string& method, std::unique_ptr<Call> call)>;

// Returns the reactor to give to gRPC for a call that a server has received, or null if `live` is
// closed. `take` runs on the loop. May be called from any thread.
grpc::ServerGenericBidiReactor* TakeServerCall(Executor& executor,
                                               const std::shared_ptr<LiveCalls>& live,
                                               grpc::GenericCallbackServerContext* context,
                                               std::optional<Identity> identity, CallTaker take);

}  // namespace atolld
