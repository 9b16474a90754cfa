#include "daemon/experiment/local_launcher.h"

#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "compression/base/status_macros.h"
#include "daemon/cli/local_layout.h"
#include "daemon/cli/process.h"
#include "daemon/cli/run_metrics.h"
#include "daemon/config/config_text.h"
#include "daemon/config/config_value.h"
#include "daemon/env/posix_folder_lock.h"

namespace atolld {
namespace {

constexpr uint64_t kMostReport = 16 << 20;
constexpr std::streamoff kTailBytes = 16 << 10;  // of a log: hundreds of lines

// The end of a file, from the beginning of a line on.
std::string TailOf(const std::string& path) {
  std::ifstream stream(path, std::ios::binary | std::ios::ate);
  if (!stream) return "";
  const std::streamoff size = stream.tellg();
  const std::streamoff from = size > kTailBytes ? size - kTailBytes : 0;
  std::string tail(static_cast<size_t>(size - from), '\0');
  stream.seekg(from);
  stream.read(tail.data(), static_cast<std::streamsize>(tail.size()));
  tail.resize(static_cast<size_t>(stream.gcount()));
  return from == 0 ? tail : tail.substr(std::min(tail.find('\n') + 1, tail.size()));
}

std::string LastLine(const std::string& path) {
  std::string last;
  const std::string tail = TailOf(path);
  for (const absl::string_view line : absl::StrSplit(tail, '\n', absl::SkipWhitespace())) {
    last = std::string(absl::StripAsciiWhitespace(line));
  }
  return last;
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

std::string LinesOption(const std::vector<LinkKeys>& links) {
  std::string option;
  for (const LinkKeys& link : links) {
    absl::string_view pattern = link.pattern;
    std::string peers = pattern == "default" ? "*" : link.pattern;
    // Party k is peer k of a local run.
    if (absl::ConsumePrefix(&pattern, "party-")) peers = absl::StrCat("peer-", pattern);
    absl::StrAppend(&option, option.empty() ? "" : ",", peers, "=",
                    link.up == 0 ? "" : FormatLineRate(link.up), "/",
                    link.down == 0 ? "" : FormatLineRate(link.down));
  }
  return option;
}

uint64_t NewestRound(absl::string_view log) {
  uint64_t newest = 0;
  for (absl::string_view line : absl::StrSplit(log, '\n')) {
    if (!absl::ConsumePrefix(&line, "round ")) continue;
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(" of ", 1));
    uint64_t round = 0;
    if (absl::SimpleAtoi(parts.first, &round) && !parts.second.empty()) newest = round;
  }
  return newest;
}

LocalLauncher::LocalLauncher(Files& files, std::string dir, std::string program,
                             std::vector<RunPlan> plans, const std::vector<LinkKeys>& links,
                             bool with_links)
    : files_(files),
      dir_(std::move(dir)),
      program_(std::move(program)),
      plans_(std::move(plans)),
      lines_(with_links ? LinesOption(links) : "") {}

LocalLauncher::~LocalLauncher() {
  for (const auto& [run, pid] : pids_) kill(static_cast<pid_t>(pid), SIGKILL);
}

std::vector<std::string> LocalLauncher::CommandOf(size_t run) const {
  const RunPlan& plan = plans_[run];
  const RunPaths paths = Paths(run);
  std::vector<std::string> command = {program_, "local",   "--config", paths.config,
                                      "--dir",  paths.dir, "--json",   paths.report};
  if (!plan.keys.ramp.empty()) command.insert(command.end(), {"--ramp", plan.keys.ramp});
  if (!lines_.empty()) command.insert(command.end(), {"--lines", lines_});
  AddFaults(plan.keys.faults, &command);
  return command;
}

bool LocalLauncher::Finished(size_t run) {
  const RunPaths paths = Paths(run);
  const absl::StatusOr<std::string> report = ReadFile(files_, paths.report, kMostReport);
  return report.ok() && IsSealedReport(*report) &&
         files_.Exists(absl::StrCat(paths.dir, "/", kMetricsFile));
}

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
  ASSIGN_OR_RETURN(const pid_t pid, StartProcess(CommandOf(run), paths.log));
  pids_[run] = pid;
  return absl::OkStatus();
}

std::optional<LaunchEnd> LocalLauncher::Ended(size_t run) {
  const auto found = pids_.find(run);
  if (found == pids_.end()) return LaunchEnd{false, "it was not started"};
  const std::optional<ProcessExit> exit = ReapProcess(static_cast<pid_t>(found->second));
  if (!exit) return std::nullopt;
  pids_.erase(found);
  if (!exit->by_signal && exit->code == 0 && Finished(run)) return LaunchEnd{true, ""};
  const std::string log = Paths(run).log;
  return LaunchEnd{
      false, absl::StrCat("`atoll local` ", Describe(*exit), ": ", LastLine(log), " (", log, ")")};
}

uint64_t LocalLauncher::Round(size_t run) { return NewestRound(TailOf(Paths(run).log)); }

void LocalLauncher::Stop(size_t run) {
  const auto found = pids_.find(run);
  if (found != pids_.end()) kill(static_cast<pid_t>(found->second), SIGTERM);
}

}  // namespace atolld
