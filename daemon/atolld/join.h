// What `atolld join` does before it is an ordinary peer: a key, a certificate for it, a config.
//
//   DIR/identity/     the key (made first, so that a lost answer can be asked for again), then the
//                     certificate
//   DIR/config.toml   complete: `atolld peer --config DIR/config.toml` starts the peer again
//
// Blocking.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/cli/run_needs.h"
#include "daemon/env/env.h"

namespace atolld {

struct JoinOptions {
  std::string token;
  std::string dir;        // empty: "atoll-" and the peer's id, here
  Brought brought;        // what the run needs and this machine has
  std::string advertise;  // what others dial; empty: nobody can, this peer dials out
  std::string listen;     // empty: every address of this machine, the port of `advertise`
  std::string worker;     // as PreflightOptions
  absl::Duration patience = absl::Minutes(2);        // for the coordinator
  std::function<absl::Time()> clock;                 // of this machine
  std::function<void(const std::string& line)> say;  // what was found out before and on the way
};

// The path of the config. Whoever has joined into this folder before gets what is there; else the
// machine is looked at first (preflight.h), and then what the run needs (run_needs.h): whatever is
// wrong with either leaves the token unspent. INVALID_ARGUMENT: the token, the folder or an option
// is wrong, or one is missing. FAILED_PRECONDITION: this machine could not take part, or the run is
// over. Else as Enrol.
absl::StatusOr<std::string> Join(Files& files, const JoinOptions& options);

}  // namespace atolld
