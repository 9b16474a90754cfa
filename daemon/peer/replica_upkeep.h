// ReplicaUpkeep: keeps a peer's log and snapshots in order while the replica goes on, and knows
// what others may fetch from here.
//
// Beside it stand the two things that it shares with those that look after the same replica: the
// mirror of what the loop knows of it, and how far a repair is. Loop thread.
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

// The repair of a replica that has drifted, or may have: what its state should have been, and how
// far it is.
//
// It goes from cheap to dear: the own snapshot and log first, which suffices when only the memory
// was spoiled; then a snapshot from others, of which only the blocks are fetched that differ from
// what is on this disk; at last without the own log. What is put aside stays on the disk.
class ReplicaRepair {
 public:
  // `expected`: of the state of `version`; not known: what the own disk leads to is believed.
  ReplicaRepair(uint64_t version, std::optional<Digest> expected)
      : version_(version), expected_(std::move(expected)) {}

  uint64_t version() const { return version_; }
  const std::optional<Digest>& expected() const { return expected_; }

  // Whether it waits for a snapshot from others. Error: so many were fetched that it is given up.
  bool asks_others() const { return asks_others_; }
  absl::Status AskOthers(const absl::Status& why);
  void OnFetched(uint64_t version);  // the snapshot of `version` lies in the folder

  // Puts aside what may have been wrong before the replica in `dir` is opened again. Blocking.
  absl::Status SetAside(Files& files, const std::string& dir) const;

  // The replica was opened again at `version` with `state`: is it the history's now?
  bool Accepts(uint64_t version, const Digest& state) const;
  // What it came to, for the log.
  std::string Outcome(uint64_t version, const Digest& state) const;

 private:
  uint64_t version_;
  std::optional<Digest> expected_;
  bool asks_others_ = false;
  int fetches_ = 0;               // snapshots that were fetched for it
  uint64_t fetched_version_ = 0;  // of the last of them
};

// What the loop knows of the replica, whichever job is at work on it. Its ReplicaKeeper alone
// writes it.
struct ReplicaMirror {
  v1::Genesis genesis;  // without a state digest: the run's version 0 is not known yet
  ChunkGrid grid;       // of the vector of the next entry
  Fragments fragments;  // what entries cover
  uint64_t version = 0;
  Digest header_digest{};
  std::optional<v1::EntryHeader> header;     // of `version`; none of version 0
  std::map<uint64_t, Digest> state_digests;  // of the newest versions
  std::optional<ReplicaRepair> repair;

  bool present = false;     // there is one, or it is being opened again
  bool opening = false;     // nobody may use it
  bool committing = false;  // the next entry
  bool held = false;        // nothing is committed: an evaluation reads theta
  bool broken = false;      // it cannot go on

  bool has_state() const { return present && !opening && !repair; }
  std::optional<Digest> StateDigestOf(uint64_t of_version) const;
};

class ReplicaUpkeep {
 public:
  struct Events {
    std::function<void()> on_offer;  // what offer() says has changed
    std::function<void()> on_free;   // see FreeToOpen
    // Runs `work` when no other job touches the replica (nullptr: none is open), then `done`.
    std::function<void(std::function<void(Replica*)> work, Task done)> run;
  };

  // `mirror` outlives it.
  ReplicaUpkeep(Env env, std::string dir, const RetentionPolicy& policy,
                const ReplicaMirror& mirror, Events events);
  ~ReplicaUpkeep();

  // What others may fetch from here; nothing without a state.
  const std::optional<v1::Offer>& offer() const { return offer_; }
  void OnDropped() { offer_.reset(); }  // the replica is gone
  void LoadOffer();                     // from the folder. Blocking: before the loop runs
  void ReadOffer();                     // the same on the pool

  void SetBusy(bool busy) { retention_.SetBusy(busy); }  // with the peer's own exchange

  // The digest of the replica's version is known: a pass of retention begins, after the one that is
  // under way. None runs while the replica is opened anew: both move the folder's files.
  void Retain();

  // The replica has stepped: its last header has confirmed the state before.
  void OnCommitted();

  // Whether no pass is under way, so that the replica may be opened anew. Where one is, it hurries;
  // on_free comes when it is over.
  bool FreeToOpen();

  // The disk can make no snapshot any more, and the state in memory is to be saved once it is
  // confirmed. DropSave: the disk was right. TakeSave: it is confirmed now (a seal); true: the
  // caller saves the state and then tells how that went.
  void DropSave() { save_ = false; }
  bool TakeSave() { return !under_way_ && std::exchange(save_, false); }
  void TellSaved(const absl::Status& saved);

 private:
  void RetainLater();
  void AfterPass(bool save, uint64_t header_allowance);
  void SetOffer(const v1::Offer& offer);

  const Env env_;
  const std::string dir_;
  const ReplicaMirror& mirror_;
  const Events events_;

  std::optional<v1::Offer> offer_;
  bool under_way_ = false;     // a pass, or what follows it
  bool again_ = false;         // another then
  bool save_ = false;          // once the next header has confirmed the state in memory
  bool opener_waits_ = false;  // for the pass that is under way
  std::optional<Executor::TimerId> retry_;  // of a pass that failed
  Retention retention_;
  CallbackGuard guard_;
};

}  // namespace atolld
