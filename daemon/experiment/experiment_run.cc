#include "daemon/experiment/experiment_run.h"

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "compression/base/exit_code.h"
#include "compression/base/status_macros.h"
#include "compression/base/terminal.h"
#include "compression/base/words.h"
#include "daemon/cli/beforehand.h"
#include "daemon/cli/lab.h"
#include "daemon/cli/live_view.h"
#include "daemon/cli/output.h"
#include "daemon/cli/run_metrics.h"
#include "daemon/cli/run_watcher.h"
#include "daemon/cli/worker_tool.h"
#include "daemon/env/posix_files.h"
#include "daemon/env/posix_folder_lock.h"
#include "daemon/experiment/compose_engine.h"
#include "daemon/experiment/compose_file.h"
#include "daemon/experiment/compose_launcher.h"
#include "daemon/experiment/experiment_file.h"
#include "daemon/experiment/experiment_folder.h"
#include "daemon/experiment/experiment_parties.h"
#include "daemon/experiment/experiment_record.h"
#include "daemon/experiment/experiment_report.h"
#include "daemon/experiment/local_launcher.h"
#include "daemon/experiment/result_table.h"
#include "daemon/experiment/run_queue.h"
#include "daemon/program/format.h"
#include "daemon/program/process.h"

namespace atolld {
namespace {

constexpr absl::Duration kLookEvery = absl::Milliseconds(500);
constexpr double kTellEverySeconds = 30;  // where there is no terminal to draw on
constexpr uint64_t kMostRunReport = 16 << 20;
constexpr uint64_t kMostRunMetrics = uint64_t{1} << 30;

// Plans every setting with every seed. All settings get their first seed before any gets its
// second, so that an experiment that is ended early can be compared.
absl::StatusOr<std::vector<RunPlan>> PlanAll(const Experiment& experiment,
                                             ExperimentParties* parties) {
  std::vector<RunPlan> plans;
  for (const uint64_t seed : experiment.seeds) {
    for (size_t i = 0; i < experiment.settings.size(); ++i) {
      ASSIGN_OR_RETURN(RunPlan plan, PlanRun(experiment, i, seed, std::nullopt));
      if (parties != nullptr && plan.partition) {
        ASSIGN_OR_RETURN(const PartyData data, parties->DataOf(plan));
        ASSIGN_OR_RETURN(plan, PlanRun(experiment, i, seed, data));
      }
      plans.push_back(std::move(plan));
    }
  }
  return plans;
}

absl::Status CheckContainers(const Experiment& experiment, const std::vector<RunPlan>& plans) {
  for (const RunPlan& plan : plans) {
    const absl::Status contained =
        MakeCompose(experiment, plan.setting, plan.seed, "./compose").status();
    if (!contained.ok()) return Annotate(contained, plan.id);
  }
  return FindComposeEngine().status();
}

absl::Status CheckInLab(const Experiment& experiment, const std::vector<RunPlan>& plans) {
  if (experiment.links.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(experiment.path,
                     ": the lab is for the lines of [links], and the file has no such section; "
                     "write it, or take --in local"));
  }
  for (const RunPlan& plan : plans) {
    if (MostPeersOf(plan) <= kMostLabPeers) continue;
    return absl::InvalidArgumentError(absl::StrCat(experiment.path, ": ", plan.id, " has ",
                                                   MostPeersOf(plan),
                                                   " peers, and a lab has room for ", kMostLabPeers,
                                                   "; let [experiment] hosts host the parties"));
  }
  return Annotate(CheckLab(), "--in lab");
}

// Checks whether this machine can run them in this place, and whether everything that they need
// exists.
absl::Status CheckPlace(const Experiment& experiment, const std::string& place,
                        const std::vector<RunPlan>& plans) {
  if (place == "compose") return CheckContainers(experiment, plans);
  for (const RunPlan& plan : plans) {
    if (plan.keys.faults.cut_every <= absl::ZeroDuration()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(experiment.path,
                     ": [faults] cut_every cuts the network of containers, and processes of one "
                     "machine have no network to cut; kill_every and pause_every work here"));
  }
  return place == "lab" ? CheckInLab(experiment, plans) : absl::OkStatus();
}

// The results of the finished runs, written whenever one is added.
class ResultKeeper {
 public:
  ResultKeeper(Files& files, std::string dir, const Experiment& experiment,
               const std::vector<RunPlan>& plans)
      : files_(files), dir_(std::move(dir)), experiment_(experiment), plans_(plans) {}

  // Once a run: what cannot be read now will not be later.
  absl::Status Take(size_t run) {
    taken_.insert(run);
    const RunPlan& plan = plans_[run];
    const RunPaths paths = PathsOf(dir_, plan.id);
    ASSIGN_OR_RETURN(const std::string report, ReadFile(files_, paths.report, kMostRunReport));
    ASSIGN_OR_RETURN(const std::string metrics,
                     ReadFile(files_, absl::StrCat(paths.dir, "/", kMetricsFile), kMostRunMetrics));
    ASSIGN_OR_RETURN(results_[run], MakeRunResult(experiment_.settings[plan.setting].name,
                                                  plan.seed, plan.id, report, metrics));
    std::string text;
    for (const auto& [index, result] : results_) text += ResultLine(result);
    return WriteFileDurably(files_, absl::StrCat(dir_, "/", kResultsFile), BytesOf(text));
  }

  bool Took(size_t run) const { return taken_.count(run) > 0; }

  std::vector<RunResult> All() const {
    std::vector<RunResult> all;
    for (const auto& [index, result] : results_) all.push_back(result);
    return all;
  }

 private:
  Files& files_;
  const std::string dir_;
  const Experiment& experiment_;
  const std::vector<RunPlan>& plans_;
  std::map<size_t, RunResult> results_;  // by run
  std::set<size_t> taken_;
};

// The display of an experiment while it runs.
class ExperimentView {
 public:
  ExperimentView(FILE* out, const std::string& name)
      : out_(out), name_(name), terminal_(TerminalOf(out)) {
    if (terminal_.redraws) screen_ = std::make_unique<LiveScreen>(out);
  }

  void Say(const std::string& line) {
    if (screen_ != nullptr) {
      screen_->PrintAbove(line);
    } else {
      said_.Say(line);
    }
  }

  void Show(const RunQueue& queue, double now_seconds) {
    if (screen_ != nullptr) {
      screen_->Draw(Lines(queue, now_seconds));
    } else if (now_seconds >= next_told_) {
      if (next_told_ > 0) Say(Heading(queue, now_seconds));
      next_told_ = now_seconds + kTellEverySeconds;
    }
  }

  void Clear() { screen_.reset(); }

 private:
  std::string Heading(const RunQueue& queue, double now_seconds) const {
    std::string line =
        absl::StrFormat("%s: %d of %s, %.0f %%", name_, queue.Count(RunQueue::State::kFinished),
                        Counted(queue.runs().size(), "run"), queue.Share() * 100);
    const std::optional<double> left = queue.SecondsLeft(now_seconds);
    if (left) absl::StrAppend(&line, ", about ", FormatSeconds(*left), " left");
    return line;
  }

  std::vector<std::string> Lines(const RunQueue& queue, double now_seconds) const {
    std::vector<std::string> lines = {Heading(queue, now_seconds)};
    std::vector<std::vector<std::string>> rows = {{"running", "seed", "round", "of"}};
    for (size_t i = 0; i < queue.runs().size(); ++i) {
      const QueuedRun& run = queue.runs()[i];
      if (queue.state(i) != RunQueue::State::kRunning) continue;
      rows.push_back({run.setting, absl::StrCat(run.seed), absl::StrCat(queue.round(i)),
                      absl::StrCat(run.rounds)});
    }
    for (std::string& line : AlignColumns(rows, "<>>>")) lines.push_back(std::move(line));
    for (std::string& line : lines) {
      line = CutToWidth(line, TerminalWidth(out_), terminal_.charset);
    }
    return lines;
  }

  FILE* const out_;
  const std::string name_;
  const Terminal terminal_;
  SaidLines said_{out_};
  std::unique_ptr<LiveScreen> screen_;
  double next_told_ = 0;
};

// Returns true if a signal asked it to end early.
bool WorkOff(RunQueue* queue, ResultKeeper* results, ExperimentView* view) {
  SignalWaiter signals;
  Waker waker;
  bool stopped = false;
  while (true) {
    const double now = MonotonicSeconds();
    for (const std::string& line : queue->Step(now)) view->Say(line);
    for (size_t i = 0; i < queue->runs().size(); ++i) {
      if (queue->state(i) != RunQueue::State::kFinished || results->Took(i)) continue;
      const absl::Status taken = results->Take(i);
      if (!taken.ok()) view->Say(std::string(taken.message()));
    }
    view->Show(*queue, now);
    if (queue->done()) return stopped;
    if (signals.Wait(waker, kLookEvery) && !stopped) {
      stopped = true;
      view->Say("stopping: each run finishes its round ...");
      queue->Stop();
    }
  }
}

// Returns the command that begins or continues it.
std::string CommandOf(const Experiment& experiment, const std::string& file,
                      const std::string& place, const std::string& dir) {
  std::vector<std::string> command = {"atoll", "experiment", "run", file, "--dir", dir};
  if (place != experiment.place) command.insert(command.end(), {"--in", place});
  return ShellCommand(command);
}

absl::Status WriteReport(Files& files, const Experiment& experiment, const std::string& dir,
                         const std::string& place, const std::string& out,
                         std::vector<RunResult> results, std::vector<PartitionPicture> partitions) {
  ReportInput input;
  input.results = std::move(results);
  input.partitions = std::move(partitions);
  input.version = ATOLL_VERSION;
  input.command =
      CommandOf(experiment, experiment.path, place, std::filesystem::path(dir).filename().string());
  return WriteFileDurably(files, out, BytesOf(ReportHtml(experiment, input)));
}

// The end of both verbs: prints the table, for people or as JSON.
void TellResults(const Experiment& experiment, const std::vector<RunResult>& results,
                 const std::string& dir, const std::string& report, bool json) {
  const std::vector<SettingRow> table = MakeTable(
      experiment.SettingNames(), experiment.seeds.size(), results, experiment.target_loss);
  if (json) {
    const nlohmann::ordered_json told = {
        {"name", experiment.name},
        {"dir", dir},
        {"runs", experiment.settings.size() * experiment.seeds.size()},
        {"finished", results.size()},
        {"report", report},
        {"table", TableJson(table)}};
    return PrintJson(told);
  }
  PrintLine(stdout, "");
  PrintLines(TableLines(TextOf(table, experiment.target_loss)));
  PrintLine(stdout, "");
  PrintLines(AlignColumns(
      {{"report", report}, {"every run's figures", absl::StrCat(dir, "/", kResultsFile)}}, "<<"));
}

std::vector<QueuedRun> QueueOf(const Experiment& experiment, const std::vector<RunPlan>& plans) {
  std::vector<QueuedRun> runs;
  for (const RunPlan& plan : plans) {
    runs.push_back({plan.id, experiment.settings[plan.setting].name, plan.seed,
                    std::max<uint64_t>(plan.config.run.rounds, 1)});
  }
  return runs;
}

absl::StatusOr<std::unique_ptr<RunLauncher>> LauncherFor(Files& files, const Experiment& experiment,
                                                         const std::string& dir,
                                                         const std::string& place,
                                                         const std::vector<RunPlan>& plans) {
  if (place == "compose") {
    ASSIGN_OR_RETURN(const std::vector<std::string> compose, FindComposeEngine());
    return std::make_unique<ComposeLauncher>(files, experiment, dir, compose, plans);
  }
  return std::make_unique<LocalLauncher>(
      files, dir, ProgramFolder() + "/atoll", plans,
      place == "lab" ? experiment.links : std::vector<LinkKeys>());
}

// Returns the runs to make in this folder, after its record has taken the runs and the data.
// `experiment` gets the ids of its runs.
absl::StatusOr<std::vector<RunPlan>> PlanIn(PosixFiles& files, const std::string& dir, FILE* out,
                                            Experiment* experiment, ExperimentParties* parties) {
  ASSIGN_OR_RETURN(ExperimentRecord record, ReadRecord(files, dir));
  experiment->begun = IdsOf(record);
  ASSIGN_OR_RETURN(const std::vector<RunPlan> undealt, PlanAll(*experiment, nullptr));
  RETURN_IF_ERROR(TakeData(files, dir, undealt, &record));
  if (experiment->has_partition()) PrintLine(out, "making the parties' data ...");
  ASSIGN_OR_RETURN(std::vector<RunPlan> plans, PlanAll(*experiment, parties));
  for (const std::string& note : parties->notes()) PrintLine(out, absl::StrCat("note: ", note));
  RETURN_IF_ERROR(TakeRuns(files, dir, *experiment, plans, &record));
  RETURN_IF_ERROR(WriteRecord(files, dir, record));
  RETURN_IF_ERROR(KeepExperiment(files, dir, *experiment));
  return plans;
}

// Works from the checked file to the report. This process holds the folder.
VerbExit WorkIn(PosixFiles& files, Experiment experiment, const std::string& dir,
                const ExperimentRunOptions& options, const std::string& place) {
  FILE* const out = options.json ? stderr : stdout;
  ExperimentParties parties(files, dir);
  ASSIGN_OR_RETURN(const std::vector<RunPlan> plans,
                   PlanIn(files, dir, out, &experiment, &parties));
  ASSIGN_OR_RETURN(const std::unique_ptr<RunLauncher> launcher,
                   LauncherFor(files, experiment, dir, place, plans));
  size_t jobs = options.jobs != 0 ? options.jobs : experiment.jobs;
  if (jobs == 0) jobs = RunsAtOnce(plans, ReadProcessLimits());
  RunQueue queue(QueueOf(experiment, plans), jobs, *launcher);
  ResultKeeper results(files, dir, experiment, plans);
  ExperimentView view(out, experiment.name);
  view.Say(absl::StrCat("experiment ", experiment.name, " in ", dir, ": ",
                        Counted(experiment.settings.size(), "setting"), ", ",
                        Counted(experiment.seeds.size(), "seed"), ", ", Counted(jobs, "run"),
                        " at a time, ", queue.Count(RunQueue::State::kFinished), " of ",
                        Counted(plans.size(), "run"), " finished before"));
  const bool stopped = WorkOff(&queue, &results, &view);
  view.Clear();
  const std::string report = absl::StrCat(dir, "/", kReportFile);
  RETURN_IF_ERROR(
      WriteReport(files, experiment, dir, place, report, results.All(), parties.pictures()));
  TellResults(experiment, results.All(), dir, report, options.json);
  const size_t finished = queue.Count(RunQueue::State::kFinished);
  if (finished == plans.size()) return kDone;
  PrintLine(stderr, absl::StrCat(stopped ? "stopped: " : "", finished, " of ",
                                 Counted(plans.size(), "run"), " finished; go on with: ",
                                 CommandOf(experiment, options.file, place, dir)));
  return kFailed;
}

// Returns the folder of an experiment that is given by the folder or by its file.
absl::StatusOr<std::string> FolderOfSource(const std::string& source) {
  std::error_code error;
  if (std::filesystem::is_directory(source, error)) return AbsoluteFolder(source);
  ASSIGN_OR_RETURN(const Experiment experiment, ReadExperiment(source));
  return DefaultExperimentFolder(experiment.name);
}

}  // namespace

std::string DefaultExperimentFolder(const std::string& name) {
  return AbsoluteFolder(absl::StrCat(PathName(name), "-experiment"));
}

size_t RunsAtOnce(const std::vector<RunPlan>& plans, const ProcessLimits& limits) {
  size_t fitting = plans.size();
  for (const RunPlan& plan : plans) {
    const uint32_t peers = MostPeersOf(plan);
    const size_t threads = size_t{peers} * plan.config.worker.threads;
    fitting = std::min(fitting, limits.cores.threads() / std::max<size_t>(threads, 1));
    const auto fits = [&](size_t runs) {
      return CheckFits(plan.config, static_cast<uint32_t>(runs * peers), limits.memory).ok();
    };
    while (fitting > 1 && !fits(fitting)) --fitting;
  }
  return std::max<size_t>(fitting, 1);
}

VerbExit RunExperiment(const ExperimentRunOptions& options) {
  ASSIGN_OR_RETURN(const Experiment experiment, ReadExperiment(options.file));
  const std::string place = options.place.empty() ? experiment.place : options.place;
  // Before anything is made: what is wrong with any setting is said now, not hours later.
  ASSIGN_OR_RETURN(const std::vector<RunPlan> plans, PlanAll(experiment, nullptr));
  RETURN_IF_ERROR(CheckPlace(experiment, place, plans));
  const std::string dir =
      options.dir.empty() ? DefaultExperimentFolder(experiment.name) : AbsoluteFolder(options.dir);
  signal(SIGPIPE, SIG_IGN);  // a reader that has gone ends the experiment in order
  PosixFiles files;
  RETURN_IF_ERROR(CheckExperimentFolder(files, dir));
  RETURN_IF_ERROR(files.MakeDirectories(dir));
  ASSIGN_OR_RETURN(const FolderLock lock, FolderLock::Take(dir));
  const bool anew = options.fresh || !files.Exists(absl::StrCat(dir, "/", kExperimentCopy));
  RETURN_IF_ERROR(OpenExperimentFolder(files, dir, experiment, options.fresh));
  // Before anything can fail: what is then mended in the file is no other experiment.
  if (anew) RETURN_IF_ERROR(WriteRecord(files, dir, ExperimentRecord()));
  return WorkIn(files, experiment, dir, options, place);
}

VerbExit ReportOnExperiment(const ExperimentReportOptions& options) {
  ASSIGN_OR_RETURN(const std::string dir, FolderOfSource(options.source));
  PosixFiles files;
  ASSIGN_OR_RETURN(const Experiment experiment, ExperimentOfFolder(files, dir));
  ASSIGN_OR_RETURN(const std::vector<RunResult> results, ReadResults(files, dir));
  if (results.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(dir, ": no run is finished yet"));
  }
  const std::string out =
      options.out.empty() ? absl::StrCat(dir, "/", kReportFile) : AbsoluteFolder(options.out);
  ASSIGN_OR_RETURN(const std::vector<PartitionPicture> pictures, ReadPictures(files, dir));
  RETURN_IF_ERROR(WriteReport(files, experiment, dir, experiment.place, out, results, pictures));
  TellResults(experiment, results, dir, out, options.json);
  return kDone;
}

}  // namespace atolld
