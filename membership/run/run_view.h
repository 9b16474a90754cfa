// RunView: what a run is at and waits for, as it decides by it and as it is shown.
//
// It looks at the machines of a Run and changes none of them. Pure; one thread.
#pragma once

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "atoll/v1/admin.pb.h"
#include "membership/run/adoption.h"
#include "membership/run/beginning.h"
#include "membership/run/ending.h"
#include "membership/run/exchanges.h"
#include "membership/run/ledger.h"
#include "membership/run/masked_exchanges.h"
#include "membership/run/members.h"
#include "membership/run/training.h"

namespace atolld {

// Each event may change it; the first that holds counts.
enum class RunPhase {
  kSealed,      // the last state is on its way to those that lack it
  kAdopting,    // the store is behind its peers
  kNoGenesis,   // version 0 is to be made
  kEnding,      // the last version is evaluated, then sealed
  kExchanging,  // an entry is made, or updates are masked for one
  kPaused,      // by an operator, between two rounds
  kTraining,    // or waiting for enough trainers
};

class RunView {
 public:
  struct Machines {
    const Ledger& ledger;
    const Members& members;
    const Training& training;
    const Exchanges& exchanges;
    const MaskedExchanges& masks;
    const Ending& ending;
    const Adoption& adoption;
    const Beginning& beginning;
  };

  // They outlive it.
  explicit RunView(const Machines& machines) : run_(machines) {}

  // An exchange is under way, or the masks of one that is to begin.
  bool exchanging() const { return run_.exchanges.under_way() || run_.masks.under_way(); }
  uint64_t LastVersion() const { return run_.ledger.LastVersion(exchanging()); }
  RunPhase phase() const;

  // `reason`: why the run waits, where none of its machines knows; empty: it does not.
  std::string PhaseText(const std::string& reason) const;   // in one word
  std::string WaitingFor(const std::string& reason) const;  // in words; empty: it does not wait
  // `wall`: as Run::Status.
  v1::RunStatus Status(absl::Time now, std::optional<absl::Time> wall,
                       const std::string& reason) const;

 private:
  const Machines run_;
};

}  // namespace atolld
