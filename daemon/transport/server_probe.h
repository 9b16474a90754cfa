// Examines a server of Atoll that could not be reached by a call: does anything answer, in TLS,
// with a certificate of this run and the right role, and does it accept this side's certificate?
//
// gRPC only says that a handshake failed. The probe makes a handshake itself, shows the same
// credentials, and reads what the other end shows. It sends no request, so it changes nothing on
// the server. Its calls block. May be called from any thread.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/identity/credentials.h"
#include "membership/trust/identity.h"

namespace atolld {

struct ProbedServer {
  std::string address;  // "host:port"; a "unix:" address is not examined
  Role role = Role::kCoordinator;
  std::string peer;  // the only peer that is accepted; empty if any server in the role is accepted
  // This side's credentials; without them only TCP is tried.
  std::optional<Credentials> credentials;
};

// Returns the time that it took to make the TCP connection. Fails with an error of ConnectionError
// (connection_failure.h), which does not name the address. After FAILED_PRECONDITION another
// attempt would fail in the same way.
absl::StatusOr<absl::Duration> ProbeServer(const ProbedServer& server, absl::Duration patience);

// Examines the server with the credentials of this folder, or in plain text if `folder` is empty.
// Returns OK if a connection can be made. Fails like ProbeServer, and with the error for
// kWrongCertificate if the folder cannot be loaded.
absl::Status ProbeServerWith(ProbedServer server, const std::string& folder,
                             absl::Duration patience);

// Keeps examinations of servers ("looks") from taking all threads of the pool. At an address that
// does not answer, each look lasts its whole patience, and a caller that dials such an address
// dials it again and again.
//
// One look runs at a time, and the result of a slow look is kept for a minute. Thread-safe.
class Looks {
 public:
  // Runs `look` at the address and returns its result, or returns the kept result of a slow look.
  // While another look is under way, returns OK without looking.
  absl::Status Take(const std::string& address, absl::FunctionRef<absl::Status()> look);

 private:
  struct Found {
    absl::Time at;
    absl::Status status;
  };

  // Guarded by mutex_.
  std::mutex mutex_;
  bool looking_ = false;
  std::map<std::string, Found> slow_;  // the results of slow looks, by address
};

}  // namespace atolld
