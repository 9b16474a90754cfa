// CatchUp: fetches from other peers the entries that a replica has missed.
//
// It knows the committed headers after the replica's version. The coordinator reports the newest
// header, and donors give the headers before it; each header carries the digest of its predecessor,
// which confirms the predecessor. To bring the replica to the newest version, CatchUp fetches
// either entries or a snapshot, depending on which takes fewer bytes.
//
// A header is accepted only if the history key has signed it and it continues this replica's
// history; a fork is never followed. CatchUp writes nothing into the replica: it hands over fetched
// entries one at a time and in order, or reports that it has fetched a snapshot into the folder.
// Used on the loop thread.
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

// A peer that may be asked, and its offer.
struct FetchDonor {
  std::string address;
  // Nullopt if the peer has made no offer; it may then have any data.
  std::optional<v1::Offer> offer;
};

std::vector<std::string> AddressesOf(absl::Span<const FetchDonor> donors);

// Returns the versions, from `oldest` to `newest`, of which snapshots are offered, best first. The
// best is the newest version that has at least half as many donors as the most offered one, so that
// several donors can give the snapshot and few entries follow it. The other versions follow, newest
// first.
std::vector<uint64_t> SnapshotsOffered(absl::Span<const FetchDonor> donors, uint64_t oldest,
                                       uint64_t newest);

// These return true if some donor may have the data, because the donor offers it or has made no
// offer.
bool EntryOffered(absl::Span<const FetchDonor> donors, uint64_t version);
bool SnapshotOffered(absl::Span<const FetchDonor> donors, uint64_t oldest, uint64_t newest);

// Returns the size of theta and the outer rule's buffers. The genesis must be sound.
uint64_t SnapshotBytes(const v1::Genesis& genesis);

// Formats bytes for people: "512 B", "12.3 kB", "4.1 MB".
std::string FormatBytes(uint64_t bytes);

// Returns the FAILED_PRECONDITION error for the case that the coordinator reports another header of
// `version` than the replica has.
absl::Status ForkedError(uint64_t version, const std::string& told, const std::string& here);

// Describes that no peer gives the missing data: all peers that could be asked have failed, or no
// peer could be asked. This state ends when data arrives.
struct FetchFailure {
  absl::Time since;  // The time of the first failed attempt.
  std::string why;   // The reason of the last failure.
};

class CatchUp {
 public:
  struct Events {
    // Called when the entry after the replica's version has come. The owner must commit it, then
    // call `next`.
    std::function<void(const Entry& entry, Task next)> on_entry;
    // Called when the snapshot of `version` was fetched into the folder. The owner must open the
    // replica again.
    std::function<void(uint64_t version)> on_snapshot;
    // Called when the known headers or the donors have changed. The owner must commit the next
    // entry if that is possible, or call Fetch().
    std::function<void()> on_change;
    // Called when a donor at this address is left because it did not answer.
    std::function<void(const std::string& address)> on_donor_failed;
  };

  // `replica` must outlive this object.
  CatchUp(Env env, std::string dir, const ReplicaMirror& replica, Events events);
  ~CatchUp();

  bool behind() const { return replica_.version < newest_; }
  bool fetching() const { return entries_ || snapshot_ || chain_; }
  const std::optional<FetchFailure>& failing() const { return failing_; }

  // Sets the peers that may be asked, best first, and how long a fetch may be without progress. A
  // fetch under way uses the new peers at once.
  void SetDonors(std::vector<FetchDonor> donors, absl::Duration failure_timeout);

  // Checks that a committed header which the coordinator has reported is sound and fits the known
  // headers before and after it.
  absl::Status CheckTold(const v1::EntryHeader& header) const;
  // Takes a checked header of an entry after the replica's version.
  void OnTold(const v1::EntryHeader& header);
  void OnNewest(uint64_t version);  // Called when the run has reached `version`.
  // Forgets all reported headers and what was fetched because of them. Called when two headers
  // contradict each other, since either may be false. The next Welcome reports the run's newest
  // version again.
  void Forget();

  // Returns the header of a version after the replica's, or nullptr if it is not known.
  const v1::EntryHeader* Known(uint64_t version) const;

  // Called when the replica is at another version. The entries up to that version are then no
  // longer missing.
  void OnMoved();
  // Called when the replica has stepped by an entry.
  void OnCommitted() { lacking_ = partly_lacking_ = 0; }
  // Called when commits are no longer held. Hands over the entry that came meanwhile, or returns
  // false if no entry came.
  bool Release();

  // Fetches the missing data, unless a fetch is under way or has to wait.
  void Fetch();
  // Like Fetch, for the case that every header up to the newest is known and only payloads are
  // missing.
  void FetchGap();
  void EndEntries();  // Gives up the fetch of entries.
  void End();         // Gives up every fetch.

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

  uint64_t newest_ = 0;  // The newest version that is known to be committed.
  // The known headers after the replica's version: those that the coordinator reported, and those
  // before them that donors gave.
  std::map<uint64_t, v1::EntryHeader> announced_;
  // The payload sizes of these entries, as donors report them.
  std::map<uint64_t, uint64_t> payload_bytes_;
  std::vector<FetchDonor> donors_;
  absl::Duration failure_timeout_ = absl::Seconds(10);
  // The number of failed fetches of the next entry because all donors, or only some of them, lacked
  // it.
  int lacking_ = 0;
  int partly_lacking_ = 0;
  std::optional<FetchFailure> failing_;
  // The most bytes that were ever complete of the snapshot that is being fetched.
  uint64_t snapshot_bytes_ = 0;
  bool retry_pending_ = false;
  Task deferred_;  // The commit of a fetched entry, which waits while commits are held.
  std::unique_ptr<ChainFetch> chain_;
  std::unique_ptr<EntryFetch> entries_;
  std::unique_ptr<SnapshotFetch> snapshot_;
  const std::shared_ptr<RepeatedLines> lines_;
  CallbackGuard guard_;
};

}  // namespace atolld
