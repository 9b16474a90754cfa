// ModeModel: how long a round takes in each mode, and how much of it a peer's worker trains, by
// what PredictExchange says of the exchange alone.
//
//   a round takes max(train + lost, floor)
//
// of which `lost` is what the worker waits for whatever the steps, and `floor` is an exchange that
// passes beside the training and has to end first. docs/performance_model.md derives both for each
// mode. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "membership/planning/plan_choice.h"
#include "membership/planning/round_model.h"

namespace atolld {

// What of ModeSpec the time of a round depends on.
struct ModeShape {
  std::string kind = "sync";   // or "streaming", "eager", "delayed", "async"
  uint32_t fragments = 1;      // streaming: an entry covers one of them; 1 at least
  uint32_t overlap_steps = 0;  // streaming (tau); 0: the merge is at the boundary
};

// "sync"; "streaming, 4 fragments, tau 2".
std::string ModeText(const ModeShape& shape);

struct RoundPrediction {
  double train_seconds = 0;
  double exchange_seconds = 0;  // of one fragment, with streaming
  double waited_seconds = 0;    // by a worker

  double seconds() const { return train_seconds + waited_seconds; }
  double utilisation() const { return ComputeUtilisation(train_seconds, waited_seconds); }
};

// A round of so many inner steps, once the pipeline is full. `exchange`: of what one entry of this
// mode covers. Peers are of equal speed: so "async" is as "sync", whose rounds wait for nobody.
RoundPrediction PredictRound(const ModeShape& shape, uint32_t steps, double step_seconds,
                             const ExchangePrediction& exchange);

// The fewest inner steps a round with which `share` of the time is training, 1 at least. `share` is
// above 0 and below 1, `step_seconds` above 0. More than 2^32 - 1 are told as that.
uint32_t LeastSteps(const ModeShape& shape, double step_seconds, double share,
                    const ExchangePrediction& exchange);

// The longest exchange for which nobody waits, if handing an update over took no time.
double HiddenSeconds(const ModeShape& shape, uint32_t steps, double step_seconds);

// Values that the largest of so many fragments has: fragments are made of whole chunks.
uint64_t FragmentValues(uint64_t parameters, uint32_t chunk_elements, uint32_t fragments);

// The fastest exchange of so many values among the plans from which a coordinator chooses. Some
// peer has to be reachable, unless there is only one.
ExchangePrediction FastestExchange(const LinkModel& links, PlanKind plan, const EncodedSize& size,
                                   uint32_t chunk_elements, const ModelAssumptions& assumed);

}  // namespace atolld
