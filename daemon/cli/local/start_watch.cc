#include "daemon/cli/local/start_watch.h"

#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace atolld {

std::optional<std::string> StartWatch::Hopeless(const RunHistory& history, size_t peers,
                                                double now_seconds) {
  constexpr absl::string_view kTrouble = "its worker does not train: ";
  size_t failing = 0, down = 0;
  std::map<std::string, std::string> peer_by_reason;
  for (const auto& [id, peer] : history.peers()) {
    if (peer.newest.worker_failures() < kFailures) continue;
    ++failing;
    // One that is up may train for longer than anybody waits here.
    if (!absl::StartsWith(peer.newest.why(), kTrouble)) continue;
    ++down;
    peer_by_reason.emplace(std::string(absl::StripPrefix(peer.newest.why(), kTrouble)), id);
  }
  if (failing == 0 || failing < peers) {
    since_.reset();
    return std::nullopt;
  }
  if (!since_) since_ = now_seconds;
  if (down < peers || now_seconds - *since_ < kPatienceSeconds) return std::nullopt;
  std::string reasons;
  for (const auto& [reason, id] : peer_by_reason) {
    if (!reasons.empty()) absl::StrAppend(&reasons, "; ");
    absl::StrAppend(&reasons, peer_by_reason.size() == 1 ? "" : absl::StrCat(id, ": "), reason);
  }
  return absl::StrFormat("for %.0f s no worker of this run has %s: %s", kPatienceSeconds,
                         history.newest().parameters() > 0 ? "trained" : "started", reasons);
}

}  // namespace atolld
