// SwarmGrey: makes some lines of a swarm work only in part, and judges how the run copes with them.
//
// Examples are a pair of peers that cannot reach each other, a peer that cannot be dialled, and a
// line that passes only small packets: no process is dead, and no error reports it. Nothing else is
// done to the swarm meanwhile, and the run can get everything that it needs without these lines.
// Hence invariant 18: while such a line is new, a round takes at most one change of plan. After
// that, a round takes no longer than usual, no plan needs such a line, and the coordinator's status
// names each of these lines and no other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "atoll/v1/admin.pb.h"
#include "tests/sim/swarm_cluster.h"
#include "tests/sim/swarm_faults.h"
#include "tests/sim/swarm_plan.h"

namespace atolld {

class SwarmGrey {
 public:
  SwarmGrey(SwarmCluster& cluster, SwarmFaults& faults) : cluster_(cluster), faults_(faults) {}

  // Returns true if the lines that have failed are no longer new, so that the next line may fail.
  bool Settled() const { return cluster_.world().now() >= newest_ + KnownAfter(); }
  // Makes one of the plan's lines fail now.
  void Begin(const PlannedFault& fault);
  // Returns true if all lines have been known for a while, and `rounds` were committed since the
  // last of them failed.
  bool Enough(uint64_t rounds) const;
  // Checks the state at the present instant. Call it often. `round` is the longest time that a
  // round takes without faults.
  void Check(absl::Duration round);
  // Ends the judgement of the lines, except for their effect on exchanges. With `mend` the lines
  // also work again.
  void End(bool mend);

  // Returns, in words, what is still shown although no peer is cut off any more; empty if there is
  // nothing.
  std::string StillShown() const;

 private:
  struct Line {
    FaultKind kind;
    std::string a;
    std::string b;  // The other peer of a pair.
    absl::Duration since;
    uint64_t version;  // the version that was committed when the line failed
    // The time since which the run could notice the failure, because the line failed before the
    // peers met or because a plan has needed it. InfiniteDuration if the run could not notice it
    // yet, or if the line passes small packets and perhaps nothing larger was sent.
    absl::Duration met;
    int felt;          // the number of plans that needed the line when the run could not know it
    uint64_t felt_in;  // the version of the newest of these plans
  };

  // Returns true if a failure that the run could notice at that time is no longer new.
  bool Known(absl::Duration met) const {
    return cluster_.world().now() >= met + KnownAfter() && met != absl::InfiniteDuration();
  }
  absl::Duration KnownAfter() const {
    return 3 * cluster_.plan().failure_timeout + absl::Seconds(1);
  }
  void Meet();
  void CheckTime(absl::Duration round);
  void CheckPlan();
  void CheckNeeded(const v1::Plan& plan, const std::string& from, const std::string& to);
  void CheckShown();
  void Feel(Line* line);
  bool Here(const std::string& peer) const;  // according to the coordinator's status
  // Returns true if a dial from `from` to `to` fails, or if the line loses every large packet.
  static bool Fails(const Line& line, const std::string& from, const std::string& to);

  SwarmCluster& cluster_;
  SwarmFaults& faults_;
  std::vector<Line> lines_;
  bool judging_ = true;
  absl::Duration newest_;  // when one of the lines was last new
  uint64_t version_ = 0;   // the newest committed version; committed_ is the time of its commit
  absl::Duration committed_;
  uint64_t plans_ = 0;  // the number of plans that were told by then
};

}  // namespace atolld
