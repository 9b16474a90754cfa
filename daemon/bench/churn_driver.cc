#include "daemon/bench/churn_driver.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "compression/base/status_macros.h"
#include "daemon/cli/format.h"
#include "daemon/cli/process_stat.h"

namespace atolld {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(20);
constexpr absl::Duration kSayEvery = absl::Seconds(10);
constexpr absl::Duration kStartPatience = absl::Seconds(120);
// A signal takes effect at once, a drain within failure_timeout and the worker's patience.
constexpr absl::Duration kEffectPatience = absl::Seconds(20);
constexpr absl::Duration kBackPatience = absl::Seconds(60);
constexpr absl::Duration kStopPatience = absl::Seconds(15);
// Of a daemon's memory: by then its heap has met all that rounds, snapshots and clients ask for.
constexpr absl::Duration kWarmUp = absl::Minutes(2);
constexpr size_t kVersionsKept = 256;

}  // namespace

ChurnDriver::ChurnDriver(Files& files, SignalWaiter& signals, const ChurnRunSettings& settings)
    : files_(files), signals_(signals), settings_(settings), quorum_(settings.config.run.quorum) {}

void ChurnDriver::Say(const std::string& line) const {
  const double at = began_ == absl::Time() ? 0 : absl::ToDoubleSeconds(absl::Now() - began_);
  std::fputs(absl::StrFormat("[%s] %6.1f s  %s\n", settings_.name, at, line).c_str(),
             settings_.out);
  std::fflush(settings_.out);
}

absl::Status ChurnDriver::Run() {
  ASSIGN_OR_RETURN(cluster_, ChurnCluster::Make(files_, settings_.config, settings_.dir,
                                                settings_.atolld_program));
  started_ = absl::Now();
  RETURN_IF_ERROR(cluster_->StartCoordinator());
  RETURN_IF_ERROR(WritePeersFile(files_, cluster_->layout()));
  watcher_ =
      std::make_unique<RunWatcher>(AccessOf(files_, cluster_->layout().coordinator()), waker_);
  absl::Status status;
  while (status.ok() && stage_ != Stage::kOver) {
    if (signals_.Wait(waker_, kTick)) status = absl::CancelledError("stopped");
    if (status.ok()) status = Step(absl::Now());
  }
  watcher_.reset();
  cluster_->Stop(status.ok() ? kStopPatience : absl::Seconds(1));
  return status;
}

absl::Status ChurnDriver::Step(absl::Time now) {
  TakeNews(now);
  const bool all_may_end = history_.sealed();
  for (const std::string& line : cluster_->Poll(all_may_end)) {
    if (stage_ == Stage::kStarting) {
      return absl::UnknownError(absl::StrCat(line, " at its start; its log is in ", settings_.dir));
    }
    unexpected_.push_back(line);
    Say(line + ", which nobody did to it; it is started again");
  }
  switch (stage_) {
    case Stage::kStarting:
      return StepStarting(now);
    case Stage::kMeasuring:
      return StepMeasuring(now);
    case Stage::kHealing:
      return StepHealing(now);
    case Stage::kOver:
      break;
  }
  return absl::OkStatus();
}

void ChurnDriver::TakeNews(absl::Time now) {
  for (const v1::RunStatus& status : watcher_->Take()) {
    last_news_ = now;
    for (const v1::PeerStatus& peer : status.peers()) {
      const std::string& id = peer.member().peer();
      const auto known = history_.peers().find(id);
      if (known == history_.peers().end() ||
          known->second.newest.progress().step() != peer.progress().step() ||
          known->second.newest.progress().version() != peer.progress().version()) {
        progress_since_[id] = now;
      }
      if (peer.state_digest().empty()) continue;
      std::map<std::string, std::string>& told = digests_[peer.state_version()];
      told[id] = peer.state_digest();
      for (const auto& [other, digest] : told) {
        if (digest == peer.state_digest() || !differing_.empty()) continue;
        differing_ = absl::StrCat(id, " and ", other, " held different states of version ",
                                  peer.state_version());
      }
    }
    while (digests_.size() > kVersionsKept) digests_.erase(digests_.begin());
    history_.Take(status, MonotonicSeconds());
  }
}

bool ChurnDriver::AllLive() const {
  size_t live = 0;
  for (const auto& [id, peer] : history_.peers()) {
    live += peer.newest.member().state() == "live" ? 1 : 0;
  }
  return live == cluster_->peers();
}

absl::Status ChurnDriver::StepStarting(absl::Time now) {
  if (!peers_started_ && last_news_ > started_) {
    peers_started_ = true;
    RETURN_IF_ERROR(cluster_->StartPeers());
    RETURN_IF_ERROR(WritePeersFile(files_, cluster_->layout()));
  }
  if (!history_.rounds().empty() && AllLive()) {
    stage_ = Stage::kMeasuring;
    began_ = now;
    Say(absl::StrCat(cluster_->peers(), " peers have committed the first round; logs in ",
                     settings_.dir, "/*/log.txt"));
  } else if (now - started_ > kStartPatience) {
    return absl::DeadlineExceededError(absl::StrCat("no round was committed within ",
                                                    absl::FormatDuration(kStartPatience),
                                                    "; the logs are in ", settings_.dir));
  }
  return absl::OkStatus();
}

absl::Status ChurnDriver::StepMeasuring(absl::Time now) {
  const auto peers = static_cast<double>(cluster_->peers());
  live_.Add(now, static_cast<double>(cluster_->CountLive()) / peers);
  const absl::Duration warm_up =
      settings_.length ? std::min(kWarmUp, *settings_.length / 2) : kWarmUp / 4;
  if (!memory_noted_ && now - began_ >= warm_up) NoteMemory();
  if (now - said_ >= kSayEvery) {
    said_ = now;
    Say(absl::StrFormat("version %d, %s tokens, %d of %d peers live", history_.newest().version(),
                        WithThousands(history_.newest().tokens()), cluster_->CountLive(),
                        cluster_->peers()));
  }
  const bool over = sealed_run() ? history_.sealed() : now - began_ >= settings_.length.value();
  if (!over) return StepFault(now);
  ended_ = now;
  healing_since_ = now;
  stage_ = Stage::kHealing;
  version_then_ = history_.newest().version();
  for (const auto& [process, noted] : memory_) {
    if (cluster_->pid(process) != noted.first || noted.second == 0) continue;
    const uint64_t bytes = ResidentBytes(noted.first);
    if (bytes == 0) continue;
    const double growth = static_cast<double>(bytes) / static_cast<double>(noted.second) - 1;
    rss_growth_ = std::max(rss_growth_.value_or(growth), growth);
  }
  return fault_ && !undone_ ? UndoFault(now) : absl::OkStatus();
}

void ChurnDriver::NoteMemory() {
  memory_noted_ = true;
  for (size_t i = 1; i <= cluster_->peers(); ++i) {
    memory_[i] = {cluster_->pid(i), ResidentBytes(cluster_->pid(i))};
  }
}

absl::Status ChurnDriver::StepHealing(absl::Time now) {
  const bool waited = now - healing_since_ > kBackPatience;
  if (fault_) {
    if (VictimIsBack() || waited || history_.sealed()) {
      if (waited) not_back_.push_back(fault_->victim);
      landed_faults_.push_back(*fault_);
      fault_.reset();
    }
    return absl::OkStatus();
  }
  if (sealed_run() ? !cluster_->any_peer_running() : AllAtOneVersion()) {
    stage_ = Stage::kOver;
  } else if (waited) {
    Say(sealed_run() ? "not every peer has ended by itself" : "the peers did not meet");
    stage_ = Stage::kOver;
  }
  return absl::OkStatus();
}

bool ChurnDriver::AllAtOneVersion() const {
  return std::any_of(digests_.begin(), digests_.end(), [&](const auto& entry) {
    return entry.first > version_then_ && entry.second.size() == cluster_->peers();
  });
}

// -----------------------------------------------------------------------------------------------
// The fault under way

// Only what happens to a run that goes on counts, and the quorum must outlive it.
bool ChurnDriver::MayStrike() const {
  if (!AllLive() || history_.sealed()) return false;
  const double left = history_.seconds_left();
  const double needed = 4 * absl::ToDoubleSeconds(settings_.config.membership.failure_timeout);
  return !sealed_run() || left < 0 || left > needed;
}

absl::Status ChurnDriver::StepFault(absl::Time now) {
  if (!fault_) {
    if (next_fault_ < settings_.plan.size() && now - began_ >= settings_.plan[next_fault_].at &&
        MayStrike() && cluster_->CountLive() > quorum_) {
      BeginFault(now);
    }
    return absl::OkStatus();
  }
  if (!landed_) {
    if (cluster_->HasTakenEffect()) {
      landed_ = true;
    } else if (now - struck_at_ > kEffectPatience) {
      Say(absl::StrCat("it has had no effect on ", fault_->victim));
      RETURN_IF_ERROR(cluster_->Undo());
      fault_.reset();
    }
    struck_at_ = landed_ ? now : struck_at_;
    return absl::OkStatus();
  }
  if (!undone_) {
    return now - struck_at_ >= fault_->planned.hold ? UndoFault(now) : absl::OkStatus();
  }
  const bool waited = now - undone_at_ > kBackPatience;
  if (!VictimIsBack() && !waited) return absl::OkStatus();
  if (waited) {
    not_back_.push_back(fault_->victim);
    Say(absl::StrCat(fault_->victim, " is not back after ", absl::FormatDuration(kBackPatience)));
  } else {
    Say(absl::StrCat(fault_->victim, " is back"));
  }
  landed_faults_.push_back(*fault_);
  fault_.reset();
  return absl::OkStatus();
}

void ChurnDriver::BeginFault(absl::Time now) {
  const PlannedFault& planned = settings_.plan[next_fault_++];
  LandedFault fault;
  fault.planned = planned;
  fault.victim = cluster_->id(planned.peer);
  NoteStake(&fault, now);
  landed_ = undone_ = false;
  fault.at = absl::Now();
  if (!cluster_->Strike(planned)) return;
  struck_at_ = now;
  Say(absl::StrCat("fault ", next_fault_, " of ", settings_.plan.size(), ": ",
                   FaultKindName(planned.kind), " ", fault.victim));
  fault_ = std::move(fault);
}

// How far the victim's training had come: what a kill destroys.
void ChurnDriver::NoteStake(LandedFault* fault, absl::Time now) const {
  const FaultKind kind = fault->planned.kind;
  if (kind != FaultKind::kKillPeer && kind != FaultKind::kKillWorker) return;
  const auto peer = history_.peers().find(fault->victim);
  if (peer == history_.peers().end()) return;
  const v1::PeerProgress& progress = peer->second.newest.progress();
  const uint32_t steps = settings_.config.inner.steps;
  if (progress.phase() != "training") {
    // Its update stands at the daemon: a worker's death does not touch it.
    fault->handed_over = true;
    fault->steps_at_stake = kind == FaultKind::kKillPeer ? steps : 0;
    return;
  }
  const double tokens_a_step =
      static_cast<double>(settings_.config.inner.batch) * settings_.config.model.context;
  const auto since = progress_since_.find(fault->victim);
  const double seconds =
      since == progress_since_.end() ? 0 : absl::ToDoubleSeconds(now - since->second);
  const double done = progress.step() + seconds * progress.tokens_per_second() / tokens_a_step;
  fault->steps_at_stake = static_cast<uint32_t>(std::min<double>(done, steps));
}

absl::Status ChurnDriver::UndoFault(absl::Time now) {
  if (!landed_) {
    // The run is over before it took effect: it does not count.
    fault_.reset();
    return cluster_->Undo();
  }
  undone_ = true;
  undone_at_ = now;
  fault_->healed = absl::Now();
  version_then_ = history_.newest().version();
  const auto peer = history_.peers().find(fault_->victim);
  rounds_then_ = peer == history_.peers().end() ? 0 : peer->second.newest.rounds_contributed();
  return cluster_->Undo();
}

bool ChurnDriver::VictimIsBack() const {
  if (last_news_ <= undone_at_ || !AllLive() || history_.newest().version() <= version_then_) {
    return false;
  }
  if (cluster_->CountLive() < cluster_->peers()) return false;
  const auto peer = history_.peers().find(fault_->victim);
  return OfCoordinator(fault_->planned.kind) ||
         (peer != history_.peers().end() &&
          peer->second.newest.rounds_contributed() > rounds_then_);
}

}  // namespace atolld
