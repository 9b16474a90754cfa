// RosterDialler: how a peer dials other peers - those that the roster names, where it names them.
//
// Whoever answers at an address must be the member that the roster has there. One that is evicted
// is not dialled, and calls to it that go on are cut the moment the roster says so: RosterGate does
// the same to the calls that come. The coordinator's methods go to the transport below untouched.
// Loop thread.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "atoll/v1/membership.pb.h"
#include "daemon/env/env.h"
#include "daemon/peer/cut_calls.h"

namespace atolld {

class RosterDialler final : public Transport {
 public:
  // `under` outlives it.
  RosterDialler(Executor& executor, Transport& under);

  // Returns how many calls were cut.
  size_t SetRoster(const v1::Roster& roster);

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   Acceptor acceptor) override;
  // UNAVAILABLE by on_closed: no member is there. PERMISSION_DENIED: it was evicted.
  std::unique_ptr<Call> Dial(const std::string& address, const std::string& method,
                             absl::Duration deadline) override;

 private:
  Executor& executor_;
  Transport& under_;
  std::map<std::string, std::string> members_;  // by address
  std::set<std::string> evicted_;
  CutCalls live_;
};

}  // namespace atolld
