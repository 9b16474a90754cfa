// Transfer: lets a replica fetch data that it lacks from other peers, and give its own data to
// them.
//
// Donor serves a directory's committed entries, snapshots and run files, block by block; it reads
// on the pool. ChainFetch, EntryFetch, SnapshotFetch and FileFetch are the receiving ends. Each
// takes data from several donors at once, checks every piece against a digest that does not come
// only from the donor, turns from a donor that fails or lies to the next one, and never fetches
// verified data twice. The digests follow from a header that the coordinator reported. Used on the
// loop thread.
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
  uint64_t bytes_per_second = 0;  // The rate to all joiners together; 0 means no limit.
  // A call is ended if its joiner requests nothing for this time.
  absl::Duration idle_timeout = absl::Seconds(10);
  // The most leaves in a page of a snapshot's description.
  uint64_t snapshot_leaves_a_page = kSnapshotLeavesAPage;
};

// Serves FetchEntries and FetchSnapshot from the files under `dir`. All joiners together get no
// more than the rate, and each joiner gets as much as the others. Calls beyond 16 at once are
// refused with RESOURCE_EXHAUSTED, so that the joiner tries another donor. Errors that joiners
// receive contain no path of this machine; the full reason is in the log.
class Donor {
 public:
  Donor(Env env, std::string dir, std::string run_id, DonorSettings settings = {});
  ~Donor();
  // Accepts a call. `dialled_here` is true if this peer dialled the call itself; such a call may
  // wait for its first request.
  void Accept(const std::string& method, std::unique_ptr<Call> call, bool dialled_here = false);
  // Tells whether this peer's own exchange is under way. While it is, only an eighth of the rate is
  // used.
  void SetBusy(bool busy);
  // Sets the rate in bytes a second, which replaces the rate in the settings.
  void SetRate(uint64_t bytes_per_second);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

struct FetchSource {
  std::string run_id;
  std::vector<std::string> donors;  // The addresses of the donors, best first.
  absl::Duration failure_timeout;   // A donor without progress for this time is left.
  // The longest payload that an entry can have (MaxPayloadBytes of the run). A donor that sends
  // more has lied.
  uint64_t payload_limit = uint64_t{1} << 40;
  // The run's spec, which has the key that signs the headers and lists the files.
  v1::RunSpec spec{};
  std::shared_ptr<RepeatedLines> lines{};  // See FetchStreams::Settings.
  // Called when a donor is left because its call failed or made no progress. Its line may drop
  // packets.
  std::function<void(const std::string& donor)> on_failed{};
};

// One header of the run's chain, with the size of its payload as a donor reports it.
struct ChainLink {
  v1::EntryHeader header;
  uint64_t payload_bytes = 0;
};

// Fetches the headers first..last, the newest first. The digest of `last` must be `newest`, the
// digest of every other header must be the one that its successor carries, and each must be signed
// with the run's history key. Calls `done` with all headers in ascending order, with NOT_FOUND if
// every donor lacks the next header, or with UNAVAILABLE if every donor failed.
class ChainFetch {
 public:
  using Done = std::function<void(absl::StatusOr<std::vector<ChainLink>>)>;
  ChainFetch(Env env, FetchSource source, uint64_t first, uint64_t last, const Digest& newest,
             Done done);
  ~ChainFetch();  // Cancels the fetch.
  void SetDonors(const std::vector<std::string>& donors);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// Fetches the payloads of consecutive committed entries with known headers, several at once. Each
// payload is checked against its header, and the entries are handed over in order. After each entry
// the owner must call `next` to get the following one. `on_done` gets OK after the last entry,
// UNAVAILABLE with the last reason if every donor failed, and NOT_FOUND if every donor reports that
// it no longer holds an entry (the owner should then fetch a snapshot instead).
class EntryFetch {
 public:
  struct Events {
    std::function<void(Entry entry, Task next)> on_entry;
    std::function<void(absl::Status)> on_done;
  };
  EntryFetch(Env env, FetchSource source, std::vector<v1::EntryHeader> headers, Events events);
  ~EntryFetch();  // Cancels the fetch.
  void SetDonors(const std::vector<std::string>& donors);
  uint64_t received_bytes() const;
  size_t donors_used() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

struct FetchedSnapshot {
  uint64_t version = 0;
  uint64_t bytes = 0;           // The size of the snapshot.
  uint64_t received_bytes = 0;  // The bytes that the whole fetch has received.
  uint64_t blocks = 0;
  // The number of fetched blocks; this machine already had the others.
  uint64_t blocks_fetched = 0;
  size_t donors = 0;
};

// Fetches a snapshot into `dir` so that Replica::Open finds it. `genesis` comes from the
// coordinator. Blocks with the same leaf are copied from a snapshot that is already in `dir`. A
// partial download is resumed, also after a restart. If no donor has its version any more, the
// download of another version is begun, which reuses its blocks.
class SnapshotFetch {
 public:
  struct Events {
    // Called before any block of a snapshot is fetched, to decide whether the snapshot belongs to
    // the run's history. After the verdict OK it is fetched. UNAVAILABLE means that this cannot be
    // decided now, and ends the fetch. Any other error means that the donor lied or that the
    // snapshot is of no use, and another snapshot is searched for.
    std::function<void(const v1::SnapshotInfo& info, std::function<void(absl::Status)> verdict)>
        confirm;
    std::function<void(uint64_t bytes, uint64_t total)> on_progress;
    std::function<void(absl::StatusOr<FetchedSnapshot>)> on_done;
  };
  // `wanted` are the versions to try, best first, before a donor's newest version.
  SnapshotFetch(Env env, FetchSource source, std::string dir, v1::Genesis genesis,
                std::vector<uint64_t> wanted, Events events);
  ~SnapshotFetch();  // Cancels the fetch.
  void SetDonors(const std::vector<std::string>& donors);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// Fetches one file of the run's spec to its place under `dir` (RunFilePath), durably. The file is
// checked block by block against the digest in the spec, and held in memory until it is complete.
// So only files for which Travels() is true may be fetched. Calls `done` with OK, with NOT_FOUND if
// every donor lacks the file, with UNAVAILABLE if every donor failed, or with an error of this
// machine.
class FileFetch {
 public:
  using Done = std::function<void(absl::Status)>;
  FileFetch(Env env, FetchSource source, std::string dir, int file, Done done);
  ~FileFetch();  // Cancels the fetch.
  void SetDonors(const std::vector<std::string>& donors);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace atolld
