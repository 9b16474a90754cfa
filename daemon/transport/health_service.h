// Health: what a server answers to grpc.health.v1.Health, and who asks it.
//
// Every listener answers, from its process's loop: SERVING means that the loop runs and takes
// calls, which gRPC's own service, on gRPC's threads, could not say. Only the server as a whole has
// a health here; a name of a service is not known. The rules of who may ask are those of all
// methods (membership/trust/identity.h). The protocol is proto/grpc/health/v1/health.proto.
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

// Loop thread. Destroying it breaks its calls.
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

// What listens and takes health's calls out of those that `acceptor` gets.
Transport::Acceptor WithHealth(Transport::Acceptor acceptor);

// Asks the server in this role at the address, with the credentials of the folder (empty: plain
// text). UNAVAILABLE: it does not answer within `patience`, or does not serve. Blocking; any
// thread.
absl::Status CheckHealth(const std::string& address, Role role, const std::string& identity,
                         absl::Duration patience);

}  // namespace atolld
