// ModeChoice: which mode, with how many fragments, how much overlap and which codec, keeps the
// workers busy for the share of the time that was asked for.
//
// Law: of those that reach it by the plan, the first in this order is taken, which is that of what
// they cost in loss: sync; streaming with tau 1, 2 and 5; eager. Of one mode the larger codec comes
// first, and of one codec the fewest fragments. Pure; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compression/wire_codec.h"
#include "membership/planning/mode_model.h"

namespace atolld {

// Above 5 little is gained, and the loss suffers (arXiv 2501.18512).
inline constexpr uint32_t kOverlapsToTry[] = {1, 2, 5};

// Inner steps between two entries of one fragment: DiLoCo was trained so far apart without harm
// (arXiv 2311.08105, table 2).
inline constexpr uint64_t kMostStepsOfFragment = 500;

struct ModeQuestion {
  LinkModel links;  // with a contributor at least, and somebody reachable
  PlanKind plan = PlanKind::kAuto;
  uint64_t parameters = 0;
  uint32_t chunk_elements = 0;
  uint32_t steps = 0;       // a round
  double step_seconds = 0;  // above 0
  ModelAssumptions assumed;
};

struct ModeOption {
  ModeShape shape;
  std::string codec;  // LevelCodecs::name
  ExchangePrediction exchange;
  RoundPrediction round;
};

ModeOption PredictMode(const ModeQuestion& question, const ModeShape& shape,
                       const LevelCodecs& codecs);

// Streaming with this overlap, by the fewest fragments of 1, 2, 4, ... with which `share` is
// reached; if no number reaches it, by the most that there may be.
ModeOption PredictStreaming(const ModeQuestion& question, uint32_t overlap_steps, double share,
                            const LevelCodecs& codecs);

// FAILED_PRECONDITION: none reaches `share` (above 0, below 1); says which comes nearest, and with
// how many steps it would. `codecs`: not empty, in the order of preference. `allowed` says of a
// shape whether the run may have it; sync it may.
absl::StatusOr<ModeOption> ChooseMode(const ModeQuestion& question, double share,
                                      const std::vector<LevelCodecs>& codecs,
                                      const std::function<bool(const ModeShape&)>& allowed);

// Why it was chosen, in a line: "streaming, 2 fragments, tau 1, with int8 is predicted to train
// 96.1 % of the time (95 % are asked for): ...".
std::string WhyMode(const ModeOption& chosen, const ModeOption& sync, double share);

}  // namespace atolld
