// ModeChoice: chooses the mode, the number of fragments, the overlap and the codec that keep the
// workers busy for the required share of the time.
//
// Law: of the options that are predicted to reach the share, it takes the first in order of their
// cost in loss: sync; streaming with tau 1, 2 and 5, and with as many as a round has; eager. Within
// a mode the larger codec comes first, and within a codec the smallest number of fragments. Pure.
// May be called from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compression/wire_codec.h"
#include "membership/planning/mode_model.h"

namespace atolld {

// Returns the overlaps (tau) that are tried in rounds of `steps` inner steps: 1, 2, 5 and the whole
// round. With overlaps of up to 5 next to nothing is lost (arXiv:2501.18512).
std::vector<uint32_t> OverlapsToTry(uint32_t steps);

// The most inner steps between two entries of one fragment. DiLoCo was trained with this many steps
// between exchanges without harm (arXiv 2311.08105, table 2).
inline constexpr uint64_t kMostStepsOfFragment = 500;

struct ModeQuestion {
  // The network; it must have at least one contributor and one reachable peer.
  LinkModel links;
  PlanKind plan = PlanKind::kAuto;
  uint64_t parameters = 0;
  uint32_t chunk_elements = 0;
  uint32_t steps = 0;       // the inner steps per round
  double step_seconds = 0;  // must be above 0
  ModelAssumptions assumed;
};

struct ModeOption {
  ModeShape shape;
  std::string codec;  // the name of its LevelCodecs
  ExchangePrediction exchange;
  RoundPrediction round;
};

ModeOption PredictMode(const ModeQuestion& question, const ModeShape& shape,
                       const LevelCodecs& codecs);

// Predicts streaming with this overlap and the smallest number of fragments among 1, 2, 4, ... that
// reaches `share`. If no number reaches it, the greatest allowed number is used. An overlap of the
// whole round, above 5 steps, has at least 4 fragments: with one it costs 7 % of the loss, with
// three nothing (docs/experiments.md, modes.toml). ChooseMode passes it over where fewer than 4
// are possible.
ModeOption PredictStreaming(const ModeQuestion& question, uint32_t overlap_steps, double share,
                            const LevelCodecs& codecs);

// Returns the smallest number of steps a round with which the option would train for `share` of the
// time. An overlap of the whole round remains one.
uint32_t LeastStepsOf(const ModeQuestion& question, const ModeOption& option, double share);

// Chooses the best option that reaches `share`, which is above 0 and below 1. Fails with
// FAILED_PRECONDITION if no option reaches it; the message names the nearest option, and the number
// of steps with which that option would reach it. `codecs` must not be empty and is in order of
// preference. `allowed` returns whether the run may use a shape; sync is always allowed.
absl::StatusOr<ModeOption> ChooseMode(const ModeQuestion& question, double share,
                                      const std::vector<LevelCodecs>& codecs,
                                      const std::function<bool(const ModeShape&)>& allowed);

// Returns one line that says why the option was chosen: "streaming, 2 fragments, tau 1, with int8
// is predicted to train 96.1 % of the time (95 % are asked for): ...".
std::string WhyMode(const ModeOption& chosen, const ModeOption& sync, double share);

}  // namespace atolld
