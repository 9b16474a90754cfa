// PlanFollower: does to the peers of a local run what its plan says (local_plan.h): starts and ends
// them as the rounds go by, kills and pauses some, and brings those back.
//
// A peer that ended by itself, or by somebody else's hand, is left alone. At least one peer always
// runs. One thread; nothing blocks. Borrows the processes, of which index 0 is the coordinator.
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
  // `first`: how many of the `peers` peers begin; `seed`: the run's.
  PlanFollower(LocalPlan plan, uint64_t seed, uint32_t first, size_t peers,
               LocalProcesses& processes);

  // How many peers there are to be after `version`, and whether peer `index` is one of them.
  uint32_t WantedAt(uint64_t version) const;
  bool Wants(size_t index, uint64_t version) const;

  // Does what is due. A line tells of each thing done. `now_seconds`: of any monotonic clock; what
  // a fault's distance counts from is the first call after the first commit. An error: a peer could
  // not be started.
  absl::StatusOr<std::vector<std::string>> Follow(uint64_t version, double now_seconds);

  // The peer is away because the plan has it so.
  bool CausedAbsence(size_t index) const;

 private:
  struct Peer {
    bool asked_to_leave = false;
    std::optional<double> back_at;    // killed: when it is started again
    std::optional<double> paused_to;  // when it goes on
  };

  absl::Status FollowRamp(uint64_t version, std::vector<std::string>* lines);
  void FollowFaults(double now_seconds, std::vector<std::string>* lines);
  absl::Status BringBack(double now_seconds, std::vector<std::string>* lines);
  // One that runs and is not hit yet, if another one does too.
  std::optional<size_t> Victim(absl::string_view kind, uint64_t fault) const;

  const LocalPlan plan_;
  const uint64_t seed_;
  const uint32_t first_;
  LocalProcesses& processes_;
  std::vector<Peer> peers_;  // by index; the coordinator's is not used
  std::optional<double> begun_at_;
  uint64_t kills_ = 0;
  uint64_t pauses_ = 0;
};

}  // namespace atolld
