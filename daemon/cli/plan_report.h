// The input and the output of `atoll plan`. The topology file names regions, links and peers in the
// TOML format of the lab (tests/wan/README.md); it is read into a LinkModel. The report lists each
// plan with each codec, with the duration of a round, the bytes sent, and a mark at the fastest.
//
// The keys that only the lab needs (seed, loss, queue) are checked and then ignored. Unlike in the
// lab, a region may have more peers than one machine can run. Every error is one line: "FILE:LINE:
// what is wrong"; for a misspelt name it gives the nearest valid name. Pure, except for
// LoadTopology, which blocks. May be called from any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "compression/codec.h"
#include "daemon/config/config_value.h"
#include "membership/planning/link_model.h"
#include "membership/planning/mode_choice.h"
#include "membership/planning/round_model.h"
#include "optimizer/outer_advice.h"

namespace atolld {

// Reads a topology file. Fails with INVALID_ARGUMENT if the file does not exist, is not TOML, or is
// not a topology.
absl::StatusOr<LinkModel> LoadTopology(const std::string& path);

// Parses a time such as "20ms"; the units are us, ms and s.
absl::StatusOr<absl::Duration> ParseDelay(absl::string_view text);

// -----------------------------------------------------------------------------------------------

// The question for which plans are predicted: each plan is combined with each codec for both
// updates and means, and with the config's codec for updates and each smaller codec for means.
struct PlanQuestion {
  LinkModel links;      // at least one contributor, and one peer that can be reached
  std::string network;  // a description of the network
  uint64_t parameters = 0;
  uint32_t chunk_elements = 0;
  double train_seconds = 0;   // the training time of a round; 0 if unknown
  uint32_t steps = 1;         // [inner] steps: the inner steps of a round
  ModeShape mode;             // the config's mode; not chosen yet with kind "auto"
  double utilisation = 0.95;  // the wanted share of the time spent training
  std::string plan;           // the config's plan
  std::string codec;          // the config's codec, without "+zstd"
  std::string upper_codec;    // the config's codec of means
  // The config's codec of updates over slow lines; if empty, the same as `codec`.
  std::string slow_codec;
  ModelAssumptions assumed;
  OuterSetting outer;  // the config's outer step, for this number of peers
};

struct PlanCandidate {
  PlanShape shape = PlanShape::kFlat;
  std::string codec;        // the codec of updates
  std::string slow_codec;   // the codec of updates over slow lines; if empty, the same as `codec`
  std::string upper_codec;  // the codec of means
  bool best = false;        // true for the fastest of all
  // True for the fastest of the plans among which a run of this config chooses.
  bool of_config = false;
  size_t reducers = 0;
  // The most contributors in a group that averages first; 0 if there is one level.
  size_t group = 0;
  size_t most_streams = 0;  // the most streams of a peer
  ExchangePrediction exchange;
};

// Returns the codecs for which the length of an update does not depend on its values, that is, all
// but topk.
std::vector<std::string> PredictableCodecs();

// Returns how many values a message should carry (exchange.chunk_elements). Larger messages save
// processor time, because much of a message's cost does not depend on its size. The result is
// 65,536, or two, four or eight times as many if the slowest line sends such a message within 4 ms
// and every peer still gets 8 messages to average.
uint32_t MessageElements(double slowest_bytes_per_second, size_t peers, uint64_t parameters,
                         const Codec& updates);

// Returns the candidates, sorted by predicted seconds. As in a coordinator's planning, plans by
// regions are included only if some region would have a relay, and only flat plans are if an
// aggregator reduces.
std::vector<PlanCandidate> PlanCandidates(const PlanQuestion& question);

// Returns the advice as objects with "what" and "changes", a list of keys and values.
nlohmann::ordered_json OuterAdviceJson(const std::vector<OuterAdvice>& all);

// The next two functions also return the advice on the config's outer step, if there is any.
nlohmann::ordered_json PlanJson(const PlanQuestion& question,
                                const std::vector<PlanCandidate>& candidates);
std::vector<std::string> PlanText(const PlanQuestion& question,
                                  const std::vector<PlanCandidate>& candidates);

}  // namespace atolld
