// `atoll plan`: predicts a round on a network, for each plan and codec, without running anything.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "compression/wire_codec.h"
#include "daemon/cli/beforehand.h"
#include "daemon/cli/output.h"
#include "daemon/cli/plan_report.h"
#include "daemon/cli/verbs/verbs.h"
#include "daemon/cli/worker_tool.h"
#include "daemon/config/config.h"
#include "daemon/config/config_defaults.h"
#include "daemon/figures/status_json.h"
#include "daemon/program/format.h"
#include "daemon/program/process.h"
#include "membership/planning/message_sizes.h"
#include "membership/planning/slow_lines.h"

namespace atolld {
namespace {

// The most peers that a message names; of further ones it gives the number.
constexpr size_t kNamed = 16;

struct PlanOptions {
  std::string config;
  std::string topology;
  uint32_t peers = 0;
  uint64_t parameters = 0;
  std::string rate = "100Mbit";
  std::string rtt = "20ms";
  double step_seconds = 0;
  double utilisation = 0;
  double encode = ModelAssumptions().encode_bytes_per_second / 1e9;
  double decode = ModelAssumptions().decode_bytes_per_second / 1e9;
  double hash = ModelAssumptions().hash_bytes_per_second / 1e9;
  std::string json;
};

double TrainSeconds(const PlanOptions& options, const Config& config) {
  if (config.inner.pace == "time") return absl::ToDoubleSeconds(config.inner.time);
  const double told = options.step_seconds;
  const double known = absl::ToDoubleSeconds(
      std::max(config.inner.step_time, config.mode.step_time));  // a file has one of them
  const double step = told > 0 ? told : known;
  return step * config.inner.steps;
}

// Uses the same words as the run itself.
absl::Status WaitsForReducer(const PlanOptions& options, const std::vector<PeerLink>& peers) {
  std::vector<std::string> names;
  for (const PeerLink& peer : peers) names.push_back(peer.name);
  std::string rest;
  if (names.size() > kNamed) {
    rest = absl::StrCat(" and ", WithThousands(names.size() - kNamed), " ",
                        Noun(names.size() - kNamed, "other"));
    names.resize(kNamed);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      options.topology, ":1: with [coordinator] aggregator = 'never' the run waits: no reachable ",
      "peer to make version 0: ", absl::StrJoin(names, ", "), rest,
      " have no address that others can dial; allow it with 'auto'"));
}

absl::Status TakeNetwork(const PlanOptions& options, const Config& config, PlanQuestion* question) {
  if (!options.topology.empty()) {
    if (options.peers > 0) {
      return absl::InvalidArgumentError("--peers: with --topology, the file says how many");
    }
    ASSIGN_OR_RETURN(question->links, LoadTopology(options.topology));
    question->network = options.topology;
  } else {
    const absl::StatusOr<double> rate = ParseRate(options.rate);
    if (!rate.ok()) return Annotate(rate.status(), "--rate");
    const absl::StatusOr<absl::Duration> rtt = ParseDelay(options.rtt);
    if (!rtt.ok()) return Annotate(rtt.status(), "--rtt");
    question->links = EqualPeers(options.peers > 0 ? options.peers : config.run.peers, *rate, *rtt);
    question->network =
        absl::StrCat(options.rate, " each, both ways, ", options.rtt, " round trip");
  }
  const std::vector<PeerLink>& peers = question->links.peers();
  if (peers.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(options.topology, ":1: there is no peer"));
  }
  const bool reachable =
      std::any_of(peers.begin(), peers.end(), [](const PeerLink& peer) { return peer.reachable; });
  if (reachable || peers.size() == 1) return absl::OkStatus();
  if (config.coordinator.aggregator == "never") return WaitsForReducer(options, peers);
  question->links.AddAggregator();
  return absl::OkStatus();
}

absl::StatusOr<PlanQuestion> QuestionOf(const PlanOptions& options) {
  ASSIGN_OR_RETURN(Config config, LoadConfig(options.config, ConfigUse::kAny));
  const Config as_read = config;
  if (options.parameters == 0) {
    RETURN_IF_ERROR(Annotate(CountVocabulary(ProgramFolder() + "/atoll-worker", &config),
                             "the model's size depends on its text (or say --parameters)"));
  }
  PlanQuestion question;
  RETURN_IF_ERROR(TakeNetwork(options, config, &question));
  // The defaults were made before the vocabulary was counted.
  question.outer =
      OuterSettingOf(WithPeers(as_read, static_cast<uint32_t>(question.links.contributors())));
  question.parameters =
      options.parameters > 0 ? options.parameters : TrainedParameters(MakeModelSpec(config.model));
  question.chunk_elements = config.exchange.chunk_elements;
  if (question.parameters / question.chunk_elements >= std::numeric_limits<uint32_t>::max()) {
    return absl::InvalidArgumentError("--parameters: more chunks than a run can have");
  }
  SizeTerms sizes;
  sizes.parameters = question.parameters;
  sizes.chunk_elements = question.chunk_elements;
  sizes.peers = question.links.peers().size();
  RETURN_IF_ERROR(CheckMessageSizes(sizes));
  question.train_seconds = TrainSeconds(options, config);
  question.plan = config.exchange.plan;
  question.steps = config.inner.steps;
  question.mode.kind = config.mode.kind;
  if (config.mode.kind == "streaming") {
    question.mode.fragments = config.mode.fragments;
    question.mode.overlap_steps = config.mode.overlap;
  }
  question.utilisation = options.utilisation > 0 ? options.utilisation : config.mode.utilisation;
  ASSIGN_OR_RETURN(const LevelCodecs codecs,
                   ParseLevels(config.exchange.codec, config.exchange.upper_codec));
  question.codec = std::string(codecs.updates.codec->name());
  question.upper_codec = std::string(codecs.means.codec->name());
  question.slow_codec = std::string(absl::StripSuffix(config.exchange.slow_codec, "+zstd"));
  if (!question.slow_codec.empty()) MarkSlowLines(&question.links);
  question.assumed.encode_bytes_per_second = options.encode * 1e9;
  question.assumed.decode_bytes_per_second = options.decode * 1e9;
  question.assumed.hash_bytes_per_second = options.hash * 1e9;
  return question;
}

VerbExit Plan(const PlanOptions& options) {
  ASSIGN_OR_RETURN(const PlanQuestion question, QuestionOf(options));
  const std::vector<PlanCandidate> candidates = PlanCandidates(question);
  ASSIGN_OR_RETURN(const bool told,
                   WriteResult(options.json, JsonText(PlanJson(question, candidates))));
  if (!told) PrintLines(PlanText(question, candidates));
  return kDone;
}

}  // namespace

void AddPlanVerb(CommandLine& command_line) {
  const auto options = std::make_shared<PlanOptions>();
  const Verb verb = command_line.AddVerb(
      "plan",
      "Predict a round on a network, without running anything\n"
      "For each plan, codec and mode.",
      "atoll plan --config configs/wan.toml --topology tests/wan/topologies/three-regions.toml",
      [options] { return Plan(*options); });
  verb.Add("--config", options->config, "The run, a TOML file").File().Required();
  verb.Add("--topology", options->topology,
           "The network, a TOML file (tests/wan/README.md) [equal peers]")
      .File();
  verb.Add("--peers", options->peers, "Without a topology: how many peers [the config's]")
      .Range(1, 1000000);
  verb.Add("--rate", options->rate, "Without a topology: rate of each peer's line, both ways");
  verb.Add("--rtt", options->rtt, "Without a topology: round trip between any two");
  verb.Add("--parameters", options->parameters, "Parameters of the model [the config's]")
      .Range(uint64_t{1}, uint64_t{1} << 42);
  verb.Add("--step-seconds", options->step_seconds,
           "One inner step [the config's step_time; else no utilisation is printed]")
      .Positive();
  verb.Add("--utilisation", options->utilisation,
           "Share of the time that ought to be training [the config's, 0.95]")
      .Range(0.01, 0.999);
  verb.Add("--encode", options->encode, "One thread, GB of fp32 a second").Positive();
  verb.Add("--decode", options->decode, "One thread, GB of fp32 a second").Positive();
  verb.Add("--hash", options->hash, "One thread, GB a second").Positive();
  verb.Add("--json", options->json, "Write the result there; - for standard output").File();
}

}  // namespace atolld
