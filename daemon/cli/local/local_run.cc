#include "daemon/cli/local/local_run.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "compression/base/lora_slices.h"
#include "compression/base/process_limits.h"
#include "compression/base/status_macros.h"
#include "compression/base/terminal.h"
#include "compression/base/words.h"
#include "daemon/cli/beforehand.h"
#include "daemon/cli/lab.h"
#include "daemon/cli/live_view.h"
#include "daemon/cli/local/local_plan.h"
#include "daemon/cli/local/local_processes.h"
#include "daemon/cli/local/local_report.h"
#include "daemon/cli/local/plan_follower.h"
#include "daemon/cli/local/start_watch.h"
#include "daemon/cli/local_layout.h"
#include "daemon/cli/run_watcher.h"
#include "daemon/cli/worker_tool.h"
#include "daemon/config/config.h"
#include "daemon/config/config_sections.h"
#include "daemon/config/data_on_disk.h"
#include "daemon/config/peer_path.h"
#include "daemon/config/worker_program.h"
#include "daemon/env/network.h"
#include "daemon/env/posix_files.h"
#include "daemon/env/posix_folder_lock.h"
#include "daemon/program/addresses.h"
#include "daemon/program/format.h"
#include "daemon/program/process.h"
#include "daemon/program/process_folder.h"
#include "daemon/replica/state/branch_file.h"
#include "daemon/transport/sockets.h"

namespace atolld {
namespace {

constexpr int kTrackingSeconds = 20;  // for a Python that looks for its libraries on a busy disk
constexpr char kLabPort[] = ":7070";  // of the coordinator on its node, which it has for itself

// The decisions that come before anything is made.
struct LocalPreparation {
  Config config;  // with a run id
  LocalPlan plan;
  std::string dir;     // of the run, absolute
  std::string atolld;  // the programs
  std::string worker;
  int port = 0;          // of a new run's coordinator on loopback; 0: it is where the config says
  bool goes_on = false;  // the folder holds a run already
  std::map<std::string, std::string> nodes;  // addresses in the lab, by process; empty: in none
};

// Loads the config that was asked for, or the one in the run's folder; for a run that is prepared
// in it as a branch, also its branch file.
absl::Status LoadRunConfig(const LocalOptions& options, LocalPreparation* prepared) {
  std::vector<ConfigOverride> overrides;
  if (options.peers) overrides.push_back({"--peers", "run", "peers", *options.peers});
  if (options.rounds) overrides.push_back({"--rounds", "run", "rounds", *options.rounds});
  std::error_code error;
  if (!options.data.empty()) {
    overrides.push_back(
        {"--data", "data", "path", std::filesystem::absolute(options.data, error).string()});
  }
  const std::string kept = absl::StrCat(prepared->dir, "/", kRunConfig);
  if (options.config_path.empty() && options.dir.empty()) {
    return absl::InvalidArgumentError(
        "atoll local: give --config FILE to begin a run, or --dir DIR to go on with the one there");
  }
  if (options.config_path.empty() && !std::filesystem::exists(kept, error)) {
    return absl::InvalidArgumentError(
        prepared->goes_on
            ? absl::StrCat(prepared->dir, ": an earlier release began this run and kept no ",
                           kRunConfig, " there; give --config and the file that it began with")
            : absl::StrCat(prepared->dir,
                           " holds no run to go on with; give --config FILE to "
                           "begin one there"));
  }
  ASSIGN_OR_RETURN(prepared->config,
                   LoadConfig(options.config_path.empty() ? kept : options.config_path,
                              ConfigUse::kLocal, overrides));
  const std::string branch = absl::StrCat(prepared->dir, "/", kRunBranch);
  if (prepared->config.run.branch.empty() && std::filesystem::exists(branch, error)) {
    prepared->config.run.branch = branch;
  }
  if (prepared->goes_on || prepared->config.run.branch.empty()) return absl::OkStatus();
  PosixFiles files;
  return Annotate(ReadBranchHead(files, prepared->config.run.branch).status(), "[run] branch");
}

// Returns a line about what keeps the run's figures from its trackers, which does not keep the run
// from starting; empty if nothing does.
std::string TrackingTrouble(const TrackingConfig& tracking) {
  if (!tracking.on()) return "";
  const std::string program = FindTrackingProgram(tracking, ProgramFolder());
  if (program.empty()) return NoTrackingProgramText();
  std::vector<std::string> check = {program, "--check"};
  for (std::string& one : TrackingTargets(tracking)) check.push_back(std::move(one));
  const absl::StatusOr<std::string> told = RunAndCapture(check, kTrackingSeconds);
  if (!told.ok()) return std::string(told.status().message());
  return absl::StrJoin(absl::StrSplit(*told, '\n', absl::SkipEmpty()), "; ");
}

absl::StatusOr<absl::Duration> TimeOption(const char* option, const std::string& text) {
  absl::Duration time;
  if (text.empty()) return absl::ZeroDuration();
  if (absl::ParseDuration(text, &time) && time >= absl::Seconds(1)) return time;
  return absl::InvalidArgumentError(absl::StrCat(
      option, " must be a time of at least a second, like 90s or 2m, not '", text, "'"));
}

absl::Status PreparePlan(const LocalOptions& options, LocalPreparation* prepared) {
  LocalPlan& plan = prepared->plan;
  absl::StatusOr<std::vector<RampStep>> ramp = ParseRamp(options.ramp);
  if (!ramp.ok()) return Annotate(ramp.status(), "--ramp");
  plan.ramp = *std::move(ramp);
  absl::StatusOr<std::vector<PeerLine>> lines = ParsePeerLines(options.lines);
  if (!lines.ok()) return Annotate(lines.status(), "--lines");
  plan.lines = *std::move(lines);
  absl::StatusOr<std::vector<double>> speeds = ParseSpeeds(options.speeds);
  if (!speeds.ok()) return Annotate(speeds.status(), "--speeds");
  plan.speeds = *std::move(speeds);
  if (!plan.speeds.empty() && !CanBeSlower(prepared->config.model.kind)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--speeds: only atoll-worker and the stub can play slower machines, and a "
                     "model of kind '",
                     prepared->config.model.kind, "' has another worker"));
  }
  absl::StatusOr<std::vector<uint32_t>> ranks = ParseLoraRanks(options.lora_ranks);
  if (!ranks.ok()) return Annotate(ranks.status(), "--lora-ranks");
  plan.lora_ranks = *std::move(ranks);
  const ConfigModel& model = prepared->config.model;
  for (const uint32_t rank : plan.lora_ranks) {
    RETURN_IF_ERROR(CheckFirstRanks(rank, model.lora_rank, model.lora_slice, "--lora-ranks"));
  }
  ASSIGN_OR_RETURN(plan.kill_every, TimeOption("--kill-every", options.kill_every));
  ASSIGN_OR_RETURN(plan.pause_every, TimeOption("--pause-every", options.pause_every));
  ASSIGN_OR_RETURN(plan.down, TimeOption("--down", options.down));
  return absl::OkStatus();
}

uint32_t MostPeersOf(const LocalPreparation& prepared) {
  return MostPeers(prepared.plan.ramp, prepared.config.run.peers);
}

// Inspects what the first peer reads, which stands for the others.
absl::Status InspectLocalData(const std::string& worker, const LocalPreparation& prepared,
                              Config* config) {
  Config first = *config;
  if (HasPeerPlace(first.data.path)) {
    RETURN_IF_ERROR(CheckPeerPaths(first.data, MostPeersOf(prepared), ""));
    first.data.path = PathOfPeer(first.data.path, 1);
  }
  RETURN_IF_ERROR(CheckDataSize(first));
  RETURN_IF_ERROR(InspectData(worker, &first, ConfigUse::kLocal).status());
  config->model.vocabulary = first.model.vocabulary;
  return absl::OkStatus();
}

// Returns the plan's changes to a process's config.
AdjustConfig AdjustmentOf(const LocalPreparation& prepared) {
  return
      [plan = prepared.plan, nodes = prepared.nodes](const LocalProcess& process, Config* config) {
        if (process.role != "peer") return;
        LimitLine(plan.lines, process.id, &config->machine);
        if (!plan.speeds.empty()) config->worker.slower = SpeedOf(plan.speeds, process.id);
        if (!plan.lora_ranks.empty()) {
          config->worker.lora_rank = LoraRankOf(plan.lora_ranks, process.id);
        }
        const auto node = nodes.find(process.id);
        if (node == nodes.end()) return;
        config->peer.listen = absl::StrCat(node->second, ":0");
        config->peer.advertise = Config::Peer().advertise;
      };
}

// Looks up the nodes of this process and of each peer in the lab.
absl::Status PrepareNodes(const LocalOptions& options, LocalPreparation* prepared) {
  if (options.topology.empty()) return absl::OkStatus();
  prepared->nodes = LabNodes();
  for (uint32_t peer = 1; peer <= MostPeersOf(*prepared); ++peer) {
    const std::string id = absl::StrCat("peer-", peer);
    if (prepared->nodes.count(id) > 0) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(options.topology, ": there is no node ", id,
                     "; write [region.peer] with peers = ", MostPeersOf(*prepared)));
  }
  prepared->config.coordinator.address = Config::Coordinator().address;
  prepared->config.coordinator.listen.clear();
  return absl::OkStatus();
}

// Makes the peers' processes start on their nodes. A pid of an earlier lab has no meaning in this
// one.
void PutOnNodes(const LocalPreparation& prepared, LocalLayout* layout) {
  if (prepared.nodes.empty()) return;
  for (LocalProcess& process : layout->processes) {
    std::error_code error;
    if (process.pid == 0) std::filesystem::remove(absl::StrCat(process.dir, "/pid"), error);
    if (process.role != "peer") continue;  // this process is on the coordinator's node
    const std::vector<std::string> there = OnLabNode(process.id);
    process.command.insert(process.command.begin(), there.begin(), there.end());
  }
}

absl::Status PrepareAddresses(const LocalOptions& options, LocalPreparation* prepared) {
  RETURN_IF_ERROR(PrepareNodes(options, prepared));
  const bool in_lab = !prepared->nodes.empty();
  const std::string listen =
      in_lab ? absl::StrCat(prepared->nodes[kLabCoordinator], kLabPort) : options.listen;
  RETURN_IF_ERROR(TakeLocalAddresses({listen, options.port}, &prepared->config));
  if (prepared->goes_on && options.port == 0) return absl::OkStatus();
  if (prepared->goes_on) {
    return absl::InvalidArgumentError("--port is for a new run; one that goes on keeps its own");
  }
  if (!listen.empty() || NamesCoordinator(prepared->config)) {
    return OpenLocalAddresses(&prepared->config);
  }
  ASSIGN_OR_RETURN(prepared->port, FreeLoopbackPort(options.port));
  return absl::OkStatus();
}

// Checks everything that can be wrong with the call, its config and this installation. If it
// returns OK, `prepared` is complete.
absl::Status PrepareLocalRun(const LocalOptions& options, LocalPreparation* prepared) {
  std::error_code error;
  const absl::Time now = absl::Now();
  const std::string dir =
      options.dir.empty() ? absl::FormatTime("atoll-run-%Y%m%d-%H%M%S", now, absl::LocalTimeZone())
                          : options.dir;
  std::filesystem::path path = std::filesystem::absolute(dir, error).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "DIR/"
  prepared->dir = path.string();
  prepared->goes_on = access(absl::StrCat(prepared->dir, "/", kPeersFile).c_str(), F_OK) == 0;
  RETURN_IF_ERROR(LoadRunConfig(options, prepared));
  RETURN_IF_ERROR(PreparePlan(options, prepared));
  if (prepared->config.run.id.empty()) {
    prepared->config.run.id = MakeRunId(options.config_path, now);
  }
  const std::filesystem::path json_folder =
      std::filesystem::absolute(options.json, error).parent_path();
  if (!options.json.empty() && options.json != "-" && json_folder.lexically_normal() != path &&
      access(json_folder.c_str(), W_OK) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--json ", options.json, ": the folder is not there or cannot be written"));
  }
  prepared->atolld = absl::StrCat(ProgramFolder(), "/atolld");
  if (access(prepared->atolld.c_str(), X_OK) != 0) {
    return absl::NotFoundError(
        absl::StrCat(prepared->atolld, " is missing; the target atolld builds it"));
  }
  ASSIGN_OR_RETURN(prepared->worker,
                   FindWorker(prepared->config.worker.program, prepared->config.model.kind));
  const std::string atoll_worker = ProgramFolder() + "/atoll-worker";
  RETURN_IF_ERROR(CheckDataApart(prepared->config.data, prepared->dir));
  RETURN_IF_ERROR(InspectLocalData(atoll_worker, *prepared, &prepared->config));
  RETURN_IF_ERROR(CheckDevices(atoll_worker, prepared->config));
  RETURN_IF_ERROR(CheckFits(prepared->config, MostPeersOf(*prepared), ReadProcessLimits().memory));
  RETURN_IF_ERROR(CheckTrainingFits(prepared->config));
  return PrepareAddresses(options, prepared);
}

// -----------------------------------------------------------------------------------------------

constexpr absl::Duration kTick = absl::Milliseconds(250);
// Peers of a sealed run write their last snapshot and end; one that takes longer is asked to end.
constexpr double kSealedSeconds = 60;
// How long the end of a peer may be known before the news of the run arrives.
constexpr double kNewsSeconds = 3;
constexpr absl::Duration kPatience = absl::Seconds(15);
constexpr size_t kLogTail = 5;

std::string LastLines(const std::string& path, size_t count) {
  const std::string tail = TailOfLog(path);
  if (tail.empty()) return "";
  std::vector<absl::string_view> lines =
      absl::StrSplit(absl::StripTrailingAsciiWhitespace(tail), '\n');
  lines.erase(lines.begin(), lines.end() - std::min(count, lines.size()));
  return absl::StrCat("\n  ", absl::StrJoin(lines, "\n  "));
}

// Signals that come together count as one: `timeout` signals the process and then its group.
constexpr double kSignalsTogetherSeconds = 1;

// As the coordinator computes it.
size_t QuorumOf(const Config::Run& run) { return run.quorum == 0 ? run.peers / 2 + 1 : run.quorum; }

enum class Ending { kSealed, kInterrupted, kFailedToStart, kNoWorkerStarts };

// One run, from the start of its processes until they have ended.
class LocalRun {
 public:
  LocalRun(Files& files, LocalLayout layout, const LocalPreparation& prepared, FILE* out)
      : files_(files),
        layout_(std::move(layout)),
        processes_(layout_),
        follower_(prepared.plan, prepared.config.run.seed, prepared.config.run.peers,
                  layout_.processes.size() - 1, processes_),
        out_(out),
        terminal_(TerminalOf(out)),
        start_watch_(QuorumOf(prepared.config.run)) {
    gone_.resize(layout_.processes.size());
    if (terminal_.redraws) screen_ = std::make_unique<LiveScreen>(out_);
  }

  // The coordinator alone: the peers follow when it answers, so that none of them can be given the
  // port that was chosen for it.
  absl::Status Start() {
    RETURN_IF_ERROR(processes_.Start(0));
    watcher_ = std::make_unique<RunWatcher>(AccessOf(files_, layout_.coordinator()), waker_);
    return absl::OkStatus();
  }

  Ending Watch() {
    while (true) {
      const bool interrupted = signals_->Wait(waker_, kTick);
      if (interrupted || NobodyReads()) return End(Ending::kInterrupted);
      TakeNews();
      if (!StartPeers() || !TakeChanges() || !FollowPlan()) return End(Ending::kFailedToStart);
      AnnounceGone();
      if (NoWorkerStarts()) return End(Ending::kNoWorkerStarts);
      Draw();
      if (history_.sealed() && SealedAndGone()) return End(Ending::kSealed);
    }
  }

  const RunHistory& history() const { return history_; }
  const LocalLayout& layout() const { return layout_; }
  // A round was committed, as far as has been heard.
  bool begun() const { return !history_.rounds().empty() || history_.newest().version() > 0; }

  // Why it ended without being asked to, in one line; empty: it did not.
  const std::string& why() const { return why_; }

  std::vector<PeerProcess> PeerProcesses() const {
    std::vector<PeerProcess> peers;
    for (size_t i = 1; i < layout_.processes.size(); ++i) {
      peers.push_back({layout_.processes[i].id, layout_.processes[i].pid, processes_.exit(i)});
    }
    return peers;
  }

  // Prints one or several lines. The processes are looked after even if the output is not read.
  void Say(const std::string& text) {
    for (const absl::string_view line : absl::StrSplit(text, '\n')) {
      if (screen_ != nullptr) {
        screen_->PrintAbove(std::string(line));
      } else {
        said_.Say(line);
      }
    }
  }

 private:
  // Says why the run ends here. Of several lines the first and the last are kept. False.
  bool Fail(const std::string& why) {
    Say(why);
    const std::vector<std::string> lines = absl::StrSplit(why, '\n');
    why_ = lines.size() == 1
               ? why
               : absl::StrCat(lines.front(), " ", absl::StripAsciiWhitespace(lines.back()));
    return false;
  }

  // A process that has ended and was not told of yet.
  struct Gone {
    bool untold = false;
    double since = 0;
    LocalProcesses::Change change;
  };

  bool is_peer(size_t index) const { return layout_.processes[index].role == "peer"; }

  // As in `atoll local | head`, once head has ended.
  bool NobodyReads() const {
    pollfd output = {fileno(out_), 0, 0};
    return poll(&output, 1, 0) > 0 && (output.revents & POLLERR) != 0;
  }

  // Once, at the coordinator's first word. False: they cannot be started.
  bool StartPeers() {
    if (peers_started_ || !heard_) return true;
    peers_started_ = true;
    const std::string dashboard = ReadHttpFile(files_, layout_.coordinator().dir);
    if (!dashboard.empty()) Say(absl::StrCat("dashboard: ", dashboard));
    absl::Status status;
    const uint64_t version = history_.newest().version();
    for (size_t i = 1; i < layout_.processes.size() && status.ok(); ++i) {
      if (follower_.Wants(i, version)) status = processes_.Start(i);
    }
    if (status.ok()) status = WritePeersFile(files_, layout_);
    return status.ok() || Fail(std::string(status.message()));
  }

  // False: a peer that the plan wants cannot be started.
  bool FollowPlan() {
    if (!peers_started_ || history_.sealed()) return true;
    const absl::StatusOr<std::vector<std::string>> done =
        follower_.Follow(history_.newest().version(), MonotonicSeconds());
    if (!done.ok()) return Fail(std::string(done.status().message()));
    for (const std::string& line : *done) Say(line);
    if (!done->empty()) SavePeersFile();
    return true;
  }

  void TakeNews() {
    bool addresses_changed = false;
    for (const v1::RunStatus& status : watcher_->Take()) {
      heard_ = true;
      history_.Take(status, MonotonicSeconds());
      const std::vector<std::string> lines = plain_.Tell(history_, status);
      // On a terminal rounds are seen in the view; what happened stays above it.
      if (screen_ == nullptr) {
        for (const std::string& line : lines) Say(line);
      } else {
        for (const std::string& event : NotableEvents(status)) Say(event);
      }
      for (const v1::PeerStatus& peer : status.peers()) {
        for (LocalProcess& process : layout_.processes) {
          if (process.id != peer.member().peer() || process.address == peer.member().address() ||
              peer.member().address().empty()) {
            continue;
          }
          process.address = peer.member().address();
          addresses_changed = true;
        }
      }
    }
    if (addresses_changed) SavePeersFile();
  }

  // False: a process could not even start.
  bool TakeChanges() {
    bool pids_changed = false;
    for (const LocalProcesses::Change& change : processes_.Poll()) {
      const LocalProcess& process = layout_.processes[change.index];
      if (change.started) {
        pids_changed = true;
        gone_[change.index].untold = false;
        notes_.erase(process.id);
        Say(absl::StrCat(NameOf(change.index), " is back (pid ", change.pid, ")"));
        continue;
      }
      const bool wanted = follower_.Wants(change.index, history_.newest().version());
      if (wanted && !processes_.was_started(change.index) && !history_.sealed()) {
        if (!StartInPlaceOf(change)) return false;
        pids_changed = true;
        continue;
      }
      notes_[process.id] = change.exit ? change.exit->Predicate() : "has ended";
      const bool untold = !follower_.CausedAbsence(change.index);
      gone_[change.index] = Gone{untold, MonotonicSeconds(), change};
    }
    if (pids_changed) SavePeersFile();
    for (size_t i = 0; i < gone_.size(); ++i) {
      const std::optional<ExitStatus>& exit = gone_[i].change.exit;
      const bool refused = gone_[i].untold && exit && exit->signal == 0 && !exit->ok();
      if (!refused || begun() || MayHearMore(i)) continue;
      return Fail(
          absl::StrCat(NameOf(i), " ", exit->Predicate(), " at its start:",
                       LastLines(absl::StrCat(layout_.processes[i].dir, "/log.txt"), kLogTail)));
    }
    return true;
  }

  // True: it is said why, and waiting is of no use.
  bool NoWorkerStarts() {
    const std::optional<std::string> why = start_watch_.Hopeless(
        history_, follower_.WantedAt(history_.newest().version()), MonotonicSeconds());
    return why.has_value() && !Fail(*why);
  }

  // Restarts a process that ran already when the run was continued here: a child of an `atoll
  // local` that was killed ends in order, and is started as if it had been missing. Returns false
  // if it cannot be.
  bool StartInPlaceOf(const LocalProcesses::Change& ended) {
    if (is_peer(ended.index) && !peers_started_) return true;  // it will be, with the others
    Say(absl::StrCat(NameOf(ended.index), " (pid ", ended.pid,
                     "), which ran already, has ended; it is started again"));
    const absl::Status started = processes_.Start(ended.index);
    return started.ok() || Fail(std::string(started.message()));
  }

  // Returns true if news about a peer that has just ended may still come from the coordinator.
  bool MayHearMore(size_t index) const {
    return is_peer(index) && MonotonicSeconds() - gone_[index].since < kNewsSeconds;
  }

  std::string NameOf(size_t index) const {
    return is_peer(index) ? layout_.processes[index].id : "the coordinator";
  }

  void AnnounceGone() {
    for (size_t i = 0; i < gone_.size(); ++i) {
      Gone& gone = gone_[i];
      if (!gone.untold) continue;
      const std::optional<ExitStatus>& exit = gone.change.exit;
      // At the end peers go by themselves, often before the news that the run is sealed.
      const bool by_itself = is_peer(i) && (!exit || exit->ok());
      if (by_itself && history_.sealed()) gone.untold = false;
      if (!gone.untold || ((by_itself || !begun()) && MayHearMore(i))) continue;
      gone.untold = false;
      const bool alone = is_peer(i) && !processes_.any_peer_running();
      Say(absl::StrCat(NameOf(i), " (pid ", gone.change.pid, ") ",
                       exit ? exit->Predicate() : "has ended", "; ",
                       alone        ? "no peer runs now, the run waits for one (Ctrl-C ends it)"
                       : is_peer(i) ? "the others go on"
                                    : "peers keep training",
                       ". Start it again with: ", ShellCommand(layout_.processes[i].command)));
    }
  }

  void Draw() {
    if (screen_ == nullptr) return;
    screen_->Draw(RenderLiveView(history_, notes_, history_.elapsed_seconds(MonotonicSeconds()),
                                 TerminalWidth(out_), terminal_.charset));
  }

  // Those that their trace or their owner keeps away do not hear that the run is over.
  bool OnlyAwayOnesRun() const {
    for (size_t i = 0; i < layout_.processes.size(); ++i) {
      if (!is_peer(i) || !processes_.running(i)) continue;
      const auto peer = history_.peers().find(layout_.processes[i].id);
      if (peer == history_.peers().end() || peer->second.newest.member().state() != "left") {
        return false;
      }
    }
    return true;
  }

  // Every peer has gone and all that will be told of their last states is known.
  bool SealedAndGone() {
    if (!sealed_since_) sealed_since_ = MonotonicSeconds();
    const double waited = MonotonicSeconds() - *sealed_since_;
    if (processes_.any_peer_running()) {
      const bool due = waited >= kSealedSeconds || (waited >= kNewsSeconds && OnlyAwayOnesRun());
      if (!due || asked_to_end_) return false;
      asked_to_end_ = true;
      Say("the run is sealed, but not every peer has ended: the others are told to end");
      for (size_t i = 0; i < layout_.processes.size(); ++i) {
        if (is_peer(i)) processes_.Terminate(i);
      }
      return false;
    }
    for (const auto& [id, peer] : history_.peers()) {
      const bool told = peer.newest.state_version() == history_.newest().seal().version();
      if (!told && notes_.count(id) > 0 && waited < kNewsSeconds && processes_.running(0))
        return false;
    }
    return true;
  }

  Ending End(Ending ending) {
    const double since = MonotonicSeconds();
    if (screen_ != nullptr && ending == Ending::kSealed) Draw();
    screen_.reset();
    if (ending == Ending::kInterrupted) Say("stopping: each peer finishes its round ...");
    std::vector<size_t> peers;
    for (size_t i = 0; i < layout_.processes.size(); ++i) {
      if (is_peer(i)) peers.push_back(i);
    }
    processes_.Stop(peers, kPatience);
    // The round that they have finished is part of what was reached.
    for (int look = 0; ending == Ending::kInterrupted && look < 2 && processes_.running(0);
         ++look) {
      signals_->Wait(waker_, kTick);
      TakeNews();
    }
    watcher_.reset();
    processes_.Stop({0}, kPatience);
    while (ending == Ending::kInterrupted && MonotonicSeconds() - since < kSignalsTogetherSeconds) {
      signals_->Wait(waker_, kTick);
    }
    signals_.reset();  // nothing is left to put in order
    return ending;
  }

  void SavePeersFile() {
    const absl::Status written = WritePeersFile(files_, layout_);
    if (!written.ok())
      Say(absl::StrCat("peers.json could not be brought up to date: ", written.message()));
  }

  Files& files_;
  LocalLayout layout_;
  std::optional<SignalWaiter> signals_{std::in_place};  // before anything that makes threads
  Waker waker_;
  LocalProcesses processes_;
  PlanFollower follower_;
  FILE* const out_;
  const Terminal terminal_;  // behind out_
  SaidLines said_{out_};
  std::unique_ptr<LiveScreen> screen_;
  std::unique_ptr<RunWatcher> watcher_;
  RunHistory history_;
  PlainLines plain_;
  std::map<std::string, std::string> notes_;  // what became of a process that does not run, by id
  std::vector<Gone> gone_;
  std::optional<double> sealed_since_;
  StartWatch start_watch_;
  std::string why_;
  bool heard_ = false;  // of the coordinator
  bool peers_started_ = false;
  bool asked_to_end_ = false;
};

// Returns the lines about a run that ended too early. Its folder stays: it holds the reason, and
// the state from which the run can continue.
std::vector<std::string> WhatIsLeft(const LocalRun& run) {
  const std::string& dir = run.layout().dir;
  const std::string go_on =
      absl::StrCat("Go on with: ", ShellCommand({"atoll", "local", "--dir", dir}));
  if (!run.begun()) {
    return {absl::StrCat("no round was committed; ", dir, "/*/log.txt say what happened"), go_on};
  }
  return {absl::StrCat("stopped at round ", run.history().newest().version(), " of ",
                       run.history().newest().spec().rounds(), "; the run is in ", dir),
          go_on};
}

// Lays out a new run, or opens the one in the folder. The lock comes first: the process that holds
// it makes the layout, or has the processes.
absl::StatusOr<LocalLayout> LayOut(Files& files, LocalPreparation* prepared,
                                   std::optional<FolderLock>* lock) {
  if (!prepared->goes_on) RETURN_IF_ERROR(CheckNewFolder(files, prepared->dir));
  RETURN_IF_ERROR(files.MakeDirectories(prepared->dir));
  ASSIGN_OR_RETURN(FolderLock taken, FolderLock::Take(prepared->dir));
  lock->emplace(std::move(taken));
  const AdjustConfig adjust = AdjustmentOf(*prepared);
  if (!prepared->goes_on) {
    ASSIGN_OR_RETURN(LocalLayout made,
                     MakeLocalLayout(files, prepared->config, prepared->dir, prepared->port,
                                     prepared->atolld, adjust, MostPeersOf(*prepared)));
    RETURN_IF_ERROR(WriteRunConfig(files, prepared->dir, prepared->config));
    PutOnNodes(*prepared, &made);
    return made;
  }
  ASSIGN_OR_RETURN(LocalLayout layout, OpenLocalLayout(files, prepared->config, prepared->dir,
                                                       prepared->atolld, adjust));
  PutOnNodes(*prepared, &layout);
  if (layout.coordinator().pid != 0) return layout;
  RETURN_IF_ERROR(
      Annotate(ListenTcp(layout.listened).status(), "the run's coordinator needs its address"));
  return layout;
}

LocalEpilogue EpilogueOf(const LocalOptions& options, const LocalPreparation& prepared, FILE* out) {
  LocalEpilogue epilogue;
  epilogue.dir = prepared.dir;
  epilogue.config = options.config_path.empty() ? absl::StrCat(prepared.dir, "/", kRunConfig)
                                                : options.config_path;
  // A stub has learned nothing that could be shown or taken away; what a model of the user's own
  // has learned is its worker's to show.
  const std::string& kind = prepared.config.model.kind;
  epilogue.worker = kind == kStubKind || IsForeign(kind) ? "" : prepared.worker;
  if (prepared.config.model.lora_rank != 0) epilogue.base = prepared.config.model.base;
  epilogue.json = options.json;
  epilogue.columns = TerminalWidth(out);
  epilogue.charset = TerminalOf(out).charset;
  epilogue.out = out;
  return epilogue;
}

}  // namespace

VerbExit RunLocal(const LocalOptions& options) {
  if (!options.topology.empty() && !InLab()) {
    return Annotate(EnterLab({options.topology, kLabCoordinator, true}), "--topology");
  }
  PosixFiles files;
  LocalPreparation prepared;
  RETURN_IF_ERROR(PrepareLocalRun(options, &prepared));
  std::optional<FolderLock> lock;
  ASSIGN_OR_RETURN(LocalLayout layout, LayOut(files, &prepared, &lock));
  signal(SIGPIPE, SIG_IGN);  // a reader that has gone ends the run in order
  // With "--json -" standard output is the report's alone.
  FILE* const out = options.json == "-" ? stderr : stdout;
  LocalRun run(files, std::move(layout), prepared, out);
  RETURN_IF_ERROR(run.Start());
  run.Say(absl::StrCat(prepared.goes_on ? "going on with the run" : "run ",
                       prepared.goes_on ? "" : prepared.config.run.id, " in ", prepared.dir,
                       ": coordinator at ", run.layout().advertised, ", ",
                       Counted(run.layout().processes.size() - 1, "peer"), ", logs in ",
                       prepared.dir, "/*/log.txt"));
  if (prepared.nodes.empty() && !IsLoopback(run.layout().advertised)) {
    run.Say(absl::StrCat("others can join: ",
                         ShellCommand({"atoll", "token", "create", "--dir", prepared.dir})));
  }
  const std::string untracked = TrackingTrouble(prepared.config.tracking);
  if (!untracked.empty()) run.Say(absl::StrCat("note: ", untracked));
  const CoreLimit cores = ReadProcessLimits().cores;
  const size_t workers = MostPeersOf(prepared);
  const uint64_t threads = prepared.config.worker.threads;
  if (threads > 1 && workers * threads > cores.threads()) {
    run.Say(absl::StrCat("note: ", Counted(workers, "worker"), " of [worker] threads = ", threads,
                         " share ", Describe(cores), "; fewer threads are faster"));
  }
  const Ending ending = run.Watch();
  std::string why = run.why();
  if (ending == Ending::kSealed || run.begun()) {
    const LocalReport report = MakeLocalReport(run.history(), run.PeerProcesses());
    const std::string failed =
        FinishLocalRun(files, run.history(), report, EpilogueOf(options, prepared, out));
    if (why.empty()) why = failed;
  }
  if (ending == Ending::kSealed && why.empty()) return kDone;
  FILE* const where = ending == Ending::kInterrupted ? out : stderr;
  std::fflush(out);  // both may be one file
  if (ending != Ending::kSealed) {
    for (const std::string& line : WhatIsLeft(run)) PrintLine(where, line);
  }
  // Last, so that the starter of this process finds it in the log below all other lines.
  if (!why.empty()) PrintLine(where, absl::StrCat(kWhyItEnded, why));
  return kFailed;
}

}  // namespace atolld
