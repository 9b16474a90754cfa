#include "membership/run/beginning.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace atolld {
namespace {

// Returns the number of elements that the peer's worker has reported, or 0 if it has reported none.
uint64_t Elements(const Members& members, const std::string& peer) {
  const PeerInfo* const info = members.FindInfo(peer);
  return info == nullptr || !info->worker ? 0 : info->worker->manifest().elements();
}

}  // namespace

uint64_t Beginning::InVain(const std::string& peer) const {
  const auto found = in_vain_.find(peer);
  return found == in_vain_.end() ? 0 : found->second;
}

bool Beginning::Takes(const std::string& peer, const v1::InitialState& initial) {
  if (initial.has_genesis()) return maker_ == peer || InVain(peer) == 0;
  in_vain_[peer] = kCannot;
  return false;
}

void Beginning::NoteInVain(absl::Time now, const std::string& peer) {
  ++in_vain_[peer];
  others_until_ = now + StateDeadline(0, 0, settings_.failure_timeout);
}

void Beginning::Advance(absl::Time now, const Members& members, const Round& round, RunOutput* out,
                        std::string* reason, bool* lacks_reachable) {
  hoarded_since_ = absl::InfiniteFuture();
  if (asked() && now < deadline_) {
    *reason = absl::StrCat("peer ", maker_, " makes version 0");
    return;
  }
  const std::string late = std::exchange(maker_, "");
  deadline_ = absl::InfiniteFuture();
  if (!late.empty()) NoteInVain(now, late);
  // A former member may hold a version 0 that the store has not seen.
  if (members.roster().in_grace(now)) {
    *reason = "waiting for the peers that were members before the coordinator's restart";
    return;
  }
  const std::string maker = round.GenesisMaker(members.roster(), in_vain_, reason, lacks_reachable);
  if (maker.empty()) return;
  if (InVain(maker) >= kCannot) {
    *reason =
        "no peer that is here has the file that version 0 is made from; start one whose [run] "
        "branch names it";
    return;
  }
  const auto& all = members.roster().members();
  const bool others = std::any_of(all.begin(), all.end(), [&](const auto& entry) {
    return entry.second.connected() && entry.second.present() && !entry.second.aggregator &&
           InVain(entry.first) < InVain(maker);
  });
  if (InVain(maker) > 0 && others && now < others_until_) {
    deadline_ = others_until_;
    *reason = absl::StrCat(
        "peer ", maker,
        " did not make version 0 when it was asked, and another one is waited for to make it");
    return;
  }
  maker_ = maker;
  deadline_ =
      now + StateDeadline(Elements(members, maker), InVain(maker), settings_.failure_timeout);
  v1::CoordinatorMessage message;
  message.mutable_make_initial_state();
  members.SendTo(maker, std::move(message), out);
  *reason = absl::StrCat("peer ", maker, " makes version 0");
  if (late == maker) return;
  out->Say(absl::StrCat("peer ", maker, " makes the initial state",
                        late.empty() ? ""
                                     : absl::StrCat(": peer ", late,
                                                    ", who was asked before, has "
                                                    "not made it in time")),
           late.empty() ? RunOutput::Severity::kInfo : RunOutput::Severity::kWarning);
}

bool Beginning::Hoarded(absl::Time now, const Ledger& ledger, const Members& members,
                        const Round& round, RunOutput* out, std::string* reason) {
  std::vector<std::string> holders;
  std::vector<std::string> lacking;
  for (const auto& [peer, member] : members.roster().members()) {
    if (!member.connected() || !member.present()) continue;
    if (member.has_state) {
      holders.push_back(peer);
    } else if (!member.aggregator && !member.draining) {
      lacking.push_back(peer);
    }
  }
  if (round.alone() || holders.size() > 1 || lacking.empty() || members.roster().in_grace(now)) {
    hoarded_since_ = deadline_ = absl::InfiniteFuture();
    return false;
  }
  hoarded_since_ = std::min(hoarded_since_, now);
  const std::string holder = holders.empty() ? "" : holders.front();
  // If lines are too slow for this version 0, they are too slow for the next one, so each gets
  // twice the time.
  const absl::Duration patience =
      StateDeadline(ledger.genesis()->manifest().elements(), kept_, settings_.failure_timeout);
  deadline_ = hoarded_since_ + patience;
  if (now < deadline_) {
    if (now >= hoarded_since_ + settings_.failure_timeout) {
      *reason = absl::StrCat(round.reason(), "; ", absl::StrJoin(lacking, ", "), " wait",
                             lacking.size() == 1 ? "s" : "", " for version 0",
                             holder.empty() ? ", which no peer here holds"
                                            : absl::StrCat(", which peer ", holder, " alone holds"),
                             "; after ", absl::FormatDuration(patience), " another one makes it");
    }
    return false;
  }
  NoteInVain(now, holder);
  ++kept_;
  hoarded_since_ = deadline_ = absl::InfiniteFuture();
  out->Say(absl::StrCat("version 0 reached no peer in ", absl::FormatDuration(patience),
                        holder.empty() ? std::string(": no peer that is here holds it")
                                       : absl::StrCat(": peer ", holder, " alone holds it"),
                        "; another one makes it"),
           RunOutput::Severity::kWarning);
  return true;
}

}  // namespace atolld
