// RunView: computes the phase of a run and what the run waits for. The run's decisions and its
// displays both use it.
//
// It reads the machines of a Run and changes none of them. Pure. Used by one thread.
#pragma once

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "atoll/v1/admin.pb.h"
#include "membership/run/adoption.h"
#include "membership/run/beginning.h"
#include "membership/run/ending.h"
#include "membership/run/entry_attempts.h"
#include "membership/run/ledger.h"
#include "membership/run/masked_attempts.h"
#include "membership/run/members.h"
#include "membership/run/training.h"

namespace atolld {

// The phases of a run. The first one that applies counts; each event may change it.
enum class RunPhase {
  // The run is sealed; the peers that lack the last state fetch it.
  kSealed,
  kAdopting,    // the store is behind its peers
  kNoGenesis,   // version 0 must be made
  kEnding,      // the last version is evaluated, then sealed
  kExchanging,  // an entry is made, or updates for it are masked
  kPaused,      // an operator has paused the run, between two rounds
  kTraining,    // peers train, or the run waits for enough trainers
};

class RunView {
 public:
  struct Machines {
    const Ledger& ledger;
    const Members& members;
    const Training& training;
    const EntryAttempts& exchanges;
    const MaskedAttempts& masks;
    const Ending& ending;
    const Adoption& adoption;
    const Beginning& beginning;
  };

  // The machines must outlive this object.
  explicit RunView(const Machines& machines) : run_(machines) {}

  // Returns true if an exchange is under way, or if updates are masked for one that will begin.
  bool exchanging() const { return run_.exchanges.under_way() || run_.masks.under_way(); }
  uint64_t LastVersion() const { return run_.ledger.LastVersion(exchanging()); }
  RunPhase phase() const;

  // Returns the phase in one word. `reason` says why the run waits if this cannot be seen from its
  // machines; it is empty if there is no such reason.
  std::string PhaseText(const std::string& reason) const;
  // Returns in words what the run waits for; empty if it does not wait.
  std::string WaitingFor(const std::string& reason) const;
  // `wall` is the wall clock's time at `now` (see Run::Status).
  v1::RunStatus Status(absl::Time now, std::optional<absl::Time> wall,
                       const std::string& reason) const;

 private:
  const Machines run_;
};

}  // namespace atolld
