// ModeModel: predicts how long a round takes in each mode, and for how much of that time a peer's
// worker trains. Its only input about the exchange is the result of PredictExchange.
//
//   a round takes max(train + lost, floor)
//
// `lost` is the part of the worker's wait that does not depend on the number of steps. `floor` is
// the time of an exchange that runs during the training and has to end before the round can.
// docs/performance_model.md derives both for each mode. Pure. May be called from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "membership/planning/plan_choice.h"
#include "membership/planning/round_model.h"

namespace atolld {

// The part of ModeSpec that the time of a round depends on.
struct ModeShape {
  std::string kind = "sync";  // "sync", "streaming", "eager", "delayed" or "async"
  // The number of fragments in mode "streaming", in which an entry covers one fragment; at least 1.
  uint32_t fragments = 1;
  // Tau in mode "streaming": the inner steps between the end of a round and the merge; 0 merges at
  // the end.
  uint32_t overlap_steps = 0;
};

// Returns for example "sync" or "streaming, 4 fragments, tau 2".
std::string ModeText(const ModeShape& shape);

struct RoundPrediction {
  double train_seconds = 0;
  double exchange_seconds = 0;  // in mode "streaming", the exchange of one fragment
  double waited_seconds = 0;    // the time that a worker waits in the round

  double seconds() const { return train_seconds + waited_seconds; }
  double utilisation() const { return ComputeUtilisation(train_seconds, waited_seconds); }
};

// Predicts a round of `steps` inner steps, once the pipeline is full. `exchange` is the exchange of
// what one entry covers in this mode. All peers are assumed to be equally fast, so "async" is the
// same as "sync" with rounds that wait for no peer.
RoundPrediction PredictRound(const ModeShape& shape, uint32_t steps, double step_seconds,
                             const ExchangePrediction& exchange);

// Returns the smallest number of inner steps a round with which workers train for `share` of the
// time. `share` is above 0 and below 1, and `step_seconds` is above 0. The result is between 1 and
// 2^32 - 1.
uint32_t LeastSteps(const ModeShape& shape, double step_seconds, double share,
                    const ExchangePrediction& exchange);

// Returns how long an exchange may take without making a worker wait, if handing an update over
// takes no time.
double HiddenSeconds(const ModeShape& shape, uint32_t steps, double step_seconds);

// Returns the number of values in the largest fragment when the parameters are divided into
// `fragments` fragments of whole chunks.
uint64_t FragmentValues(uint64_t parameters, uint32_t chunk_elements, uint32_t fragments);

// Predicts the fastest exchange of `size` among the plans from which a coordinator chooses. At
// least one peer must be reachable, unless there is only one peer.
ExchangePrediction FastestExchange(const LinkModel& links, PlanKind plan, const EncodedSize& size,
                                   uint32_t chunk_elements, const ModelAssumptions& assumed);

}  // namespace atolld
