// Preflight: what a machine finds out about itself before it enrols anywhere, or when it is asked.
//
// It says everything that it found, good or bad, one line each, so that whoever joins reads why a
// run would not work before it does not. Blocking.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "compression/base/process_limits.h"
#include "daemon/identity/credentials.h"

namespace atolld {

struct PreflightOptions {
  std::string dir;          // where all of it would live; need not exist
  std::string coordinator;  // its address; empty: nobody has named one
  // What this machine shows the coordinator, and knows it by; none: only its port is tried.
  std::optional<Credentials> credentials;
  std::string listen, advertise;  // as JoinOptions; an empty `advertise`: it dials out only
  std::string worker;             // the program that would train; empty: none would
  uint32_t threads = 1;           // of it
  bool runs = false;              // the daemon of `dir` does, and listens already
  absl::Time now;
  // The coordinator's clock was at or past this when it made the token; InfinitePast: no token.
  absl::Time no_earlier_than = absl::InfinitePast();
  absl::Duration patience = absl::Seconds(5);
};

struct Finding {
  enum class Weight { kGood, kDoubtful, kFatal };  // fatal: to join would be in vain
  Weight weight = Weight::kGood;
  std::string line;  // "disk: 120 GB free in /home/a/atoll"
};

// "good", "doubtful" or "fatal"
std::string NameOf(Finding::Weight weight);

// What `limits` leave a peer whose worker has so many threads: memory, processors, open files.
std::vector<Finding> CheckLimits(const ProcessLimits& limits, uint32_t threads);

// The address to listen on for what others dial, where nobody has named one.
std::string ListenAddressFor(const std::string& advertise);

std::vector<Finding> Preflight(const PreflightOptions& options);

// How far this machine's clock is from the coordinator's, by a certificate that it has just signed
// (which is valid from `lead` before that).
Finding CompareClocks(absl::Time now, absl::Time not_before, absl::Duration lead);

}  // namespace atolld
