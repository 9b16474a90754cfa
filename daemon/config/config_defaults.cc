#include "daemon/config/config_defaults.h"

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace atolld {
namespace {

// Nesterov's rate grows with the peers and not with the model: 0.4, 0.6, 0.6, 0.8 for 1, 2, 4, 8
// of them at 30 steps a round (arXiv:2503.09799, figure 7). Short runs of small models want more:
// 0.5 is too little for 3 and 4 of them (docs/benchmarks.md, "Peers beside data parallel").
double NesterovLearningRate(uint32_t peers) { return peers == 1 ? 0.4 : peers < 8 ? 0.7 : 0.8; }

// Plain averaging takes the mean as it is; what Nesterov's rule is tuned to would be wrong for it.
void UseDefaultsOfRule(const ConfigPlaces& places, Config* config) {
  if (config->outer.rule == "nesterov" && !places.Has("outer", "learning_rate")) {
    config->outer.learning_rate = NesterovLearningRate(config->run.peers);
  }
  if (config->outer.rule != "average") return;
  if (!places.Has("outer", "learning_rate")) config->outer.learning_rate = 1;
  if (!places.Has("outer", "momentum")) config->outer.momentum = 0;
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

}  // namespace

void UseDefaultsThatFollow(const ConfigPlaces& places, Config* config) {
  UseDefaultsOfRule(places, config);
  UseDefaultsOfCodec(places, config);
  if (!places.Has("membership", "outsized")) {
    config->membership.outsized = DefaultOutsized(*config);
  }
}

}  // namespace atolld
