// Health checks by the protocol grpc.health.v1.Health: the service that answers them, and a client.
//
// Every listener answers from its process's loop, so SERVING means that the loop runs and takes
// calls. gRPC's own health service answers on gRPC's threads, which run even if the loop is stuck.
// Only the server as a whole has a health; a question about a named service is refused as unknown.
// Access is checked as for every other method (membership/trust/identity.h). The protocol is
// proto/grpc/health/v1/health.proto.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/env/env.h"

namespace atolld {

// Used on the loop thread. The destructor breaks its calls.
class HealthService {
 public:
  static bool Serves(absl::string_view method);

  void Accept(const std::string& method, std::unique_ptr<Call> call);

 private:
  void OnQuestion(uint64_t id, const Frame& frame);

  struct Asking {
    std::unique_ptr<Call> call;
    bool watches = false;
  };
  std::map<uint64_t, Asking> asking_;
  uint64_t next_ = 0;
  CallbackGuard guard_;
};

// Returns an acceptor that answers health checks and passes all other calls on to `acceptor`.
Transport::Acceptor WithHealth(Transport::Acceptor acceptor);

// Asks the server in this role at the address whether it serves. `identity` is the folder of the
// credentials; if it is empty, the call is plain text. Fails with UNAVAILABLE if the server does
// not answer within `patience` or does not serve. Blocks. May be called from any thread.
absl::Status CheckHealth(const std::string& address, Role role, const std::string& identity,
                         absl::Duration patience);

}  // namespace atolld
