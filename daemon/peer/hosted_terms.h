// The conditions of a run for peers that host virtual parties (the config's section [parties]) and
// for peers that are a single party. Pure. May be called from any thread.
#pragma once

#include "absl/status/status.h"
#include "atoll/v1/run.pb.h"
#include "daemon/config/federation_config.h"

namespace atolld {

// Fails with FAILED_PRECONDITION if a trainer with these parties cannot take part; the message says
// what would be right.
absl::Status CheckHosted(const v1::RunSpec& spec, const PartiesConfig& parties);

}  // namespace atolld
