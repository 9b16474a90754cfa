// PlanFollower: applies a local run's plan (local_plan.h) to its peers: starts and ends peers as
// the number of rounds grows, kills and pauses some, and brings these back.
//
// A peer that ended by itself, or was ended by a user, is not started again. At least one peer is
// always left running. Nothing blocks. Used by one thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/cli/local/local_plan.h"
#include "daemon/cli/local/local_processes.h"

namespace atolld {

class PlanFollower {
 public:
  // `peers` is the number of peers in `processes`, of which `first` run at the start. Index 0 of
  // `processes` is the coordinator. `processes` must outlive this object. `seed` is the run's seed.
  PlanFollower(LocalPlan plan, uint64_t seed, uint32_t first, size_t peers,
               LocalProcesses& processes);

  // WantedAt returns how many peers should run after `version`. Wants returns true if peer `index`
  // should be one of them.
  uint32_t WantedAt(uint64_t version) const;
  bool Wants(size_t index, uint64_t version) const;

  // Starts, ends, kills, pauses and brings back the peers for which it is time, and returns a line
  // for each of these. `now_seconds` is the time of any monotonic clock. The intervals of faults
  // count from the first call after the first commit. Fails if a peer could not be started.
  absl::StatusOr<std::vector<std::string>> Follow(uint64_t version, double now_seconds);

  // Returns true if the plan is the reason why the peer does not run.
  bool CausedAbsence(size_t index) const;

 private:
  struct Peer {
    bool asked_to_leave = false;
    std::optional<double> back_at;    // the time at which a killed peer is started again
    std::optional<double> paused_to;  // the time at which a paused peer continues
  };

  absl::Status FollowRamp(uint64_t version, std::vector<std::string>* lines);
  void FollowFaults(double now_seconds, std::vector<std::string>* lines);
  absl::Status BringBack(double now_seconds, std::vector<std::string>* lines);
  // Returns the peer that the fault hits: a running peer that is not away by another fault. Returns
  // nullopt if it would be the only running peer.
  std::optional<size_t> Victim(absl::string_view kind, uint64_t fault) const;

  const LocalPlan plan_;
  const uint64_t seed_;
  const uint32_t first_;
  LocalProcesses& processes_;
  std::vector<Peer> peers_;  // the peers by index; the entry of the coordinator is not used
  std::optional<double> begun_at_;
  uint64_t kills_ = 0;
  uint64_t pauses_ = 0;
};

}  // namespace atolld
