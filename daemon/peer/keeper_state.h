// What a ReplicaKeeper remembers while it fetches what is missing, keeps its disk in order, and
// repairs a replica. Loop thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "atoll/v1/run.pb.h"
#include "daemon/env/env.h"
#include "daemon/peer/sync_choice.h"
#include "daemon/replica/transfer/transfer.h"
#include "membership/history/digest.h"

namespace atolld {

// Nobody gives what is missing: all that could be asked have failed, or nobody could be asked.
// Something that comes ends it.
struct FetchFailure {
  absl::Time since;  // the first attempt that failed
  std::string why;   // the last
};

// What goes on around the replica's Retention.
struct KeeperRetention {
  bool under_way = false;                  // a pass, or what follows it
  bool again = false;                      // another then
  bool save = false;                       // once the next header has confirmed the state in memory
  std::optional<Executor::TimerId> retry;  // of a pass that failed
};

struct KeeperSync {
  uint64_t newest = 0;  // newest version known to be committed
  // Committed headers to come: the coordinator's, and those that lead back from them.
  std::map<uint64_t, v1::EntryHeader> announced;
  std::map<uint64_t, uint64_t> payload_bytes;  // of entries to come, as donors say
  std::vector<FetchDonor> donors;
  absl::Duration failure_timeout = absl::Seconds(10);
  int lacking = 0;  // times in a row that all donors lacked the next entry
  std::optional<FetchFailure> failing;
  uint64_t snapshot_bytes = 0;  // most that was here of one that is being fetched
  bool retry_pending = false;
  Task deferred;  // a fetched entry's commit, while commits are held
  std::unique_ptr<ChainFetch> chain;
  std::unique_ptr<EntryFetch> entries;
  std::unique_ptr<SnapshotFetch> snapshot;
};

// A replica that drifted, or may have: what its state should have been, and how far the repair is.
struct KeeperRepair {
  uint64_t version;
  std::optional<Digest> expected;  // not known: what the own disk leads to is believed
  bool ask_others = false;
  int fetches = 0;               // snapshots that were fetched for it
  uint64_t fetched_version = 0;  // of the last of them
};

}  // namespace atolld
