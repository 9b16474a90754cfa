#include "daemon/bench/churn_bench.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "daemon/bench/churn_faults.h"
#include "daemon/bench/churn_run.h"
#include "daemon/cli/beforehand.h"
#include "daemon/cli/output.h"
#include "daemon/cli/run_watcher.h"
#include "daemon/cli/worker_tool.h"
#include "daemon/env/posix_files.h"
#include "daemon/figures/status_json.h"
#include "daemon/program/format.h"
#include "daemon/program/process.h"

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
        absl::StrCat("a quorum of ", config.run.quorum, " of ", Counted(config.run.peers, "peer"),
                     " leaves no peer that may fail; take more peers"));
  }
  return config;
}

// Makes a folder for both runs.
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
  // Both runs have one name: if their store is etcd, each has keys of its own.
  settings.config.coordinator.etcd_prefix += "-faults";
  ASSIGN_OR_RETURN(const ChurnRunResult faulty, RunUnderChurn(files, signals, settings));
  return MakeChurnReport(benchmark->terms, fault_free, faulty);
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

VerbExit BenchChurn(const ChurnOptions& options) {
  PosixFiles files;
  ASSIGN_OR_RETURN(const Config config, ConfigOf(options));
  RETURN_IF_ERROR(FindWorker(config.worker.program, config.model.kind).status());
  ASSIGN_OR_RETURN(const std::string dir, MakeFolder(files, options.dir));
  // With "--json -" standard output is the report's alone.
  Benchmark benchmark = {{options.seed, config, 0}, dir, options.json == "-" ? stderr : stdout};
  const absl::StatusOr<ChurnReport> report = RunBoth(files, options, &benchmark);
  const bool good = report.ok() && report->digests_equal && report->not_back.empty();
  if (options.dir.empty() && (good || absl::IsCancelled(report.status()))) {
    std::error_code error;
    std::filesystem::remove_all(dir, error);
  } else {
    std::fprintf(benchmark.out, "logs and replicas are in %s\n", dir.c_str());
  }
  RETURN_IF_ERROR(report.status());
  std::fputs("\n", benchmark.out);
  for (const std::string& line : ChurnTable(*report)) {
    std::fprintf(benchmark.out, "%s\n", line.c_str());
  }
  RETURN_IF_ERROR(WriteResult(options.json, ChurnJson(*report)).status());
  return good ? kDone : kFailed;
}

// -----------------------------------------------------------------------------------------------

namespace {

using Json = nlohmann::ordered_json;

ChurnReport::Times TimesOf(std::vector<double> values) {
  ChurnReport::Times times;
  times.count = values.size();
  times.p50 = Percentile(values, 0.5);
  times.p95 = Percentile(std::move(values), 0.95);
  return times;
}

// Collects the times of the faults of one kind, or of all.
ChurnReport::Times Collect(const std::vector<ChurnReport::Fault>& faults,
                           std::optional<double> ChurnReport::Fault::*member,
                           std::optional<FaultKind> kind) {
  std::vector<double> values;
  for (const ChurnReport::Fault& fault : faults) {
    if (kind.has_value() && fault.kind != *kind) continue;
    if ((fault.*member).has_value()) values.push_back(*(fault.*member));
  }
  return TimesOf(std::move(values));
}

std::vector<ChurnReport::Kind> KindsOf(const std::vector<ChurnReport::Fault>& faults) {
  std::vector<ChurnReport::Kind> kinds;
  for (int i = 0; i < kFaultKinds; ++i) {
    ChurnReport::Kind kind;
    kind.kind = static_cast<FaultKind>(i);
    for (const ChurnReport::Fault& fault : faults) {
      if (fault.kind != kind.kind) continue;
      ++kind.landed;
      kind.undetected += IsDetectable(kind.kind) && !fault.detected.has_value() ? 1 : 0;
    }
    if (kind.landed == 0) continue;
    kind.detect = Collect(faults, &ChurnReport::Fault::detected, kind.kind);
    kind.rejoin = Collect(faults, &ChurnReport::Fault::rejoined, kind.kind);
    kind.delay = Collect(faults, &ChurnReport::Fault::delay, kind.kind);
    kinds.push_back(kind);
  }
  return kinds;
}

Json TimesJson(const ChurnReport::Times& times) {
  return {{"count", times.count}, {"p50", OrNull(times.p50)}, {"p95", OrNull(times.p95)}};
}

std::string TimesText(const ChurnReport::Times& times) {
  if (!times.p50.has_value()) return "-";
  return absl::StrFormat("%.3f / %.3f", *times.p50, *times.p95);
}

std::string LossText(const std::optional<double>& loss) {
  return loss.has_value() ? absl::StrFormat("%.3g", *loss) : "not evaluated";
}

}  // namespace

ChurnReport MakeChurnReport(const ChurnTerms& terms, const ChurnRunResult& fault_free,
                            const ChurnRunResult& faulty) {
  ChurnReport report;
  report.seed = terms.seed;
  report.peers = terms.config.run.peers;
  report.quorum = terms.config.run.quorum;
  report.failure_timeout = terms.config.membership.failure_timeout;
  report.parameters = terms.config.model.parameters;
  report.seconds = faulty.seconds;
  report.seconds_fault_free = fault_free.seconds;
  report.planned = terms.planned;
  report.rounds = faulty.rounds;
  report.rounds_fault_free = fault_free.rounds;
  report.tokens = faulty.tokens;
  report.tokens_fault_free = fault_free.tokens;
  report.round_seconds_fault_free = MedianRoundSeconds(fault_free.trace.commits);
  report.mean_live_fraction = faulty.mean_live_fraction;
  report.digests_equal = fault_free.digests_equal && faulty.digests_equal;
  report.digest_problem =
      faulty.digest_problem.empty() ? fault_free.digest_problem : faulty.digest_problem;
  if (!faulty.losses.empty()) {
    report.loss = faulty.losses.back().loss;
    report.loss_fault_free_at_equal_tokens = LossAt(fault_free.losses, faulty.losses.back().tokens);
  }
  if (!fault_free.losses.empty()) report.loss_fault_free = fault_free.losses.back().loss;
  const ChurnTrace& trace = faulty.trace;
  const absl::Time began = trace.began;
  for (size_t i = 0; i < trace.faults.size(); ++i) {
    ChurnReport::Fault fault;
    fault.kind = trace.faults[i].planned.kind;
    fault.victim = trace.faults[i].victim;
    fault.at = absl::ToDoubleSeconds(trace.faults[i].at - began);
    fault.detected = SecondsToDetect(trace, i);
    fault.rejoined = SecondsToRejoin(trace, i);
    fault.delay = RoundDelay(trace, i, report.round_seconds_fault_free);
    report.faults.push_back(std::move(fault));
    report.lost_inner_steps += LostSteps(trace, i);
  }
  const auto log = trace.logs.find("coordinator");
  if (log != trace.logs.end()) {
    report.lost_inner_steps += CountTrainedAnew(log->second) * terms.config.inner.steps;
  }
  report.detect = Collect(report.faults, &ChurnReport::Fault::detected, std::nullopt);
  report.rejoin = Collect(report.faults, &ChurnReport::Fault::rejoined, std::nullopt);
  report.kinds = KindsOf(report.faults);
  const double expected = static_cast<double>(fault_free.tokens) * report.mean_live_fraction *
                          faulty.seconds / std::max(fault_free.seconds, 1e-9);
  report.goodput = expected > 0 ? static_cast<double>(faulty.tokens) / expected : 0;
  report.rss_growth = faulty.rss_growth;
  report.unexpected_exits = fault_free.unexpected_exits;
  report.unexpected_exits.insert(report.unexpected_exits.end(), faulty.unexpected_exits.begin(),
                                 faulty.unexpected_exits.end());
  report.not_back = faulty.not_back;
  return report;
}

std::string ChurnJson(const ChurnReport& report) {
  Json json;
  json["seed"] = report.seed;
  json["peers"] = report.peers;
  json["quorum"] = report.quorum;
  json["failure_timeout"] = absl::ToDoubleSeconds(report.failure_timeout);
  json["parameters"] = report.parameters;
  json["seconds"] = report.seconds;
  json["seconds_fault_free"] = report.seconds_fault_free;
  json["faults_planned"] = report.planned;
  json["faults_landed"] = report.faults.size();
  json["rounds_committed"] = report.rounds;
  json["rounds_committed_fault_free"] = report.rounds_fault_free;
  json["tokens_committed"] = report.tokens;
  json["tokens_committed_fault_free"] = report.tokens_fault_free;
  json["round_seconds_fault_free"] = report.round_seconds_fault_free;
  json["mean_live_fraction"] = report.mean_live_fraction;
  json["digests_equal"] = report.digests_equal;
  json["digest_problem"] = report.digest_problem;
  json["loss"] = OrNull(report.loss);
  json["loss_fault_free"] = OrNull(report.loss_fault_free);
  json["loss_fault_free_at_equal_tokens"] = OrNull(report.loss_fault_free_at_equal_tokens);
  json["seconds_to_detect_p50"] = OrNull(report.detect.p50);
  json["seconds_to_detect_p95"] = OrNull(report.detect.p95);
  json["seconds_to_rejoin_p50"] = OrNull(report.rejoin.p50);
  json["seconds_to_rejoin_p95"] = OrNull(report.rejoin.p95);
  json["lost_inner_steps"] = report.lost_inner_steps;
  json["goodput"] = report.goodput;
  json["rss_growth"] = OrNull(report.rss_growth);
  json["kinds"] = Json::object();
  for (const ChurnReport::Kind& kind : report.kinds) {
    json["kinds"][std::string(FaultKindName(kind.kind))] = {
        {"landed", kind.landed},
        {"undetected", kind.undetected},
        {"seconds_to_detect", TimesJson(kind.detect)},
        {"seconds_to_rejoin", TimesJson(kind.rejoin)},
        {"round_delay_seconds", TimesJson(kind.delay)}};
  }
  json["faults"] = Json::array();
  for (const ChurnReport::Fault& fault : report.faults) {
    json["faults"].push_back({{"kind", std::string(FaultKindName(fault.kind))},
                              {"victim", fault.victim},
                              {"at", fault.at},
                              {"detected_seconds", OrNull(fault.detected)},
                              {"rejoined_seconds", OrNull(fault.rejoined)},
                              {"round_delay_seconds", OrNull(fault.delay)}});
  }
  json["unexpected_exits"] = report.unexpected_exits;
  json["not_back"] = report.not_back;
  return JsonText(json);
}

std::vector<std::string> ChurnTable(const ChurnReport& report) {
  std::vector<std::vector<std::string>> rows = {
      {"faults landed", absl::StrCat(report.faults.size(), " of ", report.planned)},
      {"rounds",
       absl::StrFormat("%d in %.0f s; without faults %d in %.0f s", report.rounds, report.seconds,
                       report.rounds_fault_free, report.seconds_fault_free)},
      {"tokens", absl::StrCat(WithThousands(report.tokens), "; without faults ",
                              WithThousands(report.tokens_fault_free))},
      {"peers live",
       absl::StrFormat("%.1f %% of %d, over time", report.mean_live_fraction * 100, report.peers)},
      {"goodput", absl::StrFormat("%.1f %%", report.goodput * 100)},
      {"loss",
       absl::StrCat(LossText(report.loss), "; without faults ", LossText(report.loss_fault_free),
                    ", after as many tokens ", LossText(report.loss_fault_free_at_equal_tokens))},
      {"inner steps lost", WithThousands(report.lost_inner_steps)},
      {"memory growth", report.rss_growth.has_value()
                            ? absl::StrFormat("%.1f %%", *report.rss_growth * 100)
                            : "no daemon lived through"},
      {"replicas", report.digests_equal ? "the same bits everywhere" : report.digest_problem}};
  for (const std::string& exit : report.unexpected_exits) rows.push_back({"ended by itself", exit});
  for (const std::string& victim : report.not_back) rows.push_back({"not back", victim});
  std::vector<std::string> lines = AlignColumns(rows, "<<");
  lines.emplace_back();
  std::vector<std::vector<std::string>> kinds = {
      {"seconds, p50 / p95", "landed", "to detect", "to rejoin", "round delay"}};
  const auto add = [&](const std::string& name, size_t landed, const ChurnReport::Times& detect,
                       const ChurnReport::Times& rejoin, const ChurnReport::Times& delay) {
    kinds.push_back(
        {name, absl::StrCat(landed), TimesText(detect), TimesText(rejoin), TimesText(delay)});
  };
  for (const ChurnReport::Kind& kind : report.kinds) {
    add(std::string(FaultKindName(kind.kind)), kind.landed, kind.detect, kind.rejoin, kind.delay);
  }
  add("all", report.faults.size(), report.detect, report.rejoin,
      Collect(report.faults, &ChurnReport::Fault::delay, std::nullopt));
  for (const std::string& line : AlignColumns(kinds, "<>>>>")) lines.push_back(line);
  return lines;
}

}  // namespace atolld
