// Preflight: the checks that a machine makes on itself before it enrols, or on its user's request.
//
// Every result, good or bad, is reported in one line, so that users learn why a run would fail
// before it fails. Preflight blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "compression/base/process_limits.h"
#include "daemon/fitness/finding.h"
#include "daemon/identity/credentials.h"

namespace atolld {

struct PreflightOptions {
  std::string dir;          // The folder for everything; it need not exist yet.
  std::string coordinator;  // The coordinator's address; empty if it is not known.
  // This machine's credentials, with which it also checks the coordinator's certificate. Without
  // them it only connects to the coordinator's port.
  std::optional<Credentials> credentials;
  // As in JoinOptions. If `advertise` is empty, the peer only dials out.
  std::string listen, advertise;
  // The program that would train; empty for a peer without a worker.
  std::string worker;
  uint32_t threads = 1;  // The threads of the worker.
  bool runs = false;     // True if the daemon of `dir` runs; it then listens already.
  absl::Time now;
  // A time that the coordinator's clock had reached when it made the token; InfinitePast if there
  // is no token.
  absl::Time no_earlier_than = absl::InfinitePast();
  absl::Duration patience = absl::Seconds(5);
  // Called with each finding as soon as it is known; may be null.
  std::function<void(const Finding&)> on_finding = nullptr;
};

// Returns "good", "doubtful" or "fatal".
std::string NameOf(Finding::Weight weight);

// Returns findings that say whether `limits` leave enough memory, processors and open files for a
// peer whose worker has this many threads.
std::vector<Finding> CheckLimits(const ProcessLimits& limits, uint32_t threads);

// Returns the address to listen on if only the advertised address is given.
std::string ListenAddressFor(const std::string& advertise);

// Makes all checks, the slowest of them last, and returns their findings.
std::vector<Finding> Preflight(const PreflightOptions& options);

// Compares this machine's clock with the coordinator's. `not_before` is taken from a certificate
// that the coordinator has just signed, and is `lead` earlier than the signing.
Finding CompareClocks(absl::Time now, absl::Time not_before, absl::Duration lead);

}  // namespace atolld
