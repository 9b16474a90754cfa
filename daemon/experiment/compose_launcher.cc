#include "daemon/experiment/compose_launcher.h"

#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "daemon/cli/run_metrics.h"
#include "daemon/experiment/compose_file.h"
#include "daemon/experiment/run_log.h"
#include "daemon/program/process.h"
#include "membership/history/digest.h"

namespace atolld {
namespace {

using Stage = ComposeLauncher::Stage;

constexpr char kResultsThere[] = "/data/results";  // in the coordinator's container
constexpr char kContainerLogs[] = "containers.txt";
// The watch ends with its container, which Compose starts again; repeated restarts are up to a
// minute apart.
constexpr double kPatienceSeconds = 120;
constexpr double kAgainSeconds = 1;
constexpr char kPeersNow[] = "peers.txt";  // what the last look at their containers has shown
constexpr uint64_t kMostPeersNow = 1 << 20;
// The time between two looks at the peers' containers.
constexpr double kLookSeconds = 5;
// After the seal `atoll run watch` waits up to 30 s for the last report of peers that have ended
// well. If all peers are down for longer and there is no seal, they have left.
constexpr double kSealedSeconds = 45;
constexpr size_t kDigestShown = 4;  // bytes of it: two experiments' folders meet once in 2^32

const char* NameOf(Stage stage) {
  switch (stage) {
    case Stage::kClear:
      return "docker compose down";
    case Stage::kUp:
      return "docker compose up";
    case Stage::kWatch:
      return "atoll run watch";
    case Stage::kFigures:
    case Stage::kReport:
      return "reading the results";
    case Stage::kLogs:
      return "docker compose logs";
    case Stage::kDown:
      return "docker compose down";
  }
  return "";
}

}  // namespace

std::string ComposeProject(const std::string& dir, const std::string& run_id) {
  const std::string digest =
      ToBytes(DigestBuilder("atoll.compose.project.1").Bytes(dir).Finish()).substr(0, kDigestShown);
  return absl::StrCat("atoll-", absl::BytesToHexString(digest), "-", run_id);
}

ComposeLauncher::ComposeLauncher(Files& files, const Experiment& experiment, std::string dir,
                                 std::vector<std::string> compose, std::vector<RunPlan> plans)
    : files_(files),
      experiment_(experiment),
      dir_(std::move(dir)),
      compose_(std::move(compose)),
      plans_(std::move(plans)) {}

ComposeLauncher::~ComposeLauncher() {
  for (const auto& [run, running] : running_) {
    if (running.pid != 0) kill(running.pid, SIGTERM);
    if (running.look_pid != 0) kill(running.look_pid, SIGTERM);
  }
}

std::string ComposeLauncher::ComposePath(size_t run) const {
  return absl::StrCat(dir_, "/compose/", plans_[run].id, ".yml");
}

std::vector<std::string> ComposeLauncher::CommandOf(size_t run, Stage stage) const {
  const RunPaths paths = Paths(run);
  std::vector<std::string> command;
  const auto redirected = [&](const std::string& path) {
    command = {"/bin/sh", "-c", "exec \"$@\" > \"$0\"", path};
  };
  if (stage == Stage::kFigures) redirected(absl::StrCat(paths.dir, "/", kMetricsFile));
  if (stage == Stage::kReport) redirected(paths.report);
  if (stage == Stage::kLogs) redirected(LogsPath(run));
  command.insert(command.end(), compose_.begin(), compose_.end());
  command.insert(command.end(),
                 {"-p", ComposeProject(dir_, plans_[run].id), "-f", ComposePath(run)});
  const auto add = [&](const std::vector<std::string>& words) {
    command.insert(command.end(), words.begin(), words.end());
  };
  const auto inside = [&](const std::vector<std::string>& words) {
    add({"exec", "-T", "coordinator"});
    add(words);
  };
  switch (stage) {
    case Stage::kClear:
    case Stage::kDown:
      add({"down", "-v", "--remove-orphans"});
      break;
    case Stage::kUp:
      add({"up", "-d", "--no-build"});
      break;
    case Stage::kWatch:
      inside({"atoll", "run", "watch", "--coordinator", "127.0.0.1:7070", "--identity",
              "/data/coordinator/admin", "--results", kResultsThere});
      break;
    case Stage::kFigures:
      inside({"cat", absl::StrCat(kResultsThere, "/", kMetricsFile)});
      break;
    case Stage::kReport:
      inside({"cat", absl::StrCat(kResultsThere, "/", kReportOfRun)});
      break;
    case Stage::kLogs:
      add({"logs", "--no-color"});
      break;
  }
  return command;
}

std::string ComposeLauncher::LookPath(size_t run) const {
  return absl::StrCat(Paths(run).dir, "/", kPeersNow);
}

std::string ComposeLauncher::LogsPath(size_t run) const {
  return absl::StrCat(Paths(run).dir, "/", kContainerLogs);
}

std::vector<std::string> ComposeLauncher::LookCommand(size_t run) const {
  // What it complains of is not the run's to tell.
  std::vector<std::string> command = {"/bin/sh", "-c", "exec \"$@\" > \"$0\" 2>&1", LookPath(run)};
  const std::vector<std::string> list = ListPeersCommand(ComposeProject(dir_, plans_[run].id));
  command.insert(command.end(), list.begin(), list.end());
  return command;
}

bool ComposeLauncher::Finished(size_t run) { return IsFinishedRun(files_, Paths(run)); }

absl::Status ComposeLauncher::Begin(size_t run, Stage stage, Running* running) {
  running->stage = stage;
  ASSIGN_OR_RETURN(running->pid, StartProcess(CommandOf(run, stage), Paths(run).log));
  return absl::OkStatus();
}

absl::Status ComposeLauncher::Start(size_t run) {
  const RunPlan& plan = plans_[run];
  const RunPaths paths = Paths(run);
  const std::string path = ComposePath(run);
  const std::string folder = path.substr(0, path.size() - std::string(".yml").size());
  std::error_code error;  // what is not there need not be taken away
  for (const std::string& old : {paths.log, paths.report, paths.dir, path, folder}) {
    std::filesystem::remove_all(old, error);
  }
  RETURN_IF_ERROR(files_.MakeDirectories(paths.dir));
  ASSIGN_OR_RETURN(const ComposeFiles made, MakeCompose(experiment_, plan.setting, plan.seed,
                                                        ComposeFolder(path), ComposeUse::kDriven));
  RETURN_IF_ERROR(WriteCompose(made, path).status());
  Running running;
  RETURN_IF_ERROR(Begin(run, Stage::kClear, &running));
  running_[run] = running;
  return absl::OkStatus();
}

void ComposeLauncher::Look(size_t run, Running* running) {
  const double now = MonotonicSeconds();
  const bool watches = running->stage == Stage::kWatch && running->why.empty();
  if (running->look_pid != 0) {
    const std::optional<ExitStatus> exit = ChildProcess::Reap(running->look_pid);
    if (!exit) return;
    running->look_pid = 0;
    running->look_at = now + kLookSeconds;
    const absl::StatusOr<std::string> listing = ReadFile(files_, LookPath(run), kMostPeersNow);
    const bool good = exit->ok() && listing.ok();
    if (watches) JudgePeers(good ? ParsePeerList(*listing) : std::vector<PeerContainer>(), running);
    return;
  }
  if (!watches || now < running->look_at) return;
  const absl::StatusOr<pid_t> pid = StartProcess(LookCommand(run), Paths(run).log);
  if (pid.ok()) running->look_pid = *pid;
  running->look_at = now + kLookSeconds;
}

void ComposeLauncher::JudgePeers(const std::vector<PeerContainer>& peers, Running* running) {
  if (!AllEnded(peers)) {
    running->ended_since.reset();
    return;
  }
  const double now = MonotonicSeconds();
  if (!running->ended_since) running->ended_since = now;
  if (!AllFailed(peers) && now < *running->ended_since + kSealedSeconds) return;
  running->ended = peers;
  running->why = DescribeEndedPeers(peers, {});  // with their last lines once the logs are here
  if (running->pid != 0) kill(running->pid, SIGTERM);
}

bool ComposeLauncher::WatchesAgain(size_t run, Running* running) {
  const double now = MonotonicSeconds();
  const uint64_t round = Round(run);
  if (!running->failing_since || round > running->round) running->failing_since = now;
  running->round = round;
  running->again_at = now + kAgainSeconds;
  return now < *running->failing_since + kPatienceSeconds;
}

Stage ComposeLauncher::Next(size_t run, bool good, const std::string& how, Running* running) {
  const Stage stage = running->stage;
  if (stage == Stage::kLogs) return Stage::kDown;  // they are for people, and may be missing
  if (running->why.empty()) {
    if (good) return static_cast<Stage>(static_cast<int>(stage) + 1);
    if (stage == Stage::kWatch && WatchesAgain(run, running)) return Stage::kWatch;
    const std::string log = Paths(run).log;
    running->why =
        absl::StrCat("`", NameOf(stage), "` ", how, ": ", LastLineOf(log), " (", log, ")");
  }
  return stage == Stage::kClear ? Stage::kDown : Stage::kLogs;
}

LaunchEnd ComposeLauncher::End(size_t run, bool good, const std::string& how) {
  const Running& running = running_[run];
  std::string why = running.why;
  if (!running.ended.empty()) {
    const std::string logs = LogsPath(run);
    why = absl::StrCat(DescribeEndedPeers(running.ended, LastLinesOfPeers(logs, running.ended)),
                       " (", logs, ")");
  }
  running_.erase(run);
  const std::string log = Paths(run).log;
  if (why.empty() && !good) {
    why = absl::StrCat("`", NameOf(Stage::kDown), "` ", how, ": ", LastLineOf(log), " (", log, ")");
  }
  if (why.empty() && !Finished(run)) {
    why = absl::StrCat("the containers have left no report of a sealed run (", log, ")");
  }
  return {why.empty(), why};
}

std::optional<LaunchEnd> ComposeLauncher::Ended(size_t run) {
  const auto found = running_.find(run);
  if (found == running_.end()) return LaunchEnd{false, "it was not started"};
  Running& running = found->second;
  Look(run, &running);
  Stage next = running.why.empty() ? Stage::kWatch : Stage::kLogs;
  if (running.pid == 0) {
    if (running.why.empty() && MonotonicSeconds() < running.again_at) return std::nullopt;
  } else {
    const std::optional<ExitStatus> exit = ChildProcess::Reap(running.pid);
    if (!exit) return std::nullopt;
    if (running.stage == Stage::kDown) return End(run, exit->ok(), exit->Predicate());
    next = Next(run, exit->ok(), exit->Predicate(), &running);
    running.pid = 0;
    if (next == running.stage) return std::nullopt;  // after a moment
  }
  const absl::Status begun = Begin(run, next, &running);
  if (begun.ok()) return std::nullopt;
  running_.erase(found);
  return LaunchEnd{false, std::string(begun.message())};
}

uint64_t ComposeLauncher::Round(size_t run) {
  // What a log of before tells of is gone with its containers.
  return running_.count(run) == 0 ? 0 : NewestRound(TailOfLog(Paths(run).log));
}

void ComposeLauncher::Stop(size_t run) {
  const auto found = running_.find(run);
  if (found == running_.end() || found->second.stage >= Stage::kLogs) return;
  found->second.why = "it was stopped";
  if (found->second.pid != 0) kill(found->second.pid, SIGTERM);
}

}  // namespace atolld
