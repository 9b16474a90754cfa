// Transfer: how a replica that lacks something gets it from others, and how it gives.
//
// Donor serves a directory's committed entries and snapshots, block by block; reading runs on the
// pool. EntryFetch and SnapshotFetch are the receiving ends: each block is checked against a digest
// that does not come from the donor's word alone, a donor that fails or lies is left for the next
// one, and what was verified is not fetched twice. Loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/env.h"
#include "daemon/replica/replica.h"

namespace atolld {

inline constexpr char kFetchEntriesMethod[] = "/atolld.v1.Replica/FetchEntries";
inline constexpr char kFetchSnapshotMethod[] = "/atolld.v1.Replica/FetchSnapshot";

// Serves FetchEntries and FetchSnapshot from the files under `dir`.
class Donor {
 public:
  Donor(Env env, std::string dir, std::string run_id);
  ~Donor();
  void Accept(const std::string& method, std::unique_ptr<Call> call);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

struct FetchSource {
  std::string run_id;
  std::vector<std::string> donors;  // addresses, best first
  absl::Duration failure_timeout;   // a donor without progress for so long is left
  // Longest payload that an entry can have (MaxPayloadBytes of the run); a donor that sends more
  // lies.
  uint64_t payload_limit = uint64_t{1} << 40;
};

// Fetches committed entries first..last in order; each is checked against its own header's payload
// digest and handed over; the owner checks the chain (Replica::Commit) and answers by calling
// `next`, which asks for the following one. `on_done`: OK after `last`; UNAVAILABLE when every
// donor failed, with the last reason; NOT_FOUND when every donor says that it no longer holds the
// entry (take a snapshot instead).
class EntryFetch {
 public:
  struct Events {
    std::function<void(Entry entry, Task next)> on_entry;
    std::function<void(absl::Status)> on_done;
  };
  EntryFetch(Env env, FetchSource source, uint64_t first, uint64_t last, Events events);
  ~EntryFetch();  // cancels

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// Fetches the newest snapshot of any donor into `dir` so that Replica::Open finds it. `genesis`
// comes from the coordinator; a snapshot whose genesis or state digest disagrees with its own
// leaves, or whose run differs, is refused. A partial download is resumed, also after a restart.
class SnapshotFetch {
 public:
  SnapshotFetch(Env env, FetchSource source, std::string dir, v1::Genesis genesis,
                std::function<void(absl::Status)> on_done,
                std::function<void(uint64_t bytes, uint64_t total)> on_progress);
  ~SnapshotFetch();  // cancels

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace atolld
