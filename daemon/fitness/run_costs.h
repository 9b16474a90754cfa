// Estimates the cost of a run for a machine before it joins: how fast its line to the coordinator
// is, how long an inner step takes on it, and how many bytes it would send and receive in a day.
//
// The line and the step are measured, and the rest is computed from the run's record. MeasureStep
// and LookAtCosts measure, and block for some seconds. The other functions are pure.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "atoll/v1/run.pb.h"
#include "daemon/config/machine_config.h"
#include "daemon/fitness/preflight.h"
#include "daemon/transport/coordinator_client.h"

namespace atolld {

struct StepSpeed {
  double step_seconds = 0;
  double tokens_per_second = 0;  // 0 if the model's batch does not consist of tokens
  std::string device;            // empty if the time was taken from the run's record
};

// Lets the worker take inner steps of this run on random tokens, for about `seconds` and at least
// one step. For a stub, returns the time in the run's record. Fails with UNIMPLEMENTED for a model
// whose speed can only be measured with its data, its base or the user's own program.
absl::StatusOr<StepSpeed> MeasureStep(const std::string& worker, const v1::RunSpec& spec,
                                      uint32_t threads, const std::string& device, int seconds);

// The cost of a round for one machine. A figure of 0 is unknown.
struct RoundCost {
  double up_bytes = 0, down_bytes = 0;  // including the headers of packets
  double train_seconds = 0;
  double exchange_seconds = 0;  // the time that its bytes take on its own line
  double state_bytes = 0;       // fetched once, on joining

  double seconds() const { return train_seconds + exchange_seconds; }
  // Returns an upper limit, since a round also waits for other peers; 0 if unknown.
  double rounds_a_day() const;
  double bytes_a_day() const { return (up_bytes + down_bytes) * rounds_a_day(); }
};

// Computes the cost. `peers` is the number of peers that average with each other, including this
// one. `dialled` is true if other peers can dial this machine, so that it also averages a part for
// them. Rates of 0 in `line` mean unknown.
RoundCost CostOf(const v1::RunSpec& spec, uint32_t peers, bool dialled, double step_seconds,
                 const LineSpeed& line);

// Returns the rates of a measured line under the caps of `machine`.
LineSpeed UnderCaps(const LineSpeed& line, const MachineConfig& machine);

Finding LineFinding(const absl::StatusOr<LineSpeed>& line, const MachineConfig& machine);
Finding SpeedFinding(const absl::StatusOr<StepSpeed>& speed, const v1::RunSpec& spec);
std::vector<Finding> CostFindings(const RoundCost& cost, const MachineConfig& machine);

struct CostQuestion {
  v1::RunSpec spec;
  uint32_t peers = 2;
  bool dialled = false;
  std::string worker;  // the program that would train; empty for a peer without a worker
  uint32_t threads = 1;
  std::string device = "auto";
  int step_seconds = 3;  // the time for which steps are measured
  double slower = 1;     // [worker] slower: a step lasts this many times the measured time
  MachineConfig machine;
  std::function<absl::StatusOr<LineSpeed>()> measure_line;
};

// Measures the line and a step, and returns the findings of the three functions above. None of them
// is fatal.
std::vector<Finding> LookAtCosts(const CostQuestion& question);

}  // namespace atolld
