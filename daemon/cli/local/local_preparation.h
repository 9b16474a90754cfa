// What `atoll local` settles before it makes anything.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "daemon/cli/local/local_run.h"
#include "daemon/config/config.h"

namespace atolld {

struct LocalPreparation {
  Config config;       // with a run id
  std::string dir;     // of the run, absolute
  std::string atolld;  // the programs
  std::string worker;
  int port = 0;  // of the coordinator
};

struct LocalFailure {
  int exit_code;  // of `atoll`
  absl::Status status;
};

// Everything that can be wrong with the call, its config and this installation; nothing: all is
// well, and `prepared` is whole.
std::optional<LocalFailure> PrepareLocalRun(const LocalOptions& options,
                                            LocalPreparation* prepared);

}  // namespace atolld
