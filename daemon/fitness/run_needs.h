// Finds out what a machine must have to join a run, and checks that this machine has it. The
// coordinator is asked with a token, which is not used up.
//
// The coordinator describes the run. Files that the peers pass on to each other (run_files.h) need
// not be given. For everything else that is missing, a finding names the option that gives it. The
// functions block.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "atoll/v1/membership.pb.h"
#include "compression/base/process_limits.h"
#include "daemon/config/training_memory.h"
#include "daemon/env/env.h"
#include "daemon/fitness/preflight.h"
#include "daemon/transport/coordinator_client.h"

namespace atolld {

// The files of this machine that the options of `atolld join` name. A member is empty if its option
// is not given.
struct Brought {
  std::string data;       // a file or folder; for several sources all of them, separated by commas
  std::string tokenizer;  // a file
  std::string base;       // a file of `atoll import`
  std::string program;    // a TorchScript file, or the program of an external model
};

// Returns the addresses of the coordinators in the token, in the form of
// CoordinatorAccess::address.
std::string AddressesIn(const v1::JoinToken& token);

// Asks the token's coordinator for the description of the run. During the call `folder` holds the
// token's credentials; it is removed afterwards. Fails with the errors of DescribeRun.
absl::StatusOr<v1::RunDescription> AskAboutRun(Files& files, const v1::JoinToken& token,
                                               const std::string& folder, const Waiting& waiting);

// Measures the line to the token's coordinator, and waits for up to `patience` while another
// machine measures. `folder` is used as in AskAboutRun. Fails with the errors of MeasureLine.
absl::StatusOr<LineSpeed> MeasureLineWith(Files& files, const v1::JoinToken& token,
                                          const std::string& folder, absl::Duration patience);

// Returns a finding about the run itself, then one for each thing that the run needs. If a finding
// is fatal, joining would fail. `memory` is what this process may have.
std::vector<Finding> CheckNeeds(Files& files, const v1::RunDescription& run, const Brought& brought,
                                const MemoryLimit& memory);

// What a training may have of a machine.
struct TrainingRoom {
  std::string device = "auto";   // [worker] device
  uint64_t limit_bytes = 0;      // [worker] memory; 0 means no limit of its own
  bool daemon_in_memory = true;  // false with [peer] values_in = "disk"
  uint32_t peers = 1;            // the trainers of the run, which divide its owned experts
  uint32_t lora_rank = 0;        // [worker] lora_rank
  MemoryLimit memory;            // what this process may have
};

// Finds out what the training of one worker needs, and whether it fits into [worker] memory or, if
// that is not set, into what is free beside the daemon. Returns nullopt if the need is not known.
std::optional<TrainingFit> FitInto(const v1::RunSpec& spec, const TrainingRoom& room);

// Returns what FitInto has found as a finding about "training memory". It is fatal only if the
// training cannot fit into [worker] memory.
Finding TrainingFinding(const v1::RunSpec& spec, const TrainingRoom& room, const TrainingFit& fit);

// Returns the paths in `data`: a single path unless the run mixes several sources.
std::vector<std::string> SourcesIn(const v1::RunSpec& spec, const std::string& data);

}  // namespace atolld
