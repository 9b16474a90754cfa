#include "daemon/cli/local/start_watch.h"

#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "compression/base/words.h"
#include "daemon/machine/availability.h"
#include "membership/run/admission.h"

namespace atolld {
namespace {

constexpr absl::string_view kTrouble = "its worker does not train: ";

// The peers that do not train, and one of them for each reason. Empty reasons are left out.
struct Idle {
  size_t peers = 0;
  std::map<std::string, std::string> peer_by_reason;
};

std::string ReasonsOf(const Idle& idle, bool named) {
  std::string reasons;
  for (const auto& [reason, id] : idle.peer_by_reason) {
    if (!reasons.empty()) absl::StrAppend(&reasons, "; ");
    absl::StrAppend(&reasons, named ? absl::StrCat(id, ": ") : "", reason);
  }
  return reasons;
}

}  // namespace

std::optional<std::string> StartWatch::Hopeless(const RunHistory& history, size_t peers,
                                                double now_seconds) {
  size_t all = 0;
  size_t failing = 0;
  Idle idle;  // of those
  for (const auto& [id, peer] : history.peers()) {
    all += peer.newest.role() == kAggregatorRole ? 0 : 1;
    const absl::string_view why = peer.newest.why();
    const bool away = absl::StrContains(why, kAwayForGood);
    if (!away && peer.newest.worker_failures() < kFailures) continue;
    ++failing;
    // A worker that is up may train for longer than this waits.
    if (!away && !absl::StartsWith(why, kTrouble)) continue;
    ++idle.peers;
    idle.peer_by_reason.emplace(std::string(absl::StripPrefix(why, kTrouble)), id);
  }
  all = std::max(all, peers);
  if (failing == 0 || all >= quorum_ + failing) {
    since_.reset();
    return std::nullopt;
  }
  if (!since_) since_ = now_seconds;
  if (idle.peers < failing || now_seconds - *since_ < kPatienceSeconds) return std::nullopt;
  if (failing >= all) {
    return absl::StrFormat("for %.0f s no worker of this run has %s: %s", kPatienceSeconds,
                           history.newest().parameters() > 0 ? "trained" : "started",
                           ReasonsOf(idle, idle.peer_by_reason.size() > 1));
  }
  return absl::StrFormat("for %.0f s only %d of %s could train, and a round needs %d: %s",
                         kPatienceSeconds, all - failing, Counted(all, "peer"), quorum_,
                         ReasonsOf(idle, true));
}

}  // namespace atolld
