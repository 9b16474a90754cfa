#include "daemon/cli/local/plan_follower.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"

namespace atolld {

PlanFollower::PlanFollower(LocalPlan plan, uint64_t seed, uint32_t first, size_t peers,
                           LocalProcesses& processes)
    : plan_(std::move(plan)),
      seed_(seed),
      first_(first),
      processes_(processes),
      peers_(peers + 1) {}

uint32_t PlanFollower::WantedAt(uint64_t version) const {
  return std::min(PeersAt(plan_.ramp, version, first_), static_cast<uint32_t>(peers_.size() - 1));
}

bool PlanFollower::Wants(size_t index, uint64_t version) const {
  return index <= WantedAt(version);
}

bool PlanFollower::CausedAbsence(size_t index) const {
  return index > 0 && (peers_[index].asked_to_leave || peers_[index].back_at.has_value());
}

absl::StatusOr<std::vector<std::string>> PlanFollower::Follow(uint64_t version,
                                                              double now_seconds) {
  std::vector<std::string> lines;
  RETURN_IF_ERROR(FollowRamp(version, &lines));
  if (version > 0 && !begun_at_) begun_at_ = now_seconds;
  if (begun_at_) FollowFaults(now_seconds, &lines);
  RETURN_IF_ERROR(BringBack(now_seconds, &lines));
  return lines;
}

absl::Status PlanFollower::FollowRamp(uint64_t version, std::vector<std::string>* lines) {
  const uint32_t wanted = WantedAt(version);
  for (size_t i = 1; i < peers_.size(); ++i) {
    Peer& peer = peers_[i];
    const bool running = processes_.running(i);
    if (i > wanted && running && !peer.asked_to_leave) {
      processes_.Terminate(i);
      peer = Peer{true, std::nullopt, std::nullopt};
      lines->push_back(absl::StrCat("after round ", version, " peer-", i, " leaves"));
    }
    if (i <= wanted && !running && (peer.asked_to_leave || !processes_.was_started(i))) {
      RETURN_IF_ERROR(processes_.Start(i));
      peer.asked_to_leave = false;
      lines->push_back(absl::StrCat("after round ", version, " peer-", i, " comes"));
    }
  }
  return absl::OkStatus();
}

std::optional<size_t> PlanFollower::Victim(absl::string_view kind, uint64_t fault) const {
  std::vector<size_t> running;
  for (size_t i = 1; i < peers_.size(); ++i) {
    const Peer& peer = peers_[i];
    if (processes_.running(i) && !peer.asked_to_leave && !peer.back_at && !peer.paused_to) {
      running.push_back(i);
    }
  }
  if (running.size() < 2) return std::nullopt;
  return running[DrawVictim(seed_, kind, fault, running.size())];
}

void PlanFollower::FollowFaults(double now_seconds, std::vector<std::string>* lines) {
  const double since = now_seconds - *begun_at_;
  const double down = absl::ToDoubleSeconds(plan_.down);
  // Returns true if the next fault of a kind is due; a fault without a victim counts as done.
  const auto due = [since](absl::Duration every, uint64_t* count) {
    if (every <= absl::ZeroDuration()) return false;
    const auto next = static_cast<double>(*count + 1);
    if (since < next * absl::ToDoubleSeconds(every)) return false;
    ++*count;
    return true;
  };
  if (due(plan_.kill_every, &kills_)) {
    if (const std::optional<size_t> victim = Victim("kill", kills_)) {
      processes_.Kill(*victim);
      peers_[*victim].back_at = now_seconds + down;
      lines->push_back(absl::StrCat("fault ", kills_, ": peer-", *victim, " is killed, back in ",
                                    absl::FormatDuration(plan_.down)));
    }
  }
  if (due(plan_.pause_every, &pauses_)) {
    if (const std::optional<size_t> victim = Victim("pause", pauses_)) {
      processes_.Pause(*victim);
      peers_[*victim].paused_to = now_seconds + down;
      lines->push_back(absl::StrCat("pause ", pauses_, ": peer-", *victim, " stands still for ",
                                    absl::FormatDuration(plan_.down)));
    }
  }
}

absl::Status PlanFollower::BringBack(double now_seconds, std::vector<std::string>* lines) {
  for (size_t i = 1; i < peers_.size(); ++i) {
    Peer& peer = peers_[i];
    if (peer.paused_to && now_seconds >= *peer.paused_to) {
      processes_.Continue(i);
      peer.paused_to.reset();
      lines->push_back(absl::StrCat("peer-", i, " goes on"));
    }
    // A killed process counts as running until its end is seen.
    if (peer.back_at && now_seconds >= *peer.back_at && !processes_.running(i)) {
      RETURN_IF_ERROR(processes_.Start(i));
      peer.back_at.reset();
      lines->push_back(absl::StrCat("peer-", i, " is started again"));
    }
  }
  return absl::OkStatus();
}

}  // namespace atolld
