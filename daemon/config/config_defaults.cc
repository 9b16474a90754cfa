#include "daemon/config/config_defaults.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "optimizer/outer_rule.h"

namespace atolld {
namespace {

// Nesterov's rate grows with the peers and not with the model: 0.4, 0.6, 0.6, 0.8 for 1, 2, 4, 8
// of them at 30 steps a round (arXiv:2503.09799, figure 7). Short runs of small models want more:
// 0.5 is too little for 3 and 4 of them (docs/benchmarks.md, "Peers beside data parallel").
double NesterovLearningRate(uint32_t peers) { return peers == 1 ? 0.4 : peers < 8 ? 0.7 : 0.8; }

// Plain averaging takes the mean as it is; what Nesterov's rule is tuned to would be wrong for it.
// FedAvgM subtracts its buffer as it is (arXiv:1909.06335). The adaptive rules step a parameter by
// about their rate, whatever the length of the mean: 0.01 is what Flower's FedYogi and FLamby's
// FedAdam begin with.
double OuterLearningRate(const Config& config) {
  if (config.outer.rule == "nesterov") return NesterovLearningRate(config.run.peers);
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
  const PartiesConfig& own = config->parties;
  const uint32_t hosted = std::max<uint32_t>(1, own.hosted);
  const uint32_t asked = own.a_round == 0 ? hosted : std::min(own.a_round, hosted);
  const double participation = config->federation.participation;
  if (!places.Has("privacy", "parties")) {
    const double parties = config->run.peers * participation * asked;
    config->privacy.parties = static_cast<uint32_t>(std::max(1.0, std::round(parties)));
  }
  if (!places.Has("privacy", "sampling")) {
    config->privacy.sampling = participation * asked / hosted;
  }
}

}  // namespace

void UseDefaultsThatFollow(const ConfigPlaces& places, Config* config) {
  UseDefaultsOfRule(places, config);
  UseDefaultsOfCodec(places, config);
  UseDefaultsOfPrivacy(places, config);
  if (!places.Has("membership", "outsized")) {
    config->membership.outsized = DefaultOutsized(*config);
  }
}

}  // namespace atolld
