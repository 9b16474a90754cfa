// What a ReplicaKeeper tells its owner, all on the loop.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "atoll/v1/run.pb.h"
#include "membership/history/digest.h"

namespace atolld {

struct KeeperEvents {
  // A snapshot led past the entry of this header; on_opened follows. Headers that nobody could
  // tell are missing between two of these, or before on_opened.
  std::function<void(const v1::EntryHeader& header)> on_skipped;
  // The replica stands at a version: loaded, made, fetched or repaired.
  std::function<void()> on_opened;
  // It has stepped to header.version.
  std::function<void(const v1::EntryHeader& header)> on_committed;
  std::function<void(uint64_t version, const Digest& state)> on_digest;
  // The state of `version` is not the one of the history; it is being repaired.
  std::function<void(uint64_t version, const Digest& state, const Digest& expected)> on_drift;
  // What offer() says has changed.
  std::function<void()> on_offer;
  // It cannot go on: a full disk, corrupt files. The state on disk is kept.
  std::function<void(absl::Status)> on_broken;
  // What the coordinator told is no continuation of what is here; it is forgotten, and the replica
  // stands as it was.
  std::function<void(absl::Status)> on_refused;
};

}  // namespace atolld
