#include "daemon/config/config_defaults.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "optimizer/outer_rates.h"
#include "optimizer/outer_rule.h"

namespace atolld {
namespace {

// Those that a peer hosts and asks in a round; 1: it is one itself.
uint32_t Asked(const PartiesConfig& own) {
  const uint32_t hosted = std::max<uint32_t>(1, own.hosted);
  return own.a_round == 0 ? hosted : std::min(own.a_round, hosted);
}

// Of a full round.
double PartiesOf(const Config& config) {
  const double peers = config.run.peers;
  return peers * config.federation.participation * Asked(config.parties);
}

// A worker of somebody else's knows alone how large its model is.
double ParametersOf(const Config& config) {
  if (IsForeign(config.model.kind)) return 0;
  return static_cast<double>(TrainedParameters(MakeModelSpec(config.model)));
}

const OuterRates& NesterovRates(const Config& config) {
  OuterRatesQuery query;
  query.peers = PartiesOf(config);
  query.steps = config.inner.steps;
  query.muon = config.inner.optimizer == "muon";
  query.streaming = config.mode.kind == "streaming";
  query.parameters = ParametersOf(config);
  return NearestOuterRates(query);
}

// Plain averaging takes the mean as it is; what Nesterov's rule is tuned to would be wrong for it.
// FedAvgM subtracts its buffer as it is (arXiv:1909.06335). The adaptive rules step a parameter by
// about their rate, whatever the length of the mean: 0.01 is what Flower's FedYogi and FLamby's
// FedAdam begin with.
double OuterLearningRate(const Config& config) {
  const std::string& rule = config.outer.rule;
  if (rule == "nesterov" || rule == "delayed_nesterov") {
    return NesterovRates(config).learning_rate;
  }
  return IsAdaptive(config.outer.rule) ? 0.01 : 1;
}

// Adagrad has no momentum in the experiments of arXiv:2003.00295 either.
double OuterMomentum(const Config& config) {
  if (config.outer.rule == "nesterov") return NesterovRates(config).momentum;
  const bool plain = config.outer.rule == "average" || config.outer.rule == "adagrad";
  return plain ? 0 : Config().outer.momentum;
}

void UseDefaultsOfRule(const ConfigPlaces& places, Config* config) {
  if (!places.Has("outer", "learning_rate"))
    config->outer.learning_rate = OuterLearningRate(*config);
  if (!places.Has("outer", "momentum")) config->outer.momentum = OuterMomentum(*config);
  // As many as train at a time (arXiv:2401.09135, section 5).
  const bool buffers = config->outer.rule == "delayed_nesterov";
  if (buffers && !places.Has("outer", "buffer")) config->outer.buffer = config->run.peers;
}

// MuLoCo (arXiv:2505.23725, its job files) tunes the decay of data-parallel training with 512
// sequences a step, and gives each of K peers
//   decay x steps_512 / (steps x K)
// of it, where `steps` are the run's inner steps, and steps_512 those in which 512 sequences a step
// would be as many sequences: steps x K x batch / 512. So the decay of one sequence stays what it
// was, and what is left of steps and peers is a peer's own batch. Their decay is of a rate that
// scales with the matrix (0.01 beside spectral norms); for the width 1024 that is 0.06 of a rate as
// AdamW has it, and arXiv:2502.16982, whose scale is ours, has 0.1, as AdamW's default is.
constexpr double kDecayBatch = 512;
constexpr double kMostDecay = 10;  // as config_table.cc says

void UseDefaultsOfOptimizer(const ConfigPlaces& places, Config* config) {
  if (config->inner.optimizer != "muon" || places.Has("inner", "weight_decay")) return;
  config->inner.weight_decay =
      std::min(kMostDecay, Config().inner.weight_decay * config->inner.batch / kDecayBatch);
}

void UseDefaultsOfMode(Config* config) {
  if (config->mode.kind == "async" && config->run.quorum == 0) config->run.quorum = 1;
}

// Codecs that leave most of an update out train only with feedback; topk as SparseLoCo has it.
void UseDefaultsOfCodec(const ConfigPlaces& places, Config* config) {
  const absl::string_view codec = absl::StripSuffix(config->exchange.codec, "+zstd");
  const auto thins = [](absl::string_view name) { return name == "topk" || name == "int2"; };
  if (!thins(codec) && !thins(absl::StripSuffix(config->exchange.slow_codec, "+zstd"))) return;
  if (!places.Has("exchange", "error_feedback")) config->exchange.error_feedback = true;
  if (codec == "topk" && !places.Has("exchange", "feedback_decay")) {
    config->exchange.feedback_decay = 0.95;
  }
}

// Parties of a full round, and how often each is in one. Every update has one length then.
void UseDefaultsOfPrivacy(const ConfigPlaces& places, Config* config) {
  if (config->privacy.clip == 0) return;
  if (!places.Has("exchange", "clip")) config->exchange.clip = 0;
  if (!places.Has("privacy", "parties")) {
    const double parties = std::max(1.0, std::round(PartiesOf(*config)));
    config->privacy.parties = static_cast<uint32_t>(parties);
  }
  if (!places.Has("privacy", "sampling")) {
    const double hosted = std::max<uint32_t>(1, config->parties.hosted);
    config->privacy.sampling = config->federation.participation * Asked(config->parties) / hosted;
  }
}

// Nobody sees a single update then, so whatever judges, cuts or redoes one is off unless it is
// said, which is refused (masked_rules.h).
void UseDefaultsOfMasks(const ConfigPlaces& places, Config* config) {
  if (!config->privacy.masked) return;
  if (!places.Has("exchange", "clip")) config->exchange.clip = 0;
  if (!places.Has("exchange", "audit_share")) config->exchange.audit_share = 0;
  if (!places.Has("membership", "weight_cap")) config->membership.weight_cap = 0;
}

}  // namespace

void UseDefaultsThatFollow(const ConfigPlaces& places, Config* config) {
  UseDefaultsOfMode(config);
  UseDefaultsOfRule(places, config);
  UseDefaultsOfOptimizer(places, config);
  UseDefaultsOfCodec(places, config);
  UseDefaultsOfPrivacy(places, config);
  UseDefaultsOfMasks(places, config);
  if (!places.Has("membership", "outsized")) {
    config->membership.outsized = DefaultOutsized(*config);
  }
}

std::string OuterRatesOf(const Config& config) {
  return config.outer.rule == "nesterov" ? DescribeOuterRates(NesterovRates(config)) : "";
}

}  // namespace atolld
