// ReplicaUpkeep: keeps a peer's log and snapshots in order while the replica advances, and knows
// what other peers may fetch from this peer.
//
// This header also has two types that ReplicaUpkeep, ReplicaKeeper and CatchUp share: the mirror of
// the replica's state on the loop, and the progress of a repair. Used on the loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "atoll/v1/run.pb.h"
#include "daemon/env/env.h"
#include "daemon/replica/state/replica.h"
#include "daemon/replica/state/retention.h"
#include "membership/history/digest.h"
#include "membership/history/fragment.h"
#include "membership/history/payload.h"

namespace atolld {

// The repair of a replica whose state is wrong or may be wrong: the state that the replica should
// have, and the progress of the repair.
//  It tries cheap means first. The first is the replica's own snapshot and log, which suffice if
// only the memory was corrupt. The second is a snapshot from other peers, of which only those
// blocks are fetched that differ from the blocks on this disk. The last is such a snapshot, with
// the replica's own log set aside. Files that are set aside are kept on the disk.
class ReplicaRepair {
 public:
  // `expected` is the digest of the state of `version`. If it is not known, the state to which the
  // replica's own disk leads is taken as right.
  ReplicaRepair(uint64_t version, std::optional<Digest> expected)
      : version_(version), expected_(std::move(expected)) {}

  uint64_t version() const { return version_; }
  const std::optional<Digest>& expected() const { return expected_; }

  // asks_others() is true if the repair waits for a snapshot from other peers. AskOthers fails if
  // the repair is given up because too many snapshots were fetched.
  bool asks_others() const { return asks_others_; }
  absl::Status AskOthers(const absl::Status& why);
  // Called when the snapshot of `version` was fetched into the folder.
  void OnFetched(uint64_t version);

  // Sets aside the files that may be wrong before the replica in `dir` is opened again. This call
  // blocks.
  absl::Status SetAside(Files& files, const std::string& dir) const;

  // Called when the replica was opened again at `version` with `state`. Returns true if that is the
  // history's state.
  bool Accepts(uint64_t version, const Digest& state) const;
  // Returns the outcome of the repair, for the log.
  std::string Outcome(uint64_t version, const Digest& state) const;

 private:
  uint64_t version_;
  std::optional<Digest> expected_;
  bool asks_others_ = false;
  int fetches_ = 0;               // The number of snapshots that were fetched for the repair.
  uint64_t fetched_version_ = 0;  // The version of the last fetched snapshot.
};

// The loop's view of the replica, which may be used while a job works on the replica. Only its
// ReplicaKeeper writes it.
struct ReplicaMirror {
  v1::Genesis genesis;  // Has no state digest while the run's version 0 is not known.
  ChunkGrid grid;       // The grid of the next entry's vector.
  Fragments fragments;  // The fragments that entries cover.
  uint64_t version = 0;
  Digest header_digest{};
  std::optional<v1::EntryHeader> header;     // The header of `version`; nullopt for version 0.
  std::map<uint64_t, Digest> state_digests;  // The state digests of the newest versions.
  std::optional<ReplicaRepair> repair;

  bool present = false;     // True if there is a replica, also while it is being opened again.
  bool opening = false;     // True while the replica is being opened; it must not be used then.
  bool committing = false;  // True while the next entry is being committed.
  bool held = false;    // True while no entry may be committed because an evaluation reads theta.
  bool broken = false;  // True if the replica cannot continue.

  bool has_state() const { return present && !opening && !repair; }
  std::optional<Digest> StateDigestOf(uint64_t of_version) const;
};

class ReplicaUpkeep {
 public:
  struct Events {
    std::function<void()> on_offer;  // Called when offer() has changed.
    std::function<void()> on_free;   // See FreeToOpen.
    // Runs `work` when no other job touches the replica, then `done`. `work` gets nullptr if no
    // replica is open.
    std::function<void(std::function<void(Replica*)> work, Task done)> run;
  };

  // `mirror` must outlive this object.
  ReplicaUpkeep(Env env, std::string dir, const RetentionPolicy& policy,
                const ReplicaMirror& mirror, Events events);
  ~ReplicaUpkeep();

  // The data that others may fetch from this peer; nullopt without a state.
  const std::optional<v1::Offer>& offer() const { return offer_; }
  void OnDropped() { offer_.reset(); }  // Called when the replica was dropped.
  void LoadOffer();  // Reads offer() from the folder. Blocks; called before the loop runs.
  void ReadOffer();  // Like LoadOffer, but reads on the pool.

  // Tells whether the peer's own exchange is under way.
  void SetBusy(bool busy) { retention_.SetBusy(busy); }

  // Called when the digest of the replica's version is known. Starts a pass of retention once the
  // pass under way is over. No pass runs while the replica is being opened again, since both rename
  // and remove files in the folder.
  void Retain();

  // Called when the replica has stepped. Its new header has then confirmed the previous state.
  void OnCommitted();

  // Returns true if no pass is under way, so that the replica may be opened again. Otherwise makes
  // the pass hurry, and on_free is called when the pass is over.
  bool FreeToOpen();

  // These functions are for the case that no snapshot can be made from the disk any more, so that
  // the state in memory must be saved once it is confirmed. Call DropSave if the disk was right.
  // Call TakeSave when a seal has confirmed the state: if it returns true, the caller must save the
  // state and then call TellSaved.
  void DropSave() { save_ = false; }
  bool TakeSave() { return !under_way_ && std::exchange(save_, false); }
  void TellSaved(const absl::Status& saved);

 private:
  Retention::Events RetentionEvents();
  void RetainLater();
  void AfterPass(bool save, uint64_t header_allowance);
  void SetOffer(const v1::Offer& offer);

  const Env env_;
  const std::string dir_;
  const ReplicaMirror& mirror_;
  const Events events_;

  std::optional<v1::Offer> offer_;
  bool under_way_ = false;  // True while a pass, or the work after a pass, is under way.
  bool again_ = false;      // True if another pass must follow the pass under way.
  // True if the state in memory must be saved once the next header confirms it.
  bool save_ = false;
  bool opener_waits_ = false;               // True if on_free must be called when the pass is over.
  std::optional<Executor::TimerId> retry_;  // The timer for the retry of a failed pass.
  Retention retention_;
  CallbackGuard guard_;
};

}  // namespace atolld
