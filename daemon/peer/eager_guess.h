// EagerGuess: a peer's own guess of the state after the entry that is being exchanged. Meanwhile
// the peer's worker trains from the guess (mode "eager"; Eager updates, arXiv:2502.12996).
//
//   guess = OuterStep(state v-1, D~)             on a copy: only entries move the state itself
//   D~ = D(v-1) + share x (own now - scale x own before)      each operation rounded to fp32
//
// The peer's part in the newest mean, D(v-1), is replaced by its part in the next one. "Own now" is
// its update for entry v as others decode it. "Own before" is the update that entry v-1 took, with
// the scale in its header, and share = own weight / sum of that header's weights. If entry v-1 did
// not take this peer's update, or if that update is no longer known, share is 0. If this peer does
// not hold D(v-1) (before the first entry, and after a snapshot), D~ = own now; if it has no update
// either, the guess is state v-1. With an aggregation rule other than the mean, share has the same
// formula. Runs in this mode do not mask their updates.
//
// A guess affects nothing on which replicas must agree, so what is kept from round to round is only
// in memory and may be lost. Used on the loop thread; the arithmetic runs on the keeper's queue, so
// that the state does not change meanwhile.
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
  // This peer's part in a mean.
  struct Share {
    // Nullptr if the peer has no part in the mean, or if its part is not known.
    std::shared_ptr<const Contribution> update;
    float share = 0;
    float scale = 1;
  };

  EagerGuess(ReplicaKeeper& keeper, const OwnUpdate& own);

  // Writes the guess of the state after the next entry into the slot `guess`, using the held
  // update. Calls `done` later, on the loop. After an error there is no guess, and the worker may
  // start from theta. The error is FAILED_PRECONDITION if the entry was committed meanwhile, so
  // that theta is already the guessed state; UNAVAILABLE if there is no replica; and
  // INVALID_ARGUMENT if the guess is not finite.
  void Make(std::function<void(absl::Status)> done);

  // Called when the replica has moved by this entry. Must be called before OwnUpdate::OnCommitted,
  // which drops the update that the entry took.
  void OnCommitted(const v1::EntryHeader& header);

  // Called when the replica was opened or dropped, so that this peer's part in the newest entry is
  // no longer known.
  void Forget() { before_ = {}; }

 private:
  ReplicaKeeper& keeper_;
  const OwnUpdate& own_;
  uint64_t version_ = 0;  // The version of the entry that took before_.
  Share before_;
  CallbackGuard guard_;
};

}  // namespace atolld
