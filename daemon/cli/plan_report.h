// What `atoll plan` reads and says. The topology file names regions, links and peers, in the TOML
// format of the lab (tests/wan/README.md); it is read as a LinkModel. The report has each plan with
// each codec, how long a round of it takes, what it sends, and which of them is the fastest.
//
// What the lab alone needs (seed, loss, queue) is checked and has no meaning here. One difference:
// a region may have more peers than the lab can start. Every error is one line: "FILE:LINE: what is
// wrong", with the nearest valid name for a misspelt one. Pure functions but for LoadTopology; the
// same question has the same answer.
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

namespace atolld {

// INVALID_ARGUMENT: there is no such file, it is no TOML, or it means nothing.
absl::StatusOr<LinkModel> LoadTopology(const std::string& path);

// "20ms": us, ms, s.
absl::StatusOr<absl::Duration> ParseDelay(absl::string_view text);

// -----------------------------------------------------------------------------------------------

// Each codec for both levels, and the config's codec of updates with each smaller one for means.
struct PlanQuestion {
  LinkModel links;      // with a contributor at least, and somebody reachable
  std::string network;  // in words
  uint64_t parameters = 0;
  uint32_t chunk_elements = 0;
  double train_seconds = 0;   // a round; 0: not known
  uint32_t steps = 1;         // of [inner], a round
  ModeShape mode;             // the config's; kind "auto": it has none yet
  double utilisation = 0.95;  // the share of the time that ought to be training
  std::string plan;           // the config's
  std::string codec;          // the config's, without zstd
  std::string upper_codec;    // likewise, of means
  std::string slow_codec;     // likewise, of updates over slow lines; empty: as the others
  ModelAssumptions assumed;
};

struct PlanCandidate {
  PlanShape shape = PlanShape::kFlat;
  std::string codec;        // of updates
  std::string slow_codec;   // of those over slow lines; empty: as the others
  std::string upper_codec;  // of means
  bool best = false;        // the fastest
  bool of_config = false;   // the fastest of those that a run of this config would choose from
  size_t reducers = 0;
  size_t group = 0;         // contributors that average first, at most; 0: there is one level
  size_t most_streams = 0;  // of a peer
  ExchangePrediction exchange;
};

// Codecs whose updates have one length, whatever the values. What topk sends depends on them.
std::vector<std::string> PredictableCodecs();

// How many values a message ought to carry (exchange.chunk_elements): from 65,536 on, twice, four
// and eight times as many where the slowest line sends them in 4 ms, so that they hold nobody up,
// and every peer could still average 8 of them. Much of what a message costs a processor does not
// depend on its size.
uint32_t MessageElements(double slowest_bytes_per_second, size_t peers, uint64_t parameters,
                         const Codec& updates);

// For each of these codecs, by predicted seconds. By regions only where a region would have a
// relay, and flat alone where an aggregator reduces: as a coordinator plans.
std::vector<PlanCandidate> PlanCandidates(const PlanQuestion& question);

nlohmann::ordered_json PlanJson(const PlanQuestion& question,
                                const std::vector<PlanCandidate>& candidates);
std::vector<std::string> PlanText(const PlanQuestion& question,
                                  const std::vector<PlanCandidate>& candidates);

}  // namespace atolld
