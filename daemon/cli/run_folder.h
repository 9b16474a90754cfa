// Reads the state of a local run from its folder, for use while no coordinator answers: the last
// version, whether the run is sealed, and which of its processes run.
//
// The state is read from the replicas of the run's peers. Losses, times and epsilon, which only a
// coordinator records, are read from the figures that `atoll local` writes into the folder at its
// end; they are unknown if these figures are missing or belong to another version. Blocks, and
// writes nothing.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "atoll/v1/admin.pb.h"
#include "daemon/env/env.h"

namespace atolld {

// The phase in the status is "sealed" or "stopped", and the reason says what the user can do. The
// state of a peer is "running" or "ended". Fails with the errors of ReadPeersFile, and with the
// error of a replica that cannot be read.
absl::StatusOr<v1::RunStatus> RunStatusOfFolder(Files& files, const std::string& dir);

}  // namespace atolld
