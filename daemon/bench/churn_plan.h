// The faults of a churn benchmark: what is done to whom, when, and for how long.
//
// A plan is a pure function of its settings, so that a seed names it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace atolld {

enum class FaultKind {
  kKillPeer,           // SIGKILL to a peer's daemon (its worker goes with it); started again
  kFreezePeer,         // SIGSTOP to a peer's daemon, longer than failure_timeout; SIGCONT
  kBlackHolePeer,      // all its connections fall silent, longer than failure_timeout
  kRestartPeer,        // SIGTERM: it drains and leaves; started again
  kKillWorker,         // SIGKILL to a peer's worker; its daemon starts another
  kFreezeWorker,       // SIGSTOP to a peer's worker; SIGCONT
  kKillCoordinator,    // SIGKILL; started again
  kFreezeCoordinator,  // SIGSTOP, longer than failure_timeout; SIGCONT
};
inline constexpr int kFaultKinds = 8;

absl::string_view FaultKindName(FaultKind kind);  // "kill_peer"
bool OfCoordinator(FaultKind kind);
bool OfWorker(FaultKind kind);

struct PlannedFault {
  FaultKind kind;
  uint32_t peer = 0;    // from 1; 0: the coordinator
  absl::Duration at;    // since the beginning; later if the victim before it is not back yet
  absl::Duration hold;  // from taking effect to being undone (started again, continued, resumed)
};

struct ChurnPlanSettings {
  uint32_t peers = 0;
  uint64_t seed = 0;
  absl::Duration length;
  absl::Duration every;  // a fault in each such span
  absl::Duration failure_timeout;
};

// Each kind comes once in every eight faults, in an order of its own. The daemon of peer 1 is
// frozen and cut off but never ended, so that one lives through the whole run. `peers` >= 2.
std::vector<PlannedFault> PlanFaults(const ChurnPlanSettings& settings);

}  // namespace atolld
