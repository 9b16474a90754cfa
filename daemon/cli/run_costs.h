// What a run would cost this machine, before it has joined: how fast its line to the coordinator
// is, how long an inner step takes here, and how many bytes a day that comes to.
//
// The line and the step are measured; the rest follows from the run's record. Measuring blocks, for
// a few seconds each; the other functions are pure.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "atoll/v1/run.pb.h"
#include "daemon/cli/preflight.h"
#include "daemon/config/machine_config.h"
#include "daemon/transport/coordinator_client.h"

namespace atolld {

struct StepSpeed {
  double step_seconds = 0;
  double tokens_per_second = 0;  // 0: of a model whose batch is not of tokens
  std::string device;            // empty: no device took it, the run says it
};

// Has the worker take inner steps of this run on random tokens, for some `seconds` and at least one
// step. A stub's step takes what the run says. UNIMPLEMENTED: of such a model nobody knows without
// its data or its own program.
absl::StatusOr<StepSpeed> MeasureStep(const std::string& worker, const v1::RunSpec& spec,
                                      uint32_t threads, const std::string& device, int seconds);

// What a round means for a machine whose training and line are as said; 0: not known.
struct RoundCost {
  double up_bytes = 0, down_bytes = 0;  // as the network sees them
  double train_seconds = 0;
  double exchange_seconds = 0;  // its own bytes over its own line
  double state_bytes = 0;       // to fetch once, on joining

  double seconds() const { return train_seconds + exchange_seconds; }
  double rounds_a_day() const;  // at most: a round ends when others are ready, too; 0: not known
  double bytes_a_day() const { return (up_bytes + down_bytes) * rounds_a_day(); }
};

// `peers`: that average with each other, this one among them. `dialled`: others can reach it, so
// that it averages a part for them. Rates of 0: not known.
RoundCost CostOf(const v1::RunSpec& spec, uint32_t peers, bool dialled, double step_seconds,
                 const LineSpeed& line);

// What a line that was measured leaves under these caps.
LineSpeed UnderCaps(const LineSpeed& line, const MachineConfig& machine);

Finding LineFinding(const absl::StatusOr<LineSpeed>& line, const MachineConfig& machine);
Finding SpeedFinding(const absl::StatusOr<StepSpeed>& speed, const v1::RunSpec& spec);
std::vector<Finding> CostFindings(const RoundCost& cost, const MachineConfig& machine);

struct CostQuestion {
  v1::RunSpec spec;
  uint32_t peers = 2;
  bool dialled = false;
  std::string worker;  // the program that would train; empty: none would
  uint32_t threads = 1;
  std::string device = "auto";
  int step_seconds = 3;  // for which steps are measured
  double slower = 1;     // [worker] slower: a step lasts so many times what is measured
  MachineConfig machine;
  std::function<absl::StatusOr<LineSpeed>()> measure_line;
};

// Measures, and says all of the above. Nothing of it is fatal.
std::vector<Finding> LookAtCosts(const CostQuestion& question);

}  // namespace atolld
