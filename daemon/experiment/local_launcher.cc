#include "daemon/experiment/local_launcher.h"

#include <signal.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "compression/base/status_macros.h"
#include "daemon/cli/local_layout.h"
#include "daemon/config/config_text.h"
#include "daemon/config/config_value.h"
#include "daemon/env/posix_folder_lock.h"
#include "daemon/experiment/compose_file.h"
#include "daemon/experiment/run_log.h"
#include "daemon/program/process.h"

namespace atolld {
namespace {

// A rate that no process of one machine can fill, for a line that [links] does not limit.
constexpr char kOpenRate[] = "10Gbit";
// The longest wait of a packet before a line, as in containers (configs/docker/entrypoint).
constexpr char kQueue[] = "200ms";

std::string RateOr(uint64_t bytes_per_second) {
  return bytes_per_second == 0 ? kOpenRate : FormatLineRate(bytes_per_second);
}

void AddFaults(const FaultKeys& faults, std::vector<std::string>* command) {
  const std::pair<const char*, absl::Duration> options[] = {{"--kill-every", faults.kill_every},
                                                            {"--pause-every", faults.pause_every}};
  bool any = false;
  for (const auto& [option, every] : options) {
    if (every <= absl::ZeroDuration()) continue;
    any = true;
    command->insert(command->end(), {option, absl::FormatDuration(every)});
  }
  if (any) command->insert(command->end(), {"--down", absl::FormatDuration(faults.down)});
}

}  // namespace

std::string LabTopology(const std::vector<LinkKeys>& links, uint32_t peers, uint64_t seed) {
  std::string text = absl::StrCat(
      "# The lines of a run in the lab. Written by `atoll experiment run --in lab`.\n[lab]\nseed "
      "= ",
      seed, "\n\n[region.peer]\npeers = ", peers, "\nrate = \"", kOpenRate, "\"\nqueue = \"",
      kQueue, "\"\n");
  for (uint32_t peer = 1; peer <= peers; ++peer) {
    const LinkKeys* const link = LinkOf(links, absl::StrCat("party-", peer));
    if (link == nullptr) continue;
    // A node's rtt is that between it and the middle: once up and once down.
    absl::StrAppend(&text, "\n[peer.peer-", peer, "]\nup = \"", RateOr(link->up), "\"\ndown = \"",
                    RateOr(link->down), "\"\nrtt = \"", absl::ToInt64Microseconds(2 * link->delay),
                    "us\"\nloss = ", link->loss / 100, "\n");
  }
  return text;
}

LocalLauncher::LocalLauncher(Files& files, std::string dir, std::string program,
                             std::vector<RunPlan> plans, std::vector<LinkKeys> lab_links)
    : files_(files),
      dir_(std::move(dir)),
      program_(std::move(program)),
      plans_(std::move(plans)),
      lab_links_(std::move(lab_links)) {}

LocalLauncher::~LocalLauncher() {
  for (const auto& [run, pid] : pids_) kill(pid, SIGKILL);
}

std::vector<std::string> LocalLauncher::CommandOf(size_t run) const {
  const RunPlan& plan = plans_[run];
  const RunPaths paths = Paths(run);
  std::vector<std::string> command = {program_, "local",   "--config", paths.config,
                                      "--dir",  paths.dir, "--json",   paths.report};
  if (!plan.keys.ramp.empty()) command.insert(command.end(), {"--ramp", plan.keys.ramp});
  if (!plan.keys.speeds.empty()) command.insert(command.end(), {"--speeds", plan.keys.speeds});
  if (!lab_links_.empty()) command.insert(command.end(), {"--topology", TopologyPath(run)});
  AddFaults(plan.keys.faults, &command);
  return command;
}

bool LocalLauncher::Finished(size_t run) { return IsFinishedRun(files_, Paths(run)); }

bool LocalLauncher::Busy(size_t run) { return HolderOf(Paths(run).dir).has_value(); }

absl::Status LocalLauncher::Start(size_t run) {
  const RunPaths paths = Paths(run);
  // One that was killed before its processes were listed has not begun.
  if (files_.Exists(paths.dir) && !files_.Exists(absl::StrCat(paths.dir, "/", kPeersFile))) {
    std::error_code error;
    std::filesystem::remove_all(paths.dir, error);
  }
  RETURN_IF_ERROR(
      WriteFileDurably(files_, paths.config, BytesOf(FormatConfig(plans_[run].config))));
  if (!lab_links_.empty()) {
    const RunPlan& plan = plans_[run];
    const std::string topology = LabTopology(lab_links_, MostPeersOf(plan), plan.seed);
    RETURN_IF_ERROR(WriteFileDurably(files_, TopologyPath(run), BytesOf(topology)));
  }
  ASSIGN_OR_RETURN(pids_[run], StartProcess(CommandOf(run), paths.log));
  return absl::OkStatus();
}

std::optional<LaunchEnd> LocalLauncher::Ended(size_t run) {
  const auto found = pids_.find(run);
  if (found == pids_.end()) return LaunchEnd{false, "it was not started"};
  const std::optional<ExitStatus> exit = ChildProcess::Reap(found->second);
  if (!exit) return std::nullopt;
  pids_.erase(found);
  if (exit->ok() && Finished(run)) return LaunchEnd{true, ""};
  const std::string log = Paths(run).log;
  return LaunchEnd{false, absl::StrCat("`atoll local` ", exit->Predicate(), ": ",
                                       ReasonIn(TailOfLog(log)), " (", log, ")")};
}

uint64_t LocalLauncher::Round(size_t run) { return NewestRound(TailOfLog(Paths(run).log)); }

void LocalLauncher::Stop(size_t run) {
  const auto found = pids_.find(run);
  if (found != pids_.end()) kill(found->second, SIGTERM);
}

}  // namespace atolld
