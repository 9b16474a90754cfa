// ReplicaKeeper: keeps a peer's replica at the newest committed version, whatever it has missed.
//
// It holds the replica and serialises every step that touches it, one job after another, off the
// loop: creation, commits in order, prepared payloads, state digests, snapshots. CatchUp brings
// what is missing, ReplicaUpkeep looks after the folder. A replica whose state is not what the next
// header says is repaired: from its own snapshot and log, else by the blocks that others hold.
// Laws: commits apply in order; nothing applies while they are held; the mirror (version,
// header_digest and the like) changes on the loop alone. Loop thread.
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
  // All on the loop. A replica that comes to stand at a version by other ways than a commit says
  // on_skipped for the entries that it was led past, then on_opened, then on_digest.
  struct Events {
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
    // The version 0 that was here is not the run's, and is gone. on_opened follows when the run's
    // has come.
    std::function<void()> on_dropped;
    // What offer() says has changed.
    std::function<void()> on_offer;
    // It cannot go on: a full disk, corrupt files. The state on disk is kept.
    std::function<void(absl::Status)> on_broken;
    // What the coordinator told is no continuation of what is here; it is forgotten, and the
    // replica stands as it was.
    std::function<void(absl::Status)> on_refused;
  };

  ReplicaKeeper(Env env, std::string dir, const RetentionPolicy& retention, Events events);
  ~ReplicaKeeper();

  // Opens what is on disk; OK too if nothing is. Blocking: before the loop runs.
  absl::Status Load();

  bool has_state() const { return mirror_.has_state(); }
  // What others are told: while the replica is opened again, it holds what it held before.
  bool holds_state() const { return has_state() || reopens_; }
  uint64_t version() const { return mirror_.version; }
  const Digest& header_digest() const { return mirror_.header_digest; }
  const std::optional<v1::EntryHeader>& header() const { return mirror_.header; }
  const v1::Genesis& genesis() const { return mirror_.genesis; }
  // Of the vector of the next entry, and where that lies in the flat vector.
  const ChunkGrid& grid() const { return mirror_.grid; }
  const Fragments& fragments() const { return mirror_.fragments; }
  std::optional<Digest> StateDigestOf(uint64_t version) const {
    return mirror_.StateDigestOf(version);
  }
  bool behind() const { return catch_up_.behind(); }
  bool syncing() const { return catch_up_.fetching() || mirror_.repair.has_value(); }
  const std::optional<FetchFailure>& failing() const { return catch_up_.failing(); }
  // What others may fetch from here; nothing without a state.
  const std::optional<v1::Offer>& offer() const { return upkeep_.offer(); }
  void SetBusy(bool busy) { upkeep_.SetBusy(busy); }  // with the peer's own exchange

  // Memory for so many parameters; made once. FAILED_PRECONDITION if the replica has others.
  absl::Status NeedMemory(uint64_t elements);
  const ParameterMemory* memory() const { return memory_.get(); }

  // Makes version 0 from the update slot, in which the worker has put the initial parameters.
  void Create(v1::Genesis genesis);
  // The same from a branch file (branch_file.h), with the buffers that come along.
  void CreateFromBranch(v1::Genesis genesis, const std::string& path);

  // Who may be asked for what is missing, best first, and how long without progress.
  void SetDonors(std::vector<FetchDonor> donors, absl::Duration failure_timeout);

  // The coordinator's word with the run's genesis: the newest version. Fetches what lies between.
  void Follow(const v1::Welcome& welcome);
  void FollowNone();  // the run has no version 0 now: what one was told is none
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
  using MakeReplica = std::function<absl::StatusOr<std::unique_ptr<Replica>>()>;
  void Make(MakeReplica make);  // version 0
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

  // The state is opened anew: a snapshot has come, or it is repaired.
  absl::StatusOr<std::unique_ptr<Replica>> Open();
  void ShowControl(const Replica& replica);  // to the worker
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
  ReplicaMirror mirror_;
  bool reopens_ = false;             // what was held before
  bool drops_ = false;               // what was held before
  std::optional<v1::Genesis> told_;  // by the coordinator, last
  SharedBytes prepared_;  // what was made durable last, so that a commit need not read it back
  uint64_t prepared_version_ = 0;
  ReplicaUpkeep upkeep_;
  CatchUp catch_up_;
  CallbackGuard guard_;
};

}  // namespace atolld
