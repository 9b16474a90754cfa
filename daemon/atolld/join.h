// The steps of `atolld join` before it becomes an ordinary peer: it makes a key, gets a certificate
// for it, and writes a config.
//
//   DIR/identity/     the key and the certificate. The key is made first, so that the certificate
//                     can be requested again if the answer is lost.
//   DIR/config.toml   the complete config: `atolld peer --config DIR/config.toml` starts the peer
//                     again
//
// Its calls block. Used by one thread.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/env/env.h"
#include "daemon/fitness/run_needs.h"

namespace atolld {

struct JoinOptions {
  std::string token;
  // The new peer's folder; if empty, "atoll-" and the peer's id in the working directory.
  std::string dir;
  Brought brought;        // This machine's files for the run.
  std::string advertise;  // The address that others dial; if empty, this peer only dials others.
  // Where the peer listens; if empty, on all addresses of this machine, at the port of `advertise`.
  std::string listen;
  std::string worker;                          // The worker's program; see PreflightOptions.
  absl::Duration patience = absl::Minutes(2);  // How long to try to reach the coordinator.
  std::function<absl::Time()> clock;           // The clock of this machine.
  // Called with a line for each finding and each step.
  std::function<void(const std::string& line)> say;
};

// Returns the path of the config. If the folder has been used to join before, this is the existing
// config. Otherwise Join first examines the machine (preflight.h) and whether it has everything
// that the run needs (run_needs.h). If either finds a problem, the token is not used up. Fails with
// INVALID_ARGUMENT if the token, the folder or an option is wrong, or an option is missing; with
// FAILED_PRECONDITION if this machine could not take part or the run has ended; and with the errors
// of Enrol.
absl::StatusOr<std::string> Join(Files& files, const JoinOptions& options);

}  // namespace atolld
