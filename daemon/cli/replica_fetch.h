// Fetches the replica of a run from its peers, for a user who has no peer's folder on this machine:
// a snapshot, and the entries after it.
//
// Only the coordinator is trusted. Its headers hold the digests of the genesis, of every state but
// the newest, and of every payload, and everything that peers send is checked against them.
// FetchReplica blocks; call it from one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "atoll/v1/run.pb.h"
#include "daemon/transport/coordinator_client.h"

namespace atolld {

struct ReplicaFetch {
  CoordinatorAccess access;
  std::optional<uint64_t> version;  // the version to fetch; the newest committed version if not set
  // An empty folder (absolute path), in which the replica is stored.
  std::string dir;
  // Called with the progress of the snapshot; may be null.
  std::function<void(uint64_t bytes, uint64_t total)> on_progress;
};

struct FetchedReplica {
  uint64_t version = 0;
  std::vector<v1::EntryHeader> headers;  // the run's headers, from version 1 to the newest
};

// Fails with UNAVAILABLE if no coordinator answers, or if no peer can be dialled; in the second
// case the message says what to do instead. Fails with OUT_OF_RANGE if the peers do not have the
// version; the message names the versions that they have.
absl::StatusOr<FetchedReplica> FetchReplica(const ReplicaFetch& fetch);

}  // namespace atolld
