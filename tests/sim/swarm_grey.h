// SwarmGrey: lines of a swarm that work in part, and the judgement of how the run lives with them.
//
// Examples are a pair of peers that cannot reach each other, a peer that cannot be dialled, and a
// line that passes only small packets: no process is dead, and no error reports it. Nothing else is
// done to the swarm meanwhile, and the run can get everything that it needs without these lines.
// Hence (invariant 18) a round takes at most one change of plan while such a line is new, and no
// longer than usual after that; from then on no plan needs such a line, and what the coordinator
// shows names each of them and no other.
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

  // True if the lines that have failed are no longer new, so that the next may fail.
  bool Settled() const { return cluster_.world().now() >= newest_ + KnownAfter(); }
  // One of the plan's lines fails now.
  void Begin(const PlannedFault& fault);
  // True if all lines have been known for a while, and `rounds` were committed since the last of
  // them failed.
  bool Enough(uint64_t rounds) const;
  // Checks the present instant; call it often. `round` is the longest time that a round takes
  // without faults.
  void Check(absl::Duration round);
  // The lines are no longer judged, except for their effect on exchanges. With `mend` they also
  // work again.
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
    uint64_t version;  // The version committed when it failed.
    // The time since which the run has had to do with it: it failed before peers met, or a plan has
    // needed it. InfiniteDuration if that has not happened, so that it cannot be known; or if the
    // line passes small packets, and perhaps nothing larger was sent.
    absl::Duration met;
    int felt;          // The number of plans that needed it when it could not be known.
    uint64_t felt_in;  // The newest of these plans.
  };

  // Returns true if what was met at that time is no longer new.
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
  bool Here(const std::string& peer) const;  // According to what is shown.
  // Returns true if a dial of `from` to `to` fails, or everything large that is sent over it.
  static bool Fails(const Line& line, const std::string& from, const std::string& to);

  SwarmCluster& cluster_;
  SwarmFaults& faults_;
  std::vector<Line> lines_;
  bool judging_ = true;
  absl::Duration newest_;  // When one of them was last new.
  uint64_t version_ = 0;  // The newest committed version; committed_ is the time since which it is.
  absl::Duration committed_;
  uint64_t plans_ = 0;  // Told by then.
};

}  // namespace atolld
