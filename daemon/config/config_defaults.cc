#include "daemon/config/config_defaults.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
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

// Nesterov's rate grows with those who train and not with the model: 0.4, 0.6, 0.6, 0.8 for 1, 2,
// 4, 8 of them at 30 steps a round (arXiv:2503.09799, figure 7). Short runs of small models want
// more: 0.5 is too little for 3 and 4 of them (docs/benchmarks.md, "Peers beside data parallel").
double NesterovLearningRate(double parties) { return parties <= 1 ? 0.4 : parties < 8 ? 0.7 : 0.8; }

// Plain averaging takes the mean as it is; what Nesterov's rule is tuned to would be wrong for it.
// FedAvgM subtracts its buffer as it is (arXiv:1909.06335). The adaptive rules step a parameter by
// about their rate, whatever the length of the mean: 0.01 is what Flower's FedYogi and FLamby's
// FedAdam begin with.
double OuterLearningRate(const Config& config) {
  if (config.outer.rule == "nesterov") return NesterovLearningRate(PartiesOf(config));
  return IsAdaptive(config.outer.rule) ? 0.01 : 1;
}

void UseDefaultsOfRule(const ConfigPlaces& places, Config* config) {
  if (!places.Has("outer", "learning_rate"))
    config->outer.learning_rate = OuterLearningRate(*config);
  // Adagrad has no momentum in the experiments of arXiv:2003.00295 either.
  const bool plain = config->outer.rule == "average" || config->outer.rule == "adagrad";
  if (plain && !places.Has("outer", "momentum")) config->outer.momentum = 0;
}

// Codecs that leave most of an update out train only with feedback; topk as SparseLoCo has it.
void UseDefaultsOfCodec(const ConfigPlaces& places, Config* config) {
  const absl::string_view codec = absl::StripSuffix(config->exchange.codec, "+zstd");
  if (codec != "topk" && codec != "int2") return;
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
  UseDefaultsOfRule(places, config);
  UseDefaultsOfCodec(places, config);
  UseDefaultsOfPrivacy(places, config);
  UseDefaultsOfMasks(places, config);
  if (!places.Has("membership", "outsized")) {
    config->membership.outsized = DefaultOutsized(*config);
  }
}

}  // namespace atolld
