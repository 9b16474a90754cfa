// EagerGuess: a peer's own guess of the state that the entry on its way will make, from which its
// worker trains on meanwhile (mode "eager"; Eager updates, arXiv:2502.12996).
//
//   guess = OuterStep(state v-1, D~)             of a copy: the state itself moves by entries alone
//   D~ = D(v-1) + share x (own now - scale x own before)      each operation rounded to fp32
//
// What the peer gave to the newest mean, D(v-1), is replaced by what it gives to the next one. Own
// now is its update for entry v as others decode it; own before is the one that entry v-1 took,
// with the scale that its header says, and share = own weight / sum of that header's weights. An
// update that entry v-1 did not take, or that is forgotten, has share 0. Where D(v-1) is not here
// (before the first entry, and after a snapshot), D~ = own now; without either, the guess is state
// v-1. With a rule of aggregation other than the mean, share is what it would be in a mean. Runs in
// this mode do not mask their updates.
//
// A guess goes into nothing that replicas must agree on, so what is kept from round to round is in
// memory alone, and losing it is legal. Loop thread; the arithmetic runs on the keeper's queue, so
// that the state does not move under it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "atoll/v1/run.pb.h"
#include "daemon/env/env.h"
#include "daemon/exchange/contribution.h"
#include "daemon/peer/own_update.h"
#include "daemon/peer/replica_keeper.h"

namespace atolld {

class EagerGuess {
 public:
  // What is in a mean of this peer's.
  struct Share {
    std::shared_ptr<const Contribution> update;  // nullptr: nothing, or it is not known
    float share = 0;
    float scale = 1;
  };

  EagerGuess(ReplicaKeeper& keeper, const OwnUpdate& own);

  // Writes the guess of the state after the replica's version into the slot `guess`, from the
  // update that is held now. `done`, on the loop and later: OK, or no guess is there and the worker
  // may start from theta: FAILED_PRECONDITION if the entry was committed meanwhile, so that theta
  // is what was to be guessed; UNAVAILABLE without a replica; INVALID_ARGUMENT if the guess is not
  // finite.
  void Make(std::function<void(absl::Status)> done);

  // The replica has moved by this entry. Before OwnUpdate is told, which drops what the entry took.
  void OnCommitted(const v1::EntryHeader& header);

  // What was given to the newest entry is not known any more: the replica was opened, or dropped.
  void Forget() { before_ = {}; }

 private:
  ReplicaKeeper& keeper_;
  const OwnUpdate& own_;
  uint64_t version_ = 0;  // of the entry that before_ went into
  Share before_;
  CallbackGuard guard_;
};

}  // namespace atolld
