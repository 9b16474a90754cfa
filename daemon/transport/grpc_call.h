// Calls over gRPC: a Call for its owner on the loop, and behind it one of gRPC's callback reactors.
//
// A reactor owns itself from the start of its call until gRPC's OnDone, which always comes: a
// broken call ends without the loop. LiveCalls knows those that have not come so far.
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
#include "absl/time/time.h"
#include "daemon/env/env.h"
#include "daemon/transport/capped_line.h"
#include "daemon/transport/wire.h"
#include "membership/trust/identity.h"

namespace atolld {

// The calls that gRPC still knows. Any thread.
class LiveCalls {
 public:
  // `line`: where their bytes are counted; null: they stay on this machine.
  LiveCalls(Executor& executor, std::shared_ptr<CappedLine> line)
      : executor_(executor), line_(std::move(line)) {}

  bool Add(std::shared_ptr<Wire> wire);  // false: closed, and nothing was added
  void Retire(const Wire* wire);         // the loop drops it

  // Breaks all calls. Close: and Add fails from now on.
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
  std::shared_ptr<grpc::Channel> channel;
  std::string address;  // of the channel, for people
  std::string method;
  absl::Duration deadline;
  std::function<void()> on_unavailable;  // on a gRPC thread: the link broke or could not be made
  // Why it could not be made, where gRPC does not say: a look at the other end. On the pool.
  std::function<absl::Status()> probe;
  // Through a LineRelay, which gRPC reaches always: what gRPC says tells nothing then.
  bool relayed = false;
};

// A call of a client; gRPC hears of it when it is started. Loop thread.
std::unique_ptr<Call> MakeClientCall(Executor& executor, std::shared_ptr<LiveCalls> live,
                                     Dialled dialled);

using CallTaker = std::function<void(const std::string& method, std::unique_ptr<Call> call)>;

// What gRPC has to be given for a call that a server got; `take` runs on the loop. Null: `live` is
// closed. Any thread.
grpc::ServerGenericBidiReactor* TakeServerCall(Executor& executor,
                                               const std::shared_ptr<LiveCalls>& live,
                                               grpc::GenericCallbackServerContext* context,
                                               std::optional<Identity> identity, CallTaker take);

}  // namespace atolld
