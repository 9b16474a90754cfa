// ReplicaKeeper: keeps a peer's replica at the newest committed version, whatever it has missed.
//
// It owns the replica and runs all that touches it, one job after another, off the loop: creation,
// commits in order, prepared payloads, state digests, snapshots. What is missing comes from other
// peers: the headers back from the newest one told, then entries or a snapshot, whichever is fewer
// bytes. A replica whose state is not what the next header says is repaired: from its own snapshot
// and log, else by the blocks that others hold. Laws: commits apply in order; nothing applies while
// they are held; the mirror below (version, header_digest) changes on the loop alone. Loop thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "atoll/v1/membership.pb.h"
#include "daemon/env/env.h"
#include "daemon/peer/keeper_events.h"
#include "daemon/peer/keeper_state.h"
#include "daemon/peer/parameter_memory.h"
#include "daemon/replica/state/replica.h"
#include "daemon/replica/state/retention.h"

namespace atolld {

class ReplicaKeeper {
 public:
  using Events = KeeperEvents;

  ReplicaKeeper(Env env, std::string dir, const RetentionPolicy& retention, Events events);
  ~ReplicaKeeper();

  // Opens what is on disk; OK too if nothing is. Blocking: before the loop runs.
  absl::Status Load();

  bool has_state() const { return replica_ != nullptr && !opening_ && !repair_; }
  // What others are told: while the replica is opened again, it holds what it held before.
  bool holds_state() const { return has_state() || reopens_; }
  uint64_t version() const { return version_; }
  const Digest& header_digest() const { return header_digest_; }
  const v1::Genesis& genesis() const { return genesis_; }
  const ChunkGrid& grid() const { return grid_; }
  std::optional<Digest> StateDigestOf(uint64_t version) const;
  bool behind() const { return version_ < sync_.newest; }
  bool syncing() const { return fetching() || repair_.has_value(); }
  const std::optional<FetchFailure>& failing() const { return sync_.failing; }
  // What others may fetch from here; nothing without a state.
  const std::optional<v1::Offer>& offer() const { return offer_; }
  void SetBusy(bool busy) { retention_.SetBusy(busy); }  // with the peer's own exchange

  // Memory for so many parameters; made once. FAILED_PRECONDITION if the replica has others.
  absl::Status NeedMemory(uint64_t elements);
  const ParameterMemory* memory() const { return memory_.get(); }

  // Makes version 0 from the update slot, in which the worker has put the initial parameters.
  void Create(v1::Genesis genesis);

  // Who may be asked for what is missing, best first, and how long without progress.
  void SetDonors(std::vector<FetchDonor> donors, absl::Duration failure_timeout);

  // The coordinator's word with the run's genesis: the newest version. Fetches what lies between.
  void Follow(const v1::Welcome& welcome);
  // A committed header, applied when its turn comes. False: refused, it is another history's.
  bool Announce(const v1::EntryHeader& header);

  void HoldCommits(bool hold);  // while held none applies: an evaluation reads theta
  // The state of version() must be this one (a seal or most votes say so): repairs it if it is not.
  void Require(const Digest& state);
  void Audit();  // others hold another state, nobody knows which is right: makes it again from disk
  // Makes `payload` durable as prepared version()+1. `done` tells whether it is.
  void Prepare(SharedBytes payload, std::function<void(absl::Status)> done);

  // Runs `work` when no other job touches the replica or theta, then `done`.
  void RunExclusive(Task work, Task done);
  // The same with the replica as it is then, if there is one; `done` gets its version.
  void ReadNewest(std::function<void(const Replica&)> work, std::function<void(uint64_t)> done);
  void Seal(const v1::Seal& seal, std::function<void(absl::Status)> done);

 private:
  void Adopt();
  void Advance();
  void CommitNext(const v1::EntryHeader& header, std::optional<SharedBytes> payload, Task done);
  void OnCommitted(const v1::EntryHeader& header);
  void ComputeDigest();
  void Retain();
  void RetainLater();
  void ReadOffer();
  void SetOffer(const v1::Offer& offer);
  void AfterPass(bool save, uint64_t header_allowance);
  void RetryLater(const absl::Status& why);
  void NoteFailing(const std::string& why);
  void Broken(const absl::Status& status);
  absl::Status CheckTold(const v1::EntryHeader& header) const;
  void RefuseHistory(const absl::Status& why);

  // replica_sync.cc: what is missing comes from others.
  bool fetching() const { return sync_.entries || sync_.snapshot || sync_.chain; }
  FetchSource Source() const;
  void FetchMissing();
  void FetchChain(uint64_t first, std::function<void(absl::Status)> done);
  void FetchGap();
  bool SnapshotIsCheaper(absl::Span<const v1::EntryHeader> headers) const;
  uint64_t EntryBytes(uint64_t version) const;
  void FetchEntries(std::vector<v1::EntryHeader> headers);
  void FetchSnapshot();
  void Confirm(const v1::SnapshotInfo& info, std::function<void(absl::Status)> verdict);
  absl::Status CompareState(const v1::SnapshotInfo& info) const;
  void EndFetch();

  // replica_repair.cc: the state is opened anew.
  void Reopen();
  void OpenFromDisk();
  void OnReopened(absl::StatusOr<std::unique_ptr<Replica>> replica);
  void Opened();
  void OnDrift(const Digest& state, const Digest& expected);
  void Remake(std::optional<Digest> expected);
  void CheckRepair();
  void AskOthers(const absl::Status& why);

  const Env env_;
  const std::string dir_;
  const Events events_;

  // Touched by jobs on the queue; by the loop only while the queue is idle.
  std::unique_ptr<ParameterMemory> memory_;
  std::unique_ptr<Replica> replica_;

  // Loop thread.
  SerialQueue queue_;
  v1::Genesis genesis_;
  ChunkGrid grid_;
  uint64_t version_ = 0;
  Digest header_digest_{};
  std::map<uint64_t, Digest> state_digests_;
  SharedBytes prepared_;  // what was made durable last, so that a commit need not read it back
  uint64_t prepared_version_ = 0;
  std::optional<v1::Offer> offer_;
  KeeperSync sync_;
  std::optional<KeeperRepair> repair_;
  bool opening_ = false, open_waits_ = false;  // for the pass of retention that is under way
  KeeperRetention keeping_;
  bool committing_ = false, held_ = false, broken_ = false, reopens_ = false;
  Retention retention_;
  CallbackGuard guard_;
};

}  // namespace atolld
