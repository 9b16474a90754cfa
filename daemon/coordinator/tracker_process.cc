#include "daemon/coordinator/tracker_process.h"

#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/identity/credentials.h"

namespace atolld {
namespace {

constexpr absl::Duration kFirstTrackerPause = absl::Seconds(1);
constexpr absl::Duration kLongestTrackerPause = absl::Minutes(1);
// A program that lived this long did not die of its settings.
constexpr absl::Duration kGrownUpTracker = absl::Minutes(1);
// The program writes a line when something changes; a library that floods the log is cut off.
constexpr double kMostOutput = 4096;
// Exit codes of atoll-track: a wrong call, and a library that is not installed.
constexpr int kWrongCall = 2;
constexpr int kNoLibrary = 3;

}  // namespace

TrackerProcess::TrackerProcess(Env env, std::string programs, const Config& config)
    : env_(env),
      programs_(std::move(programs)),
      config_(config),
      pause_(kFirstTrackerPause, kLongestTrackerPause) {}

TrackerProcess::~TrackerProcess() = default;

void TrackerProcess::Start() {
  if (config_.tracking.on()) Launch();
}

std::vector<std::string> TrackerProcess::Arguments(const std::string& program,
                                                   const std::string& dir) const {
  std::vector<std::string> arguments = {
      program,   "--follow", "--atoll",       absl::StrCat(programs_, "/atoll"),
      "--state", dir,        "--coordinator", config_.coordinator.address};
  if (config_.network.plaintext) {
    arguments.emplace_back("--plaintext");
  } else {
    arguments.emplace_back("--identity");
    arguments.push_back(absl::StrCat(config_.coordinator.dir, "/", kAdminFolder));
  }
  for (std::string& one : TrackingTargets(config_.tracking)) arguments.push_back(std::move(one));
  return arguments;
}

void TrackerProcess::Launch() {
  const std::string program = FindTrackingProgram(config_.tracking, programs_);
  if (program.empty()) return env_.log.Error(NoTrackingProgramText());
  const std::string dir = absl::StrCat(config_.coordinator.dir, "/tracking");
  const absl::Status made = env_.files.MakeDirectories(dir);
  if (!made.ok()) return env_.log.Error(absl::StrCat("[tracking]: ", made.message()));
  launched_ = env_.executor.Now();
  ChildProcess::Options options;
  options.arguments = Arguments(program, dir);
  options.working_directory = dir;
  // It closes what it has open. Its successor waits for that.
  options.death_signal = SIGTERM;
  options.own_process_group = true;
  options.most_output_bytes_per_second = kMostOutput;
  ChildProcess::Events events;
  events.on_output_line = events.on_error_line = [this](const std::string& line) {
    env_.log.Info(absl::StrCat("tracking: ", line));
  };
  events.on_exit = [this](const ExitStatus& status) { OnExit(status); };
  absl::StatusOr<std::unique_ptr<ChildProcess>> process =
      ChildProcess::Spawn(env_.executor, std::move(options), std::move(events));
  if (!process.ok()) {
    return env_.log.Error(absl::StrCat("[tracking]: ", process.status().message()));
  }
  process_ = *std::move(process);
}

void TrackerProcess::End() {
  ending_ = true;
  if (process_ != nullptr) process_->Kill(SIGTERM);
}

void TrackerProcess::OnExit(const ExitStatus& status) {
  process_.reset();
  if (status.ok() || ending_) return;
  if (status.signal == 0 && (status.code == kWrongCall || status.code == kNoLibrary)) {
    return env_.log.Error(absl::StrCat("the run is not tracked: ", status.last_line));
  }
  if (env_.executor.Now() - launched_ >= kGrownUpTracker) pause_.Reset();
  const absl::Duration pause = pause_.Next();
  const std::string what = absl::StrCat("atoll-track is gone (", status.Text(), ")");
  if (pause_.ends() >= kMostEnds) {
    return env_.log.Error(absl::StrCat(what, " for the ", kMostEnds,
                                       "th time in a row and is given up: ", status.last_line));
  }
  env_.log.Warning(absl::StrCat(what, "; starting it again in ", absl::FormatDuration(pause)));
  env_.executor.RunAfter(pause, guard_.Wrap([this] {
    if (!ending_) Launch();
  }));
}

}  // namespace atolld
