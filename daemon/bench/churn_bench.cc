#include "daemon/bench/churn_bench.h"

#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "compression/base/status_macros.h"
#include "daemon/bench/churn_plan.h"
#include "daemon/bench/churn_report.h"
#include "daemon/bench/churn_run.h"
#include "daemon/cli/command_line.h"
#include "daemon/cli/process.h"
#include "daemon/cli/signals.h"
#include "daemon/cli/worker_tool.h"
#include "daemon/env/posix_files.h"

namespace atolld {
namespace {

absl::StatusOr<Config> ConfigOf(const ChurnOptions& options) {
  std::vector<ConfigOverride> overrides;
  if (options.peers) overrides.push_back({"--peers", "run", "peers", *options.peers});
  std::error_code error;
  if (!options.data.empty()) {
    overrides.push_back(
        {"--data", "data", "path", std::filesystem::absolute(options.data, error).string()});
  }
  Config config = DefaultChurnConfig();
  if (!options.config_path.empty()) {
    ASSIGN_OR_RETURN(config, LoadConfig(options.config_path, ConfigUse::kLocal, overrides));
    RETURN_IF_ERROR(CountVocabulary(ProgramFolder() + "/atoll-worker", &config));
  } else if (options.peers) {
    config.run.peers = static_cast<uint32_t>(*options.peers);
  }
  if (config.run.quorum == 0) config.run.quorum = config.run.peers / 2 + 1;
  if (config.run.peers < 2 || config.run.quorum >= config.run.peers) {
    return absl::InvalidArgumentError(
        absl::StrCat("a quorum of ", config.run.quorum, " of ", config.run.peers,
                     " peers leaves nobody who may fail; take more peers"));
  }
  return config;
}

// A folder for both runs.
absl::StatusOr<std::string> MakeFolder(Files& files, const std::string& wanted) {
  std::error_code error;
  if (wanted.empty()) {
    std::string path =
        (std::filesystem::temp_directory_path(error) / "atoll-churn-XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) {
      return absl::UnknownError(absl::StrCat("no temporary folder can be made as ", path));
    }
    return path;
  }
  const std::string path = std::filesystem::absolute(wanted, error).lexically_normal().string();
  if (files.Exists(path)) {
    ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(path));
    if (!names.empty()) {
      return absl::AlreadyExistsError(absl::StrCat(path, " is not empty; give another --dir"));
    }
  }
  RETURN_IF_ERROR(files.MakeDirectories(path));
  return path;
}

struct Benchmark {
  ChurnTerms terms;
  std::string dir;
  FILE* out = nullptr;
};

absl::StatusOr<ChurnReport> RunBoth(Files& files, const ChurnOptions& options,
                                    Benchmark* benchmark) {
  SignalWaiter signals;  // before anything that makes threads
  ChurnRunSettings settings;
  settings.config = benchmark->terms.config;
  settings.config.run.id = MakeRunId("churn", absl::Now());
  settings.atolld_program = absl::StrCat(ProgramFolder(), "/atolld");
  settings.out = benchmark->out;
  const absl::Duration length = absl::Minutes(options.minutes);
  if (settings.config.model.kind == kStubKind) settings.length = length;

  settings.name = "fault-free";
  settings.dir = absl::StrCat(benchmark->dir, "/fault-free");
  ASSIGN_OR_RETURN(const ChurnRunResult fault_free, RunUnderChurn(files, signals, settings));

  ChurnPlanSettings plan;
  plan.peers = settings.config.run.peers;
  plan.seed = options.seed;
  // A run that ends by its rounds takes at least as long under faults.
  plan.length = settings.length.value_or(absl::Seconds(fault_free.seconds));
  plan.every = absl::Seconds(options.every_seconds);
  plan.failure_timeout = settings.config.membership.failure_timeout;
  settings.plan = PlanFaults(plan);
  benchmark->terms.planned = settings.plan.size();
  settings.name = "faults";
  settings.dir = absl::StrCat(benchmark->dir, "/faults");
  ASSIGN_OR_RETURN(const ChurnRunResult faulty, RunUnderChurn(files, signals, settings));
  return MakeChurnReport(benchmark->terms, fault_free, faulty);
}

absl::Status WriteReport(Files& files, const std::string& path, const std::string& text) {
  if (path.empty()) return absl::OkStatus();
  if (path == "-") {
    std::fputs(text.c_str(), stdout);
    return absl::OkStatus();
  }
  std::error_code error;
  return WriteFileDurably(files, std::filesystem::absolute(path, error).string(), BytesOf(text));
}

}  // namespace

Config DefaultChurnConfig() {
  Config config;
  config.run.rounds = 1000000;
  config.run.peers = 6;
  config.model.kind = kStubKind;
  config.model.parameters = 102400;
  config.inner.steps = 50;
  config.inner.step_time = absl::Milliseconds(20);
  config.inner.batch = 16;
  config.exchange.chunk_elements = 4096;
  config.evaluation.every_rounds = 10;
  config.membership.failure_timeout = absl::Seconds(3);
  return config;
}

int BenchChurn(const ChurnOptions& options) {
  PosixFiles files;
  absl::StatusOr<Config> config = ConfigOf(options);
  if (!config.ok()) return Report(config.status(), kWrongCall);
  const absl::StatusOr<std::string> worker = FindWorker(config->worker.program, config->model.kind);
  if (!worker.ok()) return Report(worker.status(), kFailed);
  const absl::StatusOr<std::string> dir = MakeFolder(files, options.dir);
  if (!dir.ok()) {
    return Report(dir.status(), absl::IsAlreadyExists(dir.status()) ? kWrongCall : kFailed);
  }
  Benchmark benchmark;
  benchmark.terms = {options.seed, *config, 0};
  benchmark.dir = *dir;
  // With "--json -" standard output is the report's alone.
  benchmark.out = options.json == "-" ? stderr : stdout;
  const absl::StatusOr<ChurnReport> report = RunBoth(files, options, &benchmark);
  const bool good = report.ok() && report->digests_equal && report->not_back.empty();
  if (options.dir.empty() && (good || absl::IsCancelled(report.status()))) {
    std::error_code error;
    std::filesystem::remove_all(*dir, error);
  } else {
    std::fprintf(benchmark.out, "logs and replicas are in %s\n", dir->c_str());
  }
  if (!report.ok()) return Report(report.status(), kFailed);
  std::fputs("\n", benchmark.out);
  for (const std::string& line : ChurnTable(*report)) {
    std::fprintf(benchmark.out, "%s\n", line.c_str());
  }
  const absl::Status written = WriteReport(files, options.json, ChurnJson(*report));
  if (!written.ok()) return Report(written, kFailed);
  return good ? kDone : kFailed;
}

}  // namespace atolld
