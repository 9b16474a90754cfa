// What a repair puts out of the way, so that Replica::Open does not find it again. Nothing of it is
// lost: names get ".corrupt" at their end. Blocking; nobody else may use the directory.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "daemon/env/env.h"

namespace atolld {

// Snapshots newer than `version`: what they led to was wrong.
absl::Status SetSnapshotsAside(Files& files, const std::string& dir, uint64_t version);

// The whole log: the replica goes on from its newest snapshot and fetches what came after.
absl::Status SetLogAside(Files& files, const std::string& dir);

}  // namespace atolld
