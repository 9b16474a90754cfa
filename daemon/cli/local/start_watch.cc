#include "daemon/cli/local/start_watch.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace atolld {

std::optional<std::string> StartWatch::Hopeless(const RunHistory& history, size_t peers,
                                                double now_seconds) {
  size_t failing = 0;
  std::map<std::string, std::string> peer_by_reason;
  for (const auto& [id, peer] : history.peers()) {
    if (peer.newest.worker_failures() < kFailures) continue;
    ++failing;
    peer_by_reason.emplace(
        std::string(absl::StripPrefix(peer.newest.why(), "its worker does not train: ")), id);
  }
  if (failing == 0 || failing < peers || history.newest().parameters() > 0) {
    since_.reset();
    return std::nullopt;
  }
  if (!since_) since_ = now_seconds;
  if (now_seconds - *since_ < kPatienceSeconds) return std::nullopt;
  std::string reasons;
  for (const auto& [reason, id] : peer_by_reason) {
    if (!reasons.empty()) absl::StrAppend(&reasons, "; ");
    absl::StrAppend(&reasons, peer_by_reason.size() == 1 ? "" : absl::StrCat(id, ": "), reason);
  }
  return absl::StrFormat("for %.0f s no worker of this run has started: %s", kPatienceSeconds,
                         reasons);
}

}  // namespace atolld
