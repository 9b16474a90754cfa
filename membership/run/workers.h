// Workers: handles the events of a peer's worker: it is ready, it is lost, or it trains something
// other than the run.
//
// It has no state of its own. The members, the round, evaluations and the making of version 0 each
// keep data about workers; this class informs all of them of changes. Pure. Used by one thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/run.pb.h"
#include "membership/run/beginning.h"
#include "membership/run/ending.h"
#include "membership/run/entry_attempts.h"
#include "membership/run/ledger.h"
#include "membership/run/members.h"
#include "membership/run/run_output.h"
#include "membership/run/training.h"

namespace atolld {

class Workers {
 public:
  struct Machines {
    const Ledger& ledger;
    Members& members;
    Training& training;
    EntryAttempts& exchanges;
    Ending& ending;
    Beginning& beginning;
  };

  // The machines must outlive this object.
  explicit Workers(const Machines& machines) : run_(machines) {}

  // Fails with INVALID_ARGUMENT if the peer is an aggregator, which has no worker, or if its
  // description of its model is invalid.
  absl::Status OnReady(const std::string& peer, const v1::WorkerReady& worker, RunOutput* out);
  void OnLost(const std::string& peer, const v1::WorkerLost& lost, RunOutput* out);
  // Called when version 0 is accepted. Rejects the workers that were ready before but do not fit
  // it.
  void OnGenesis(const v1::Genesis& genesis, RunOutput* out);

 private:
  bool Fits(const std::string& peer, const v1::Genesis& genesis, RunOutput* out);
  void Lose(const std::string& peer);

  const Machines run_;
};

}  // namespace atolld
