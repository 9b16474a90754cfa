#include "daemon/config/config_defaults.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "optimizer/outer_advice.h"
#include "optimizer/outer_rates.h"
#include "optimizer/outer_rule.h"

namespace atolld {
namespace {

// Returns how many parties a peer hosts and asks in a round; 1 if it is one party itself.
uint32_t Asked(const PartiesConfig& own) {
  const uint32_t hosted = std::max<uint32_t>(1, own.hosted);
  return own.a_round == 0 ? hosted : std::min(own.a_round, hosted);
}

// Returns the parties of a full round.
double PartiesOf(const Config& config) {
  const double peers = config.run.peers;
  return peers * config.federation.participation * Asked(config.parties);
}

// Only a user's own worker knows how large its model is.
double ParametersOf(const Config& config) {
  if (IsForeign(config.model.kind)) return 0;
  return static_cast<double>(TrainedParameters(MakeModelSpec(config.model)));
}

OuterRatesQuery RatesQueryOf(const Config& config) {
  OuterRatesQuery query;
  query.peers = PartiesOf(config);
  query.steps = config.inner.steps;
  query.muon = config.inner.optimizer == "muon";
  query.streaming = config.mode.kind == "streaming";
  query.parameters = ParametersOf(config);
  return query;
}

const OuterRates& NesterovRates(const Config& config) {
  return NearestOuterRates(RatesQueryOf(config));
}

// Plain averaging takes the mean as it is; the rate for which Nesterov's rule is tuned would be
// wrong for it. FedAvgM subtracts its buffer as it is (arXiv:1909.06335). The adaptive rules move a
// parameter by about their rate, whatever the length of the mean: Flower's FedYogi and FLamby's
// FedAdam begin with 0.01.
double OuterLearningRate(const Config& config) {
  const std::string& rule = config.outer.rule;
  if (rule == "nesterov" || rule == "delayed_nesterov") {
    return RateInMode(config.mode.kind, NesterovRates(config));
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
// of it. `steps` are the run's inner steps, and steps_512 is the number of steps in which 512
// sequences a step would be as many sequences: steps x K x batch / 512. So the decay of one
// sequence stays the same, and of steps and peers only a peer's own batch remains. Their decay
// belongs to a rate that scales with the matrix (0.01 with spectral norms); for the width 1024 that
// is 0.06 of a rate in AdamW's sense. arXiv:2502.16982, whose scale is the one used by Atoll, has
// 0.1, AdamW's default.
constexpr double kDecayBatch = 512;
constexpr double kMostDecay = 10;  // as config_table.cc says

void UseDefaultsOfOptimizer(const ConfigPlaces& places, Config* config) {
  if (config->inner.optimizer != "muon" || places.Has("inner", "weight_decay")) return;
  config->inner.weight_decay =
      std::min(kMostDecay, Config().inner.weight_decay * config->inner.batch / kDecayBatch);
}

// With Nesterov's rule each entry of mode "async" pushes the momentum by its whole mean, and there
// are many more entries than in step: such runs diverge (arXiv:2401.09135; docs/experiments.md).
void UseDefaultsOfMode(const ConfigPlaces& places, Config* config) {
  if (config->mode.kind != "async") return;
  if (config->run.quorum == 0) config->run.quorum = 1;
  if (!places.Has("outer", "rule")) config->outer.rule = "delayed_nesterov";
}

// Codecs that leave out most of an update only train with feedback; topk follows SparseLoCo.
void UseDefaultsOfCodec(const ConfigPlaces& places, Config* config) {
  const absl::string_view codec = absl::StripSuffix(config->exchange.codec, "+zstd");
  const auto thins = [](absl::string_view name) { return name == "topk" || name == "int2"; };
  if (!thins(codec) && !thins(absl::StripSuffix(config->exchange.slow_codec, "+zstd"))) return;
  if (!places.Has("exchange", "error_feedback")) config->exchange.error_feedback = true;
  if (codec == "topk" && !places.Has("exchange", "feedback_decay")) {
    config->exchange.feedback_decay = 0.95;
  }
}

// The parties of a full round, and how often each is in one. Every update then has one length.
void UseDefaultsOfPrivacy(const ConfigPlaces& places, Config* config) {
  if (config->privacy.clip == 0) return;
  if (!places.Has("exchange", "clip")) config->exchange.clip = 0;
  if (!places.Has("privacy", "parties")) {
    const double parties = std::max(1.0, std::round(PartiesOf(*config)));
    config->privacy.parties = static_cast<uint32_t>(parties);
  }
  if (!places.Has("privacy", "sampling")) {
    // Which peers take part is in the log; which of a peer's parties, that peer alone knows.
    const double hosted = std::max<uint32_t>(1, config->parties.hosted);
    config->privacy.sampling = Asked(config->parties) / hosted;
  }
}

// Single updates are then never visible, so every rule that judges, cuts or recomputes one is off,
// unless the file sets it, which is refused (FaultOfMasks).
void UseDefaultsOfMasks(const ConfigPlaces& places, Config* config) {
  if (!config->privacy.masked) return;
  if (!places.Has("exchange", "clip")) config->exchange.clip = 0;
  if (!places.Has("exchange", "audit_share")) config->exchange.audit_share = 0;
  if (!places.Has("membership", "weight_cap")) config->membership.weight_cap = 0;
}

}  // namespace

void UseDefaultsThatFollow(const ConfigPlaces& places, Config* config) {
  UseDefaultsOfMode(places, config);
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

OuterSetting OuterSettingOf(const Config& config) {
  OuterSetting setting;
  if (config.model.kind == kStubKind) return setting;
  setting.rule = config.outer.rule;
  setting.learning_rate = config.outer.learning_rate;
  setting.momentum = config.outer.momentum;
  setting.rates = RatesQueryOf(config);
  if (config.inner.epochs > 0) setting.rates.steps = 0;
  setting.mode = config.mode.kind;
  setting.gap_penalty = config.mode.gap_penalty;
  setting.fragments = config.mode.fragments;
  setting.overlap_steps = config.mode.overlap;
  return setting;
}

Config WithPeers(const Config& config, uint32_t peers) {
  Config other = config;
  other.run.peers = peers;
  if (config.outer.learning_rate == OuterLearningRate(config)) {
    other.outer.learning_rate = OuterLearningRate(other);
  }
  if (config.outer.momentum == OuterMomentum(config)) other.outer.momentum = OuterMomentum(other);
  return other;
}

}  // namespace atolld
