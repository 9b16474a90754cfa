// SwarmFaults: injects the planned faults into a swarm and reports which of them have taken effect.
//
// A fault is injected at an instant that the driver chooses, lasts as long as planned and ends by
// itself; EndAll ends all that still last. It counts as landed once it has visibly taken effect:
// the process was alive to be killed, bytes went over the lossy link, the write failed. The
// invariants are told of a disturbance before it begins.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "tests/sim/swarm_cluster.h"
#include "tests/sim/swarm_operator.h"
#include "tests/sim/swarm_plan.h"

namespace atolld {

class SwarmFaults {
 public:
  explicit SwarmFaults(SwarmCluster& cluster)
      : cluster_(cluster), operator_(cluster.world(), cluster.coordinators()) {}

  void Inject(const PlannedFault& planned);
  // Prolongs the exchange during which a fault should happen, by making some link slow for
  // HoldTime.
  void HoldOpen(const PlannedFault& fault);
  // Ends all faults that last, but does not restart processes that are down.
  void EndAll();

  // Makes a peer that was evicted for its lies honest, and readmits it. Returns false while this is
  // under way.
  bool LetInAgain(const std::string& peer);
  // Has the operator end the run at its newest version.
  void StopRun();

  const std::array<int, kFaultKinds>& landed() const { return landed_; }

 private:
  // Where a fault takes effect (the names), and the world's time at which it is over.
  struct Target {
    std::string victim;
    std::string other;
    absl::Duration until;
  };

  void Landed(const PlannedFault& fault) { ++landed_[static_cast<size_t>(fault.kind)]; }
  // Shorter than the time after which a slow peer counts as gone.
  absl::Duration HoldTime() const { return 0.6 * cluster_.plan().failure_timeout; }
  std::pair<std::string, std::string> PairBeside(const std::string& victim, uint64_t draw) const;
  PlannedFault Aimed(PlannedFault fault) const;
  Target TargetOf(const PlannedFault& fault) const;
  // Calls `end` once, when the fault is over or at EndAll.
  void Until(const PlannedFault& fault, Task end);
  // Carries out a fault of a link. It lands if bytes move between the two processes while it lasts.
  // `end` is called when it is over.
  void OnLink(const PlannedFault& fault, const Target& target, Task end);
  std::vector<std::string> OthersThan(const std::string& name) const;
  uint64_t BytesBetween(const std::string& a, const std::string& b);

  bool InjectNetwork(const PlannedFault& fault, const Target& target);
  bool InjectGrey(const PlannedFault& fault, const Target& target);
  bool InjectProcess(const PlannedFault& fault, const Target& target);
  bool InjectStorage(const PlannedFault& fault, const Target& target);
  bool InjectClock(const PlannedFault& fault, const Target& target);
  bool InjectWorker(const PlannedFault& fault, const Target& target);
  bool InjectEtcd(const PlannedFault& fault, const Target& target);
  bool InjectOrder(const PlannedFault& fault, const Target& target);
  void Drain(const PlannedFault& fault, const Target& target);
  void RestoreStore(const PlannedFault& fault);
  // Also undoes orders that came back with an older copy of the store.
  void TakeBackOrders();
  bool InjectMemory(const PlannedFault& fault, const Target& target);
  void ReplayCalls(const PlannedFault& fault);
  void Split(const PlannedFault& fault, const Target& target);
  void KillSeveral(const PlannedFault& fault);
  void KillAtWrite(const PlannedFault& fault, const std::string& name);

  SwarmCluster& cluster_;
  SwarmOperator operator_;
  bool ever_paused_ = false;
  std::set<std::string> let_in_;  // peers whose readmission was ordered but not yet carried out
  std::array<int, kFaultKinds> landed_{};
  uint64_t next_end_ = 0;
  std::map<uint64_t, Task> ends_;  // The ends of the faults that last.
};

}  // namespace atolld
