// ReplicaKeeper: keeps a peer's replica at the newest committed version, whatever the peer has
// missed.
//
// It owns the replica and runs all that touches it, one job after another, off the loop: creation,
// commits in order, prepared payloads, state digests, snapshots. What is missing comes from other
// peers: entries while they are offered, else a snapshot. Laws: commits apply in the order of their
// versions; nothing applies while commits are held; the mirror below (version, header_digest)
// changes on the loop alone. Loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "atoll/v1/run.pb.h"
#include "daemon/bytes.h"
#include "daemon/env.h"
#include "daemon/peer/parameter_memory.h"
#include "daemon/replica/replica.h"
#include "daemon/replica/transfer.h"

namespace atolld {

class ReplicaKeeper {
 public:
  struct Events {
    // The replica stands at a version: loaded, made or fetched.
    std::function<void()> on_opened;
    // It has stepped to header.version.
    std::function<void(const v1::EntryHeader& header)> on_committed;
    std::function<void(uint64_t version, const Digest& state)> on_digest;
    // It cannot go on: a full disk, corrupt files, a coordinator with another history. The state on
    // disk is kept.
    std::function<void(absl::Status)> on_broken;
  };

  ReplicaKeeper(Env env, std::string dir, RetentionPolicy retention, Events events);
  ~ReplicaKeeper();

  // Opens what is on disk; OK too if nothing is. Blocking: before the loop runs.
  absl::Status Load();

  bool has_state() const { return replica_ != nullptr && !opening_; }
  uint64_t version() const { return version_; }
  const Digest& header_digest() const { return header_digest_; }
  const v1::Genesis& genesis() const { return genesis_; }
  const ChunkGrid& grid() const { return grid_; }
  std::optional<Digest> StateDigestOf(uint64_t version) const;
  bool syncing() const { return entries_ != nullptr || snapshot_ != nullptr; }

  // Memory for a model of so many parameters; made once. FAILED_PRECONDITION if the replica's
  // number differs.
  absl::Status NeedMemory(uint64_t elements);
  const ParameterMemory* memory() const { return memory_.get(); }

  // Makes version 0 from the update slot, in which the worker has put the initial parameters.
  void Create(v1::Genesis genesis);

  // Who may be asked for what is missing, best first, and how long without progress.
  void SetDonors(std::vector<std::string> donors, absl::Duration failure_timeout);

  // The coordinator's word: the run's genesis and the newest version. Fetches what lies between.
  void Follow(const v1::Genesis& genesis, uint64_t newest);
  // A committed header; applied as soon as its turn comes.
  void Announce(const v1::EntryHeader& header);

  // While held, no commit applies (an evaluation reads theta).
  void HoldCommits(bool hold);

  // Makes `payload` durable as prepared version()+1. `done` tells whether it is.
  void Prepare(SharedBytes payload, std::function<void(absl::Status)> done);

  // Runs `work` when no other job touches the replica or theta, then `done`.
  void RunExclusive(Task work, Task done);

  void Seal(const v1::Seal& seal, std::function<void(absl::Status)> done);

 private:
  void Adopt();
  void Advance();
  void CommitNext(const v1::EntryHeader& header, std::optional<SharedBytes> payload, Task done);
  void OnCommitted(const v1::EntryHeader& header);
  void FetchMissing();
  void FetchEntries(uint64_t last);
  void FetchSnapshot();
  void Reopen();
  void ComputeDigest();
  void AdvanceSnapshots();
  void LeaveDonor(const absl::Status& why);
  void EndFetch();
  void RetryLater();
  void Broken(const absl::Status& status);
  FetchSource Source() const;

  const Env env_;
  const std::string dir_;
  const RetentionPolicy retention_;
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
  std::map<uint64_t, v1::EntryHeader> announced_;
  SharedBytes prepared_;  // what was made durable last, so that a commit need not read it back
  uint64_t prepared_version_ = 0;
  uint64_t newest_ = 0;  // newest version known to be committed
  std::vector<std::string> donors_;
  absl::Duration failure_timeout_ = absl::Seconds(10);
  bool opening_ = false;
  bool committing_ = false;
  bool held_ = false;
  bool snapshotting_ = false;
  bool broken_ = false;
  bool retry_pending_ = false;
  int lacking_ = 0;        // times in a row that all donors lacked the next entry
  Task deferred_;          // a fetched entry's commit, while commits are held
  size_t bad_donors_ = 0;  // in a row whose entry was no successor of our state
  std::unique_ptr<EntryFetch> entries_;
  std::unique_ptr<SnapshotFetch> snapshot_;
  CallbackGuard guard_;
};

}  // namespace atolld
