// What the folder of a local run says of it while no coordinator answers: how far it has come,
// whether it is sealed, and which of its processes run.
//
// It is told from what lies in the replicas of its peers, so losses, which only a coordinator
// records, are not part of it. Blocking; nothing is written.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "atoll/v1/admin.pb.h"
#include "daemon/env/env.h"

namespace atolld {

// phase is "sealed" or "stopped", and reason says what can be done; a peer's state is "running" or
// "ended". Errors as ReadPeersFile, and of a replica that cannot be read.
absl::StatusOr<v1::RunStatus> RunStatusOfFolder(Files& files, const std::string& dir);

}  // namespace atolld
