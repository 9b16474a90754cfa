// ReplicaKeeper: keeps a peer's replica at the newest committed version, even if the peer has
// missed entries.
//
// It holds the replica and runs every step that touches it as a job off the loop, one job after
// another: creation, commits, prepared payloads, state digests and snapshots. CatchUp fetches what
// is missing, and ReplicaUpkeep looks after the folder. If the next header shows that the state is
// wrong, the replica is repaired: from its own snapshot and log if possible, otherwise with blocks
// that other peers hold. The class has more than forty methods because a peer uses its replica only
// through this class: some methods read the replica's present state, and each step that changes the
// replica has a method. Laws: commits apply in order; no entry is committed while commits are held;
// the mirror (version, header_digest and so on) changes only on the loop. Used on the loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/run.pb.h"
#include "daemon/env/env.h"
#include "daemon/peer/catch_up.h"
#include "daemon/peer/parameter_memory.h"
#include "daemon/peer/replica_upkeep.h"
#include "daemon/replica/state/replica.h"
#include "membership/history/digest.h"

namespace atolld {

class ReplicaKeeper {
 public:
  // All events are called on the loop. If the replica reaches a version in another way than by a
  // commit, on_skipped is called for the entries that it has passed, then on_opened, then
  // on_digest.
  struct Events {
    // Called when the replica, by a snapshot, has skipped the entry of this header; on_opened
    // follows. No call is made for headers that no peer could give.
    std::function<void(const v1::EntryHeader& header)> on_skipped;
    // Called when the replica was loaded, made, fetched or repaired.
    std::function<void()> on_opened;
    // Called when the replica has stepped to header.version.
    std::function<void(const v1::EntryHeader& header)> on_committed;
    std::function<void(uint64_t version, const Digest& state)> on_digest;
    // Called when the state of `version` differs from the history's. The replica is then being
    // repaired.
    std::function<void(uint64_t version, const Digest& state, const Digest& expected)> on_drift;
    // Called when the replica was removed because its version 0 is not the run's. on_opened follows
    // when the run's version 0 was fetched.
    std::function<void()> on_dropped;
    // Called when offer() has changed.
    std::function<void()> on_offer;
    // Called when a donor at this address is left because it did not answer.
    std::function<void(const std::string& address)> on_donor_failed;
    // Called when the replica cannot continue, because of a full disk or corrupt files. The state
    // on disk is kept.
    std::function<void(absl::Status)> on_broken;
    // Called when the history that the coordinator has reported does not continue this replica's.
    // The reported history is forgotten, and the replica is unchanged.
    std::function<void(absl::Status)> on_refused;
  };

  ReplicaKeeper(Env env, std::string dir, const RetentionPolicy& retention, Events events);
  ~ReplicaKeeper();

  // Opens the replica on disk. If the folder has no replica, returns OK. This call blocks and is
  // made before the loop runs.
  absl::Status Load();

  bool has_state() const { return mirror_.has_state(); }
  // Like has_state, but also true while a replica that had a state is being opened again. This is
  // the answer for other peers.
  bool holds_state() const { return has_state() || reopens_; }
  uint64_t version() const { return mirror_.version; }
  const Digest& header_digest() const { return mirror_.header_digest; }
  const std::optional<v1::EntryHeader>& header() const { return mirror_.header; }
  const v1::Genesis& genesis() const { return mirror_.genesis; }
  // The grid of the next entry's vector, and where that vector lies in the flat vector.
  const ChunkGrid& grid() const { return mirror_.grid; }
  const Fragments& fragments() const { return mirror_.fragments; }
  std::optional<Digest> StateDigestOf(uint64_t version) const {
    return mirror_.StateDigestOf(version);
  }
  bool behind() const { return catch_up_.behind(); }
  bool syncing() const { return catch_up_.fetching() || mirror_.repair.has_value(); }
  const std::optional<FetchFailure>& failing() const { return catch_up_.failing(); }
  // The data that others may fetch from this peer; nullopt without a state.
  const std::optional<v1::Offer>& offer() const { return upkeep_.offer(); }
  // Tells whether the peer's own exchange is under way.
  void SetBusy(bool busy) { upkeep_.SetBusy(busy); }

  // Makes the parameter memory for this number of parameters, if there is none yet. Fails with
  // FAILED_PRECONDITION if the replica has another number of parameters.
  absl::Status NeedMemory(uint64_t elements);
  // Sets the memory file, which the worker inherits, for the parameter memory, and the folder for
  // the outer rule's buffers (Replica::Create). Called before any other function.
  void ShareMemory(std::shared_ptr<MemoryFile> file, const std::string& buffer_folder) {
    shared_ = std::move(file);
    buffer_folder_ = buffer_folder;
  }
  const ParameterMemory* memory() const { return memory_.get(); }

  // Makes version 0 from the update slot, into which the worker has put the initial parameters.
  void Create(v1::Genesis genesis);
  // Makes version 0 from a branch file (branch_file.h), with the outer rule's buffers that it
  // contains.
  void CreateFromBranch(v1::Genesis genesis, const std::string& path);

  // Sets the peers that may be asked for missing data, best first, and how long a fetch may be
  // without progress.
  void SetDonors(std::vector<FetchDonor> donors, absl::Duration failure_timeout);

  // Called at each Welcome, which has the run's genesis and its newest version. Fetches what the
  // replica lacks.
  void Follow(const v1::Welcome& welcome);
  // Called when the run has no version 0. Forgets the genesis that was reported before.
  void FollowNone();
  // Takes a committed header, which is applied when its turn comes. Returns false if it is refused
  // because it belongs to another history.
  bool Announce(const v1::EntryHeader& header);

  // While commits are held, no entry is committed, so that an evaluation can read theta.
  void HoldCommits(bool hold);
  // Called when a seal or most votes say that the state of version() is `state`. Repairs the
  // replica if its state differs.
  void Require(const Digest& state);
  // Called when other peers hold another state and it is unknown which one is right. Makes the
  // state again from disk.
  void Audit();
  // Makes `payload` durable as the prepared payload of version()+1. Calls `done` with OK if it is
  // durable.
  void Prepare(SharedBytes payload, std::function<void(absl::Status)> done);

  // Runs `work` when no other job touches the replica or theta, then `done`.
  void RunExclusive(Task work, Task done);
  // Like RunExclusive, but passes the replica to `work`, and then its version to `done`. If there
  // is no replica, `work` is not called.
  void ReadNewest(std::function<void(const Replica&)> work, std::function<void(uint64_t)> done);
  void Seal(const v1::Seal& seal, std::function<void(absl::Status)> done);

 private:
  using MakeReplica = std::function<absl::StatusOr<std::unique_ptr<Replica>>()>;
  ReplicaUpkeep::Events UpkeepEvents();
  CatchUp::Events CatchUpEvents();
  void Make(MakeReplica make);  // Makes version 0.
  void Adopt();
  bool IsAnotherRuns() const;
  void Drop();
  void Remove();
  void Advance();
  void CommitNext(const v1::EntryHeader& header, std::optional<SharedBytes> payload, Task done);
  void OnCommitted(const v1::EntryHeader& header);
  void ComputeDigest();
  void CompareWithLog(const v1::EntryHeader& header);
  void RefuseHistory(const absl::Status& why);
  void Broken(const absl::Status& status);

  // Opens the replica again, because a snapshot was fetched or the state is being repaired.
  absl::StatusOr<std::unique_ptr<Replica>> Open();
  // Copies the common control variate into the memory that the worker shares.
  absl::Status ShowControl(const Replica& replica);
  void Run(Task work, Task done);
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

  // Used by jobs on the queue, and on the loop only while the queue is idle.
  std::shared_ptr<MemoryFile> shared_;  // If null, NeedMemory makes one.
  std::string buffer_folder_;
  std::unique_ptr<ParameterMemory> memory_;
  std::unique_ptr<Replica> replica_;

  // Used on the loop thread.
  SerialQueue queue_;
  ReplicaMirror mirror_;
  bool reopens_ = false;             // True while a replica that had a state is being opened again.
  bool drops_ = false;               // True while the replica is being dropped.
  std::optional<v1::Genesis> told_;  // The genesis that the coordinator has last reported.
  // The payload that was made durable last. It is kept so that a commit need not read it from the
  // disk.
  SharedBytes prepared_;
  uint64_t prepared_version_ = 0;
  ReplicaUpkeep upkeep_;
  CatchUp catch_up_;
  CallbackGuard guard_;
};

}  // namespace atolld
