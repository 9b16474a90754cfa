// CatchUp: fetches from other peers what a replica has missed.
//
// It knows the committed headers that are still to come: the coordinator tells the newest, and the
// headers back from there come from donors, each vouched for by its successor. Between the replica
// and the newest it fetches entries or a snapshot, whichever is fewer bytes. A header is taken in
// only if the history key has signed it and it continues what is held here; a fork is never
// followed. It writes nothing into the replica: it hands over what has come, an entry at a time and
// in order, or a snapshot that lies in the folder. Loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/run.pb.h"
#include "daemon/env/env.h"
#include "daemon/peer/replica_upkeep.h"
#include "daemon/replica/transfer/transfer.h"

namespace atolld {

// A peer that may be asked, and what it has said that it can give.
struct FetchDonor {
  std::string address;
  std::optional<v1::Offer> offer;  // not told: it may have anything
};

std::vector<std::string> AddressesOf(absl::Span<const FetchDonor> donors);

// The snapshots that are offered between `oldest` and `newest`, best first: the newest that at
// least half as many offer as the most offered one, so that several can give it and the tail is
// short; then the others, newest first.
std::vector<uint64_t> SnapshotsOffered(absl::Span<const FetchDonor> donors, uint64_t oldest,
                                       uint64_t newest);

// Whether anybody may have it: offers it, or has not told.
bool EntryOffered(absl::Span<const FetchDonor> donors, uint64_t version);
bool SnapshotOffered(absl::Span<const FetchDonor> donors, uint64_t oldest, uint64_t newest);

// Of theta and the outer rule's buffers. The genesis must be sound.
uint64_t SnapshotBytes(const v1::Genesis& genesis);

// For people: "512 B", "12.3 kB", "4.1 MB".
std::string FormatBytes(uint64_t bytes);

// FAILED_PRECONDITION: the coordinator tells another header of `version` than the one here.
absl::Status ForkedError(uint64_t version, const std::string& told, const std::string& here);

// Nobody gives what is missing: all that could be asked have failed, or nobody could be asked.
// Something that comes ends it.
struct FetchFailure {
  absl::Time since;  // the first attempt that failed
  std::string why;   // the last
};

class CatchUp {
 public:
  struct Events {
    // The entry after the replica's version: commit it, then call `next`.
    std::function<void(const Entry& entry, Task next)> on_entry;
    // The snapshot of `version` lies in the folder: open the replica again.
    std::function<void(uint64_t version)> on_snapshot;
    // What is known or may be asked for has changed: commit what Next() gives, or Fetch().
    std::function<void()> on_change;
  };

  // `replica` outlives it.
  CatchUp(Env env, std::string dir, const ReplicaMirror& replica, Events events);
  ~CatchUp();

  bool behind() const { return replica_.version < newest_; }
  bool fetching() const { return entries_ || snapshot_ || chain_; }
  const std::optional<FetchFailure>& failing() const { return failing_; }

  // Who may be asked, best first, and how long without progress. It helps with what is under way.
  void SetDonors(std::vector<FetchDonor> donors, absl::Duration failure_timeout);

  // Whether a committed header that is told is sound by itself, and fits its neighbours as far as
  // they are known.
  absl::Status CheckTold(const v1::EntryHeader& header) const;
  void OnTold(const v1::EntryHeader& header);  // checked; it is still to come
  void OnNewest(uint64_t version);             // so far has the run come
  // What was told is not to be believed. It is forgotten, and with it what is held of it: of two
  // headers that contradict each other either may be the false one. The next Welcome says anew what
  // there is to come.
  void Forget();

  // A header that is known and still to come, nullptr: it is not known.
  const v1::EntryHeader* Known(uint64_t version) const;

  // The replica stands elsewhere: what it has reached is no longer missing.
  void OnMoved();
  // It has stepped by an entry.
  void OnCommitted() { lacking_ = partly_lacking_ = 0; }
  // Its commits are no longer held: hands over an entry that came meanwhile. False: none did.
  bool Release();

  // Fetches what is missing, unless that is under way, or has to wait.
  void Fetch();
  // The same, where every header up to the newest is known and the payloads are not here.
  void FetchGap();
  void EndEntries();  // gives up the entries that come
  void End();         // gives up all that is under way

 private:
  FetchSource Source() const;
  void FetchChain(uint64_t first, std::function<void(absl::Status)> done);
  bool SnapshotIsCheaper(absl::Span<const v1::EntryHeader> headers) const;
  uint64_t EntryBytes(uint64_t version) const;
  void FetchEntries(std::vector<v1::EntryHeader> headers);
  void CountLacking(const absl::Status& status);
  bool EntryIsGone() const;
  void FetchSnapshot();
  void OnSnapshot(const absl::StatusOr<FetchedSnapshot>& fetched);
  void Confirm(const v1::SnapshotInfo& info, std::function<void(absl::Status)> verdict);
  absl::Status CompareState(const v1::SnapshotInfo& info) const;
  void NoteFailing(const std::string& why);
  void SayBegun(Log::Level level, const std::string& line);
  void SayAgain(Log::Level level, const std::string& line);
  void RetryLater(const absl::Status& why);

  const Env env_;
  const std::string dir_;
  const ReplicaMirror& replica_;
  const Events events_;

  uint64_t newest_ = 0;  // newest version known to be committed
  // Committed headers to come: the coordinator's, and those that lead back from them.
  std::map<uint64_t, v1::EntryHeader> announced_;
  std::map<uint64_t, uint64_t> payload_bytes_;  // of entries to come, as donors say
  std::vector<FetchDonor> donors_;
  absl::Duration failure_timeout_ = absl::Seconds(10);
  // How often all donors, or some, lacked the next entry and nobody gave it.
  int lacking_ = 0;
  int partly_lacking_ = 0;
  std::optional<FetchFailure> failing_;
  uint64_t snapshot_bytes_ = 0;  // most that was here of one that is being fetched
  bool retry_pending_ = false;
  Task deferred_;  // a fetched entry's commit, while commits are held
  std::unique_ptr<ChainFetch> chain_;
  std::unique_ptr<EntryFetch> entries_;
  std::unique_ptr<SnapshotFetch> snapshot_;
  const std::shared_ptr<RepeatedLines> lines_;
  CallbackGuard guard_;
};

}  // namespace atolld
