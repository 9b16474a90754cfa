#include "daemon/bench/churn_run.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "daemon/bench/churn_cluster.h"
#include "daemon/cli/local_layout.h"
#include "daemon/cli/run_watcher.h"
#include "daemon/program/format.h"
#include "daemon/program/process.h"
#include "daemon/replica/state/verify.h"
#include "membership/run/losses.h"

namespace atolld {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(20);
constexpr absl::Duration kSayEvery = absl::Seconds(10);
constexpr absl::Duration kStartPatience = absl::Seconds(120);
// A signal takes effect immediately, a drain within failure_timeout and the worker's patience.
constexpr absl::Duration kEffectPatience = absl::Seconds(20);
constexpr absl::Duration kBackPatience = absl::Seconds(60);
constexpr absl::Duration kStopPatience = absl::Seconds(15);
// The warm-up of a daemon's memory: by then its heap has met everything that rounds, snapshots and
// clients need.
constexpr absl::Duration kWarmUp = absl::Minutes(2);
constexpr size_t kVersionsKept = 256;

// Only a log of days of debug lines would be larger.
constexpr uint64_t kLargestLog = uint64_t{1} << 30;

uint64_t VersionAt(const std::vector<Commit>& commits, absl::Time time) {
  uint64_t version = 0;
  for (const Commit& commit : commits) {
    if (commit.at <= time) version = std::max(version, commit.version);
  }
  return version;
}

std::vector<LossPoint> LossesOf(const RunHistory& history) {
  std::vector<LossPoint> points;
  uint64_t tokens = 0;
  auto round = history.rounds().begin();
  for (const auto& [version, evaluation] : history.evaluations()) {
    for (; round != history.rounds().end() && round->first <= version; ++round) {
      tokens += round->second.tokens();
    }
    const std::optional<double> loss = EvaluatedLoss(evaluation);
    if (loss) points.push_back({tokens, *loss});
  }
  return points;
}

// The steps of RunUnderChurn.
//
//   starting --all peers in a commit--> measuring --time is over, or sealed--> healing --> over
//
// One thread, once.
class ChurnDriver {
 public:
  ChurnDriver(Files& files, SignalWaiter& signals, const ChurnRunSettings& settings);

  absl::Status Run();
  ChurnRunResult Result();  // after Run; replays every replica's log

 private:
  enum class Stage { kStarting, kMeasuring, kHealing, kOver };

  absl::Status Step(absl::Time now);
  void TakeNews(absl::Time now);
  absl::Status StepStarting(absl::Time now);
  absl::Status StepMeasuring(absl::Time now);
  absl::Status StepHealing(absl::Time now);
  absl::Status StepFault(absl::Time now);
  void BeginFault(absl::Time now);
  void NoteStake(LandedFault* fault, absl::Time now) const;
  bool MayStrike() const;
  absl::Status UndoFault(absl::Time now);
  bool VictimIsBack() const;
  bool AllLive() const;
  bool AllAtOneVersion() const;
  void NoteMemory();
  bool sealed_run() const { return !settings_.length.has_value(); }
  void Say(const std::string& line) const;
  void CheckDigests(ChurnRunResult* result) const;

  Files& files_;
  SignalWaiter& signals_;
  const ChurnRunSettings& settings_;
  const uint32_t quorum_;
  Waker waker_;
  std::unique_ptr<ChurnCluster> cluster_;
  std::unique_ptr<RunWatcher> watcher_;  // after waker_ and cluster_

  Stage stage_ = Stage::kStarting;
  absl::Time started_, began_, ended_, healing_since_;
  bool peers_started_ = false;
  RunHistory history_;
  absl::Time last_news_ = absl::InfinitePast();
  std::map<std::string, absl::Time> progress_since_;  // when a peer's progress was last new
  // State digests by version and peer, as peers have told them.
  std::map<uint64_t, std::map<std::string, std::string>> digests_;
  std::string differing_;
  MeanOverTime live_;
  absl::Time said_ = absl::InfinitePast();

  // The fault under way.
  size_t next_fault_ = 0;
  bool landed_ = false;
  bool undone_ = false;
  absl::Time struck_at_;
  uint64_t version_then_ = 0;
  uint64_t rounds_then_ = 0;  // that the victim had contributed to
  absl::Time undone_at_;
  std::optional<LandedFault> fault_;

  std::vector<LandedFault> landed_faults_;
  std::vector<std::string> unexpected_, not_back_;
  bool memory_noted_ = false;
  std::map<size_t, std::pair<pid_t, uint64_t>> memory_;  // by peer: daemon, bytes after warm-up
  std::optional<double> rss_growth_;
};

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
    Say(line + ", though the benchmark did not end it; it is started again");
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
    Say(absl::StrCat(Counted(cluster_->peers(), "peer"),
                     " have committed the first round; logs in ", settings_.dir, "/*/log.txt"));
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
    Say(absl::StrFormat("version %d, %s tokens, %d of %s live", history_.newest().version(),
                        WithThousands(history_.newest().tokens()), cluster_->CountLive(),
                        Counted(cluster_->peers(), "peer")));
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

// Only the effects on a continuing run count, and the quorum must survive the fault.
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

// Notes how far the victim's training had come: what a kill destroys.
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

// -----------------------------------------------------------------------------------------------
// The result

// Every log is replayed from its oldest snapshot, and each state on the way is compared with the
// digest in the next header. Then two replicas at one version must hold one state.
void ChurnDriver::CheckDigests(ChurnRunResult* result) const {
  result->digest_problem = differing_;
  if (result->digest_problem.empty() && !sealed_run() && !AllAtOneVersion()) {
    result->digest_problem = "the peers were never seen at one version after the last fault";
  }
  std::map<uint64_t, std::pair<std::string, Digest>> ends;
  for (size_t i = 1; i <= cluster_->peers() && result->digest_problem.empty(); ++i) {
    const LocalProcess& process = cluster_->layout().processes[i];
    const absl::StatusOr<VerifyReport> report = VerifyLog(files_, process.dir);
    if (!report.ok()) {
      result->digest_problem = absl::StrCat(process.id, ": ", report.status().message());
      break;
    }
    const auto [end, first] =
        ends.emplace(report->version, std::make_pair(process.id, report->state_digest));
    if (!first && end->second.second != report->state_digest) {
      result->digest_problem = absl::StrCat(process.id, " and ", end->second.first,
                                            " end with different states of version ", end->first);
    }
  }
  if (result->digest_problem.empty() && sealed_run() && ends.size() != 1) {
    result->digest_problem = "not every replica has reached the last version";
  }
  result->digests_equal = result->digest_problem.empty();
}

ChurnRunResult ChurnDriver::Result() {
  ChurnRunResult result;
  ChurnTrace& trace = result.trace;
  for (const LocalProcess& process : cluster_->layout().processes) {
    if (process.role == "peer") trace.peers.push_back(process.id);
    const absl::StatusOr<std::string> text =
        ReadFile(files_, absl::StrCat(process.dir, "/log.txt"), kLargestLog);
    if (text.ok()) trace.logs[process.id] = ParseLog(*text);
  }
  trace.commits = CommitsOf(trace.logs[cluster_->layout().coordinator().id]);
  trace.faults = landed_faults_;
  trace.began = began_;
  result.seconds = absl::ToDoubleSeconds(ended_ - began_);
  const uint64_t first = VersionAt(trace.commits, began_);
  const uint64_t last = VersionAt(trace.commits, ended_);
  result.rounds = last - first;
  for (const auto& [version, round] : history_.rounds()) {
    if (version > first && version <= last) result.tokens += round.tokens();
  }
  result.mean_live_fraction = live_.mean();
  result.losses = LossesOf(history_);
  result.rss_growth = rss_growth_;
  result.unexpected_exits = unexpected_;
  result.not_back = not_back_;
  CheckDigests(&result);
  return result;
}

}  // namespace

absl::StatusOr<ChurnRunResult> RunUnderChurn(Files& files, SignalWaiter& signals,
                                             const ChurnRunSettings& settings) {
  ChurnDriver driver(files, signals, settings);
  RETURN_IF_ERROR(driver.Run());
  return driver.Result();
}

}  // namespace atolld
