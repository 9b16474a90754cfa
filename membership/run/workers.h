// Workers: what becomes of a peer whose worker is ready, or is lost, or trains something else than
// the run.
//
// It has no state of its own: a worker is known to those who count on it, the members, the round,
// evaluations and the making of version 0, and this is where all of them hear of it. Pure; one
// thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/run.pb.h"
#include "membership/run/beginning.h"
#include "membership/run/ending.h"
#include "membership/run/exchanges.h"
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
    Exchanges& exchanges;
    Ending& ending;
    Beginning& beginning;
  };

  // They outlive it.
  explicit Workers(const Machines& machines) : run_(machines) {}

  // INVALID_ARGUMENT: an aggregator has none, or what it tells of its model makes no sense.
  absl::Status OnReady(const std::string& peer, const v1::WorkerReady& worker, RunOutput* out);
  void OnLost(const std::string& peer, const v1::WorkerLost& lost, RunOutput* out);
  // There is a version 0: those that were ready before it may not fit it.
  void OnGenesis(const v1::Genesis& genesis, RunOutput* out);

 private:
  bool Fits(const std::string& peer, const v1::Genesis& genesis, RunOutput* out);
  void Lose(const std::string& peer);

  const Machines run_;
};

}  // namespace atolld
