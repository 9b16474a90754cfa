// What is wrong with a config on this machine that shows before anything is started: the data, by
// what the worker reads there, and the devices that it names.
//
// The rest of a config is checked where it is read (config.h). Blocking.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compression/base/process_limits.h"
#include "daemon/config/config.h"

namespace atolld {

// Gives a local run whose [model] vocabulary is 0 the number of tokens of its text under its
// tokenizer, where only the worker can tell. Every later worker makes the same table of the same
// text; one of other text is refused by the run's digest of it. Errors say what of the text is
// wrong. `worker`: the path of atoll-worker.
absl::Status CountVocabulary(const std::string& worker, Config* config);

struct DataFound {
  bool read = false;  // all of it; false: there is none to read, or too much to read twice
  uint64_t train_tokens = 0;
  uint64_t validation_tokens = 0;
};

// Has the worker read the data, where that takes no more than a moment, and counts as
// CountVocabulary. INVALID_ARGUMENT: what every worker would say at its start: nothing is there, it
// is no text, an id is beyond the model's vocabulary, a split has no whole sequence.
absl::StatusOr<DataFound> InspectData(const std::string& worker, Config* config);

// INVALID_ARGUMENT: [worker] device names a GPU that this machine does not have. Of a program of
// the user's own nothing is known.
absl::Status CheckDevices(const std::string& worker, const Config& config);

// INVALID_ARGUMENT: the parameters and their gradients alone, of `workers` peers on this machine,
// are more than `memory` has. A model of the user's own is of unknown size. Pure.
absl::Status CheckFits(const Config& config, uint32_t workers, const MemoryLimit& memory);

}  // namespace atolld
