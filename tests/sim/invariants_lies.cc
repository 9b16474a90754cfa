// Invariants, number 15: what becomes of a reducer's lie.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/sim/invariants.h"
#include "tests/sim/sim_cluster.h"

namespace atolld {
namespace {}  // namespace

bool Invariants::HostileReduces(const v1::Plan& plan) const {
  return std::any_of(plan.shards().begin(), plan.shards().end(),
                     [this](const v1::Shard& shard) { return Hostile(shard.reducer()); });
}

// Where all is audited, others are there to do it and to average anew, and nothing else goes wrong,
// no lie is committed. Behind relays nobody can tell whose lie it was.
void Invariants::CheckLie(const v1::EntryHeader& header) {
  const v1::Plan& plan = newest_plan_;
  if (terms_.audit_share < 1 || plan.version() != header.version() || !plan.lost().empty()) return;
  // Whoever has come to an exchange answers in it: it matters only what was done not long ago.
  const auto disturbed = [this](const std::string& name) {
    const auto found = disturbed_.find(name);
    return found != disturbed_.end() &&
           found->second + 2 * terms_.failure_timeout >= exchange_began_;
  };
  if (disturbed(kCoordinator)) return;
  bool others = false;
  for (const v1::PlanMember& member : plan.contributors()) {
    if (disturbed(member.peer())) return;
    others = others || (!Hostile(member.peer()) && !member.address().empty());
  }
  const bool relayed = std::any_of(plan.shards().begin(), plan.shards().end(),
                                   [](const v1::Shard& shard) { return shard.relays_size() > 0; });
  if (relayed || !others) return;
  Violate(15, absl::StrCat("version ", header.version(),
                           " is a reducer's lie, though all of it was to be audited"));
}

}  // namespace atolld
