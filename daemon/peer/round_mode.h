// RoundMode: how a peer behaves in the run's mode. The mode decides from which parameters a
// training begins, and what happens to the training when an entry is committed meanwhile.
//
// There is one class for each kind of behaviour, and only Of looks at the run's mode. In modes
// "sync" and "async" the worker begins from theta, and its base moves with theta while it trains;
// its parameters do not. In mode "delayed" its base moves at the end of its steps. In mode "eager"
// it begins from a guess of the entry on its way (eager_guess.h). In mode "streaming" it keeps
// parameters of its own from round to round and merges each entry into them (worker.proto, Merge).
// Used on the loop thread.
#pragma once

#include <memory>
#include <string>

#include "atoll/v1/membership.pb.h"
#include "atoll/v1/run.pb.h"
#include "atoll/v1/worker.pb.h"
#include "daemon/peer/eager_guess.h"
#include "daemon/peer/own_update.h"
#include "daemon/peer/peer_training.h"
#include "daemon/peer/replica_keeper.h"
#include "daemon/peer/worker.h"

namespace atolld {

class RoundMode {
 public:
  // The parts of a peer's round that a mode reads and changes. They must outlive the RoundMode.
  struct Parts {
    ReplicaKeeper& keeper;
    Worker& worker;
    OwnUpdate& own;
    PeerTraining& training;
  };

  static std::unique_ptr<RoundMode> Of(const v1::RunSpec& spec, Parts parts);
  virtual ~RoundMode() = default;

  // The guess from which a training beside an offered update begins; null in modes without guesses.
  virtual EagerGuess* guess() { return nullptr; }
  // Returns TrainSteps.start for a training that begins now and not from a guess.
  virtual std::string Start() { return ""; }
  // Sets the mode's further fields in the message that begins that training.
  virtual void Fill(v1::TrainSteps*) const {}

  // True if a training begins from parameters that have this peer's own update in them, whatever
  // the entry takes of it.
  virtual bool KeepsUpdate() const { return false; }

  // Called when the training's update was encoded for the entry `version` and is held.
  virtual void OnHeld(uint64_t) {}
  virtual void OnWorkerLost() {}
  // Called when the held update will be in no entry. The worker must then forget it.
  virtual void OnRefused() {}
  // Called when the replica was dropped, together with everything that was trained from it.
  virtual void OnDropped() {}

  // Called when the replica has moved by an entry, before OwnUpdate::OnCommitted.
  virtual void OnMoving(const v1::EntryHeader&) {}
  // Called after OwnUpdate::OnCommitted. `offered` is true if an update was held, and `included` if
  // the entry has taken it.
  virtual void OnEntry(const v1::EntryHeader& header, bool offered, bool included,
                       bool worker_ready) = 0;
  // Called when the replica, by a snapshot, has skipped an entry that includes the held update.
  virtual void OnTakenUnseen(uint64_t) {}
  // Called when the replica, by a snapshot, has skipped entries that this peer has not seen, one of
  // which may have taken the held update.
  virtual void OnMaybeTaken() {}
  // Called when a snapshot has brought the replica to another version.
  virtual void OnOpened(bool worker_ready) = 0;

 protected:
  explicit RoundMode(Parts parts) : parts_(parts) {}

  const Parts parts_;
};

}  // namespace atolld
