// Transfer: how a replica that lacks something gets it from others, and how it gives.
//
// Donor serves a directory's committed entries, snapshots and run files, block by block; reading
// runs on the pool. ChainFetch, EntryFetch, SnapshotFetch and FileFetch are the receiving ends:
// each takes from several donors at once, checks every piece against a digest that does not come
// from the donor's word alone, leaves a donor that fails or lies for the next one, and fetches
// nothing twice that was verified. The trust begins at a header that the coordinator told. Loop
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/env/env.h"
#include "daemon/env/repeated_lines.h"
#include "daemon/replica/state/replica.h"
#include "daemon/replica/transfer/snapshot_pages.h"

namespace atolld {

inline constexpr char kFetchEntriesMethod[] = "/atolld.v1.Replica/FetchEntries";
inline constexpr char kFetchSnapshotMethod[] = "/atolld.v1.Replica/FetchSnapshot";

struct DonorSettings {
  uint64_t bytes_per_second = 0;  // to all joiners together; 0: no limit
  // A call whose joiner asks for nothing for so long is ended.
  absl::Duration idle_timeout = absl::Seconds(10);
  uint64_t snapshot_leaves_a_page = kSnapshotLeavesAPage;  // of a description, at most
};

// Serves FetchEntries and FetchSnapshot from the files under `dir`. All joiners together get no
// more than the rate, and each as much as the others; a call beyond 16 is refused with
// RESOURCE_EXHAUSTED: try another donor. What it refuses it names without a path of this machine,
// whose log has the whole reason.
class Donor {
 public:
  Donor(Env env, std::string dir, std::string run_id, DonorSettings settings = {});
  ~Donor();
  // `dialled_here`: by this peer itself; such a call may wait for its first request.
  void Accept(const std::string& method, std::unique_ptr<Call> call, bool dialled_here = false);
  // While this peer's own exchange is under way an eighth of the rate is given.
  void SetBusy(bool busy);
  // Bytes a second, in place of the settings'.
  void SetRate(uint64_t bytes_per_second);

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
  v1::RunSpec spec{};  // whose history key signs the headers, and which lists the files
  std::shared_ptr<RepeatedLines> lines{};  // as FetchStreams::Settings
};

// One header of the run's chain, with the bytes that its payload takes as a donor says.
struct ChainLink {
  v1::EntryHeader header;
  uint64_t payload_bytes = 0;
};

// Fetches the headers first..last, the newest first: each must have the digest that its successor
// carries, `newest` that of `last`, and be signed as the run's are. `done`: all of them, ascending;
// NOT_FOUND: every donor lacks the next one; UNAVAILABLE: every donor failed.
class ChainFetch {
 public:
  using Done = std::function<void(absl::StatusOr<std::vector<ChainLink>>)>;
  ChainFetch(Env env, FetchSource source, uint64_t first, uint64_t last, const Digest& newest,
             Done done);
  ~ChainFetch();  // cancels
  void SetDonors(const std::vector<std::string>& donors);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// Fetches the payloads of consecutive committed entries whose headers are known, several at once;
// each is checked against its header and handed over in order. The owner answers each by calling
// `next`, which lets the following one come. `on_done`: OK after the last; UNAVAILABLE when every
// donor failed, with the last reason; NOT_FOUND when every donor says that it no longer holds an
// entry (take a snapshot instead).
class EntryFetch {
 public:
  struct Events {
    std::function<void(Entry entry, Task next)> on_entry;
    std::function<void(absl::Status)> on_done;
  };
  EntryFetch(Env env, FetchSource source, std::vector<v1::EntryHeader> headers, Events events);
  ~EntryFetch();  // cancels
  void SetDonors(const std::vector<std::string>& donors);
  uint64_t received_bytes() const;
  size_t donors_used() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

struct FetchedSnapshot {
  uint64_t version = 0;
  uint64_t bytes = 0;           // of the snapshot
  uint64_t received_bytes = 0;  // over the wire, for all of this fetch
  uint64_t blocks = 0;
  uint64_t blocks_fetched = 0;  // the others were here already
  size_t donors = 0;
};

// Fetches a snapshot into `dir` so that Replica::Open finds it. `genesis` comes from the
// coordinator. Blocks that any snapshot here holds with the same leaf are taken from there. A
// partial download is resumed, also after a restart; when nobody has its version any more another
// one is begun and its blocks count as being here.
class SnapshotFetch {
 public:
  struct Events {
    // Before any block of a snapshot is fetched: is it one of the run's history? OK: fetch it.
    // UNAVAILABLE: this cannot be told now, the fetch ends. Else: the donor lied, or it is of no
    // use; another one is looked for.
    std::function<void(const v1::SnapshotInfo& info, std::function<void(absl::Status)> verdict)>
        confirm;
    std::function<void(uint64_t bytes, uint64_t total)> on_progress;
    std::function<void(absl::StatusOr<FetchedSnapshot>)> on_done;
  };
  // `wanted`: versions to try before the newest of whoever is asked, best first.
  SnapshotFetch(Env env, FetchSource source, std::string dir, v1::Genesis genesis,
                std::vector<uint64_t> wanted, Events events);
  ~SnapshotFetch();  // cancels
  void SetDonors(const std::vector<std::string>& donors);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// Fetches one file of the run's spec to its place under `dir` (RunFilePath), durably. It is checked
// block by block against the digest that the spec lists, and held in memory until all of it is
// here: only what Travels() may be asked for. `done`: OK; NOT_FOUND: every donor lacks it;
// UNAVAILABLE: every donor failed; else this machine's error.
class FileFetch {
 public:
  using Done = std::function<void(absl::Status)>;
  FileFetch(Env env, FetchSource source, std::string dir, int file, Done done);
  ~FileFetch();  // cancels
  void SetDonors(const std::vector<std::string>& donors);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace atolld
