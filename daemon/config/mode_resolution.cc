#include "daemon/config/mode_resolution.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "compression/base/status_macros.h"
#include "daemon/config/run_record.h"
#include "membership/history/run_codecs.h"
#include "membership/planning/mode_choice.h"

namespace atolld {
namespace {

double StepSeconds(const RunConfig& config) {
  if (config.mode.step_time > absl::ZeroDuration()) {
    return absl::ToDoubleSeconds(config.mode.step_time);
  }
  if (config.inner.pace == "time") {
    return absl::ToDoubleSeconds(config.inner.time) / config.inner.steps;
  }
  return absl::ToDoubleSeconds(config.inner.step_time);
}

// Returns the rate of the slowest line, in bytes a second; 0 if unknown.
uint64_t LineRateOf(const Config& config) {
  if (config.mode.line_rate > 0) return config.mode.line_rate;
  return std::min(config.peer.up_rate, config.peer.down_rate);
}

PlanKind PlanOf(const RunConfig& config) {
  // As a coordinator: a relay's mean of several updates could not be judged, and would have other
  // contributors for each expert.
  if (config.exchange.plan == "flat" || config.exchange.aggregation != "mean" ||
      DividesModel(config)) {
    return PlanKind::kFlat;
  }
  return config.exchange.plan == "regions" ? PlanKind::kRegions : PlanKind::kAuto;
}

// In the order of preference. A config with another codec than the default has a reason for it.
std::vector<std::string> CodecsToTry(const RunConfig& config) {
  const std::string& own = config.exchange.codec;
  const bool usual = absl::StripSuffix(own, "+zstd") == "int8" && !config.privacy.masked;
  if (!usual) return {own};
  return {own, absl::EndsWith(own, "+zstd") ? "int4+zstd" : "int4"};
}

ModeConfig ModeOf(const ModeShape& shape) {
  ModeConfig mode;
  mode.kind = shape.kind;
  if (shape.kind != "streaming") return mode;
  mode.fragments = shape.fragments;
  mode.overlap = shape.overlap_steps;
  return mode;
}

ModeQuestion QuestionOf(const Config& config) {
  ModeQuestion question;
  question.links =
      EqualPeers(config.run.peers, static_cast<double>(LineRateOf(config)), config.mode.round_trip);
  question.plan = PlanOf(config);
  question.parameters = TrainedParameters(MakeModelSpec(config.model));
  question.chunk_elements = config.exchange.chunk_elements;
  question.steps = config.inner.steps;
  question.step_seconds = StepSeconds(config);
  return question;
}

}  // namespace

ConfigFault AutoModeFault(const Config& config, ConfigUse use) {
  const bool makes_run = use == ConfigUse::kLocal || use == ConfigUse::kCoordinator;
  if (config.mode.kind != "auto" || !makes_run || DividesModel(config)) return {};
  const auto needs = [](const char* key, const std::string& what, const char* option) {
    return ConfigFault{{{"mode", key}, {"mode", "kind"}},
                       absl::StrCat("[mode] kind 'auto' needs ", what,
                                    "name the mode that `atoll plan` chooses", option)};
  };
  if (IsForeign(config.model.kind)) {
    return needs("kind",
                 absl::StrCat("the size of the model, which only the worker of a model of kind '",
                              config.model.kind, "' knows: "),
                 " with --parameters");
  }
  if (config.inner.epochs > 0) {
    return needs("kind",
                 "the steps of a round, and with [inner] epochs each peer has its own: ", "");
  }
  if (StepSeconds(config) <= 0) {
    return needs("step_time",
                 "step_time, what one inner step takes on a peer's machine: give it, or ",
                 " with --step-seconds");
  }
  if (LineRateOf(config) == 0) {
    return needs("line_rate",
                 "line_rate, what the slowest peer's line carries each way: give it, or ",
                 " with --rate or --topology");
  }
  return {};
}

absl::StatusOr<std::string> ResolveMode(Config* config) {
  if (DividesModel(*config)) {
    config->mode = ModeConfig();
    return config->experts.owners > 0 ? "sync is the one mode in which experts have owners"
                                      : "sync is the one mode in which adapters have slices";
  }
  const double share = config->mode.utilisation;
  const ModeQuestion question = QuestionOf(*config);
  const std::vector<std::string> names = CodecsToTry(*config);
  std::vector<LevelCodecs> codecs;
  std::vector<Config::Exchange> tried;
  for (const std::string& name : names) {
    Config with = *config;
    with.exchange.codec = name;
    absl::StatusOr<LevelCodecs> levels = CarriedCodecsOf(MakeRunSpec(with));
    if (!levels.ok() && !codecs.empty() && !with.exchange.slow_codec.empty()) {
      with.exchange.slow_codec.clear();  // it is no smaller
      levels = CarriedCodecsOf(MakeRunSpec(with));
    }
    if (!levels.ok() && !codecs.empty()) continue;  // its means could not be encoded so
    RETURN_IF_ERROR(levels.status());
    codecs.push_back(*levels);
    tried.push_back(with.exchange);
  }
  const auto allowed = [&](const ModeShape& shape) {
    Config with = *config;
    with.mode = ModeOf(shape);
    return FaultOfMode(with).what.empty();
  };
  const absl::StatusOr<ModeOption> chosen = ChooseMode(question, share, codecs, allowed);
  if (!chosen.ok()) {
    return absl::Status(chosen.status().code(),
                        absl::StrCat("[mode] kind 'auto': ", chosen.status().message(),
                                     ", or lower [mode] utilisation"));
  }
  for (size_t i = 0; i < codecs.size(); ++i) {
    if (codecs[i].name() == chosen->codec) config->exchange = tried[i];
  }
  config->mode = ModeOf(chosen->shape);
  return WhyMode(*chosen, PredictMode(question, {"sync", 1, 0}, codecs.front()), share);
}

absl::StatusOr<v1::RunSpec> SpecOf(const Config& config, const v1::RunSpec* made,
                                   std::string* because) {
  because->clear();
  if (config.mode.kind != "auto") return MakeRunSpec(config);
  const ConfigFault missing = AutoModeFault(config, ConfigUse::kCoordinator);
  if (!missing.what.empty() && made == nullptr) return absl::InvalidArgumentError(missing.what);
  Config resolved = config;
  const absl::StatusOr<std::string> why =
      missing.what.empty() ? ResolveMode(&resolved) : absl::InvalidArgumentError(missing.what);
  if (made == nullptr) {
    RETURN_IF_ERROR(why.status());
    *because = *why;
    return MakeRunSpec(resolved);
  }
  // A run's settings never change, whatever the plan says by now.
  v1::RunSpec spec = MakeRunSpec(config);
  spec.clear_mode();
  if (made->has_mode()) *spec.mutable_mode() = made->mode();
  v1::ExchangeSpec* const exchange = spec.mutable_exchange();
  exchange->set_codec(made->exchange().codec());
  exchange->set_zstd(made->exchange().zstd());
  exchange->set_upper_codec(made->exchange().upper_codec());
  exchange->set_upper_zstd(made->exchange().upper_zstd());
  exchange->set_slow_codec(made->exchange().slow_codec());
  const v1::RunSpec now = why.ok() ? MakeRunSpec(resolved) : v1::RunSpec();
  using google::protobuf::util::MessageDifferencer;
  const bool same = why.ok() && MessageDifferencer::Equals(now.mode(), spec.mode()) &&
                    MessageDifferencer::Equals(now.exchange(), spec.exchange());
  *because = same ? *why : "as the plan said when the run was made";
  return spec;
}

}  // namespace atolld
