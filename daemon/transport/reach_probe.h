// Whether an address can be reached, found out with plain TCP before anything is said to anybody.
//
// Nothing of the protocol is spoken, so no credentials are needed. Blocking, any thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace atolld {

// Connects to "host:port" and hangs up. How long the connection took to make. INVALID_ARGUMENT: no
// such form; NOT_FOUND: the name is unknown; UNAVAILABLE: refused, or nobody answered in time.
absl::StatusOr<absl::Duration> ProbeConnect(const std::string& address, absl::Duration patience);

// Listens on `listen` for a moment, connects to `advertise`, and sees whether it has come back to
// itself: whether what others would dial leads to this machine. `nonce` is said over the connection
// and must be nobody else's. FAILED_PRECONDITION: `listen` cannot be listened on, or somebody else
// answers at `advertise`; else as ProbeConnect.
absl::Status ProbeOwnAddress(const std::string& listen, const std::string& advertise,
                             const std::string& nonce, absl::Duration patience);

}  // namespace atolld
