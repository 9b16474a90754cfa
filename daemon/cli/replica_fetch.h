// A replica's folder from a run elsewhere, for who has no peer's folder at hand: a snapshot from
// peers that can be dialled, and the entries that lead on from it.
//
// Trust begins at the coordinator: its headers name the genesis, every state but the newest, and
// every payload. What peers give is checked against them. Blocking; one call at a time.
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
  std::optional<uint64_t> version;  // none: the newest committed
  std::string dir;                  // absolute, empty: the replica's
  // Of the snapshot, while it comes; may be null.
  std::function<void(uint64_t bytes, uint64_t total)> on_progress;
};

struct FetchedReplica {
  uint64_t version = 0;
  std::vector<v1::EntryHeader> headers;  // of the run, from 1 to the newest
};

// UNAVAILABLE: no coordinator answers, or no peer can be dialled: then it says what to do instead.
// OUT_OF_RANGE: peers do not lead to that version; names those that they do lead to.
absl::StatusOr<FetchedReplica> FetchReplica(const ReplicaFetch& fetch);

}  // namespace atolld
