// SwarmFaults: does to a swarm what its plan says, and tells what has taken effect.
//
// A fault is injected at an instant of the driver's choice, lasts as long as planned and ends by
// itself; EndAll ends all that still last. It counts as landed once it was seen to bite: the
// process was alive to be killed, bytes went over the link that was lossy, the write failed.
// Disturbances are told to the invariants before they begin.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

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
  // A fault that is to fall into an exchange finds it open: some link is slow, for HoldTime.
  void HoldOpen(const PlannedFault& fault);
  // Ends what lasts, but for the processes that are down.
  void EndAll();

  // One that was evicted for its lies is honest now, and readmitted. False: it is under way.
  bool LetInAgain(const std::string& peer);
  // The operator ends the run at its newest version.
  void StopRun();

  const std::array<int, kFaultKinds>& landed() const { return landed_; }

 private:
  // Where a fault does its work: names, and the world's time at which it is over.
  struct Target {
    std::string victim;
    std::string other;
    absl::Duration until;
  };

  void Landed(const PlannedFault& fault) { ++landed_[static_cast<size_t>(fault.kind)]; }
  // Shorter than anything that would take a slow peer for gone.
  absl::Duration HoldTime() const { return 0.6 * cluster_.plan().failure_timeout; }
  std::pair<std::string, std::string> PairBeside(const std::string& victim, uint64_t draw) const;
  PlannedFault Aimed(PlannedFault fault) const;
  Target TargetOf(const PlannedFault& fault) const;
  // Calls `end` when the fault is over, or at EndAll, once.
  void Until(const PlannedFault& fault, Task end);
  // It lands if bytes move between the two while it lasts; `end` follows.
  void OnLink(const PlannedFault& fault, const Target& target, Task end);
  uint64_t BytesBetween(const std::string& a, const std::string& b);

  bool InjectNetwork(const PlannedFault& fault, const Target& target);
  bool InjectProcess(const PlannedFault& fault, const Target& target);
  bool InjectStorage(const PlannedFault& fault, const Target& target);
  bool InjectClock(const PlannedFault& fault, const Target& target);
  bool InjectWorker(const PlannedFault& fault, const Target& target);
  bool InjectEtcd(const PlannedFault& fault, const Target& target);
  bool InjectOrder(const PlannedFault& fault, const Target& target);
  void Drain(const PlannedFault& fault, const Target& target);
  void RestoreStore(const PlannedFault& fault);
  // Also what an older copy of the store has brought back.
  void TakeBackOrders();
  bool InjectMemory(const PlannedFault& fault, const Target& target);
  void ReplayCalls(const PlannedFault& fault);
  void Split(const PlannedFault& fault, const Target& target);
  void KillSeveral(const PlannedFault& fault);
  void KillAtWrite(const PlannedFault& fault, const std::string& name);

  SwarmCluster& cluster_;
  SwarmOperator operator_;
  bool ever_paused_ = false;
  std::set<std::string> let_in_;  // ordered, not yet obeyed
  std::array<int, kFaultKinds> landed_{};
  uint64_t next_end_ = 0;
  std::map<uint64_t, Task> ends_;  // of the faults that last
};

}  // namespace atolld
