// A look at a server of Atoll that could not be spoken to: does anybody answer, in TLS, with a
// certificate of this run, of the right role, and does it take this side's?
//
// gRPC only says that a handshake failed. The probe makes one itself, shows the same credentials,
// and reads what the other end shows. It sends no request, so it changes nothing there. Blocking,
// any thread.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/identity/credentials.h"
#include "membership/trust/identity.h"

namespace atolld {

struct ProbedServer {
  std::string address;  // "host:port"; a "unix:" one is not looked at
  Role role = Role::kCoordinator;
  std::string peer;                        // whom exactly; empty: whoever serves in the role
  std::optional<Credentials> credentials;  // this side's; none: plain text, and only TCP is tried
};

// How long the connection took to make (TCP alone). Errors as ConnectionError, without the address;
// a failed precondition will be one the next time too.
absl::StatusOr<absl::Duration> ProbeServer(const ProbedServer& server, absl::Duration patience);

// The same with the credentials of this folder, which may be empty (plain text); a folder that
// cannot be loaded is kWrongCertificate. OK: the connection could be made now.
absl::Status ProbeServerWith(ProbedServer server, const std::string& folder,
                             absl::Duration patience);

}  // namespace atolld
