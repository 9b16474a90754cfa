// Finds what is wrong with a config on this machine before anything is started: the data, as the
// worker reads them, and the devices that the config names.
//
// The rest of a config is checked when it is read (config.h). The functions block.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compression/base/process_limits.h"
#include "daemon/config/config.h"

namespace atolld {

// Counts the vocabulary of a local run if [model] vocabulary is 0 and only the worker can find it:
// sets it to the number of different tokens that the run's tokenizer makes of its text. Every later
// worker makes the same table of tokens from the same text; a different text is refused, because
// the run's record holds a digest of it. Errors say what is wrong with the text. `worker` is the
// path of atoll-worker.
absl::Status CountVocabulary(const std::string& worker, Config* config);

struct DataFound {
  // True if all data were read; false if there are none, or too many to read them twice.
  bool read = false;
  uint64_t train_tokens = 0;
  uint64_t validation_tokens = 0;
};

// Lets the worker read the data if they are small, and counts the vocabulary as
// CountVocabulary does. Fails with INVALID_ARGUMENT if a worker could not start with the data: if
// there are none, if they are not text, if an id exceeds the model's vocabulary, or if a split has
// no whole sequence; of one private source, which may be shorter than the model's context, if its
// training split has less than two tokens. Fails in the same way if the data have another tokenizer
// than the model that [model] initial or base names, except for a peer, which gets the run's
// tokenizer from the others and need not name it.
absl::StatusOr<DataFound> InspectData(const std::string& worker, Config* config, ConfigUse use);

// Fails with INVALID_ARGUMENT if [worker] device names a GPU that this machine does not have or
// that the worker cannot use. The devices of a user's own program are not checked.
absl::Status CheckDevices(const std::string& worker, const Config& config);

// Fails with INVALID_ARGUMENT if the parameters and gradients of `workers` peers on this machine
// already exceed `memory`. Returns OK for a user's own model, whose size is unknown. Pure.
absl::Status CheckFits(const Config& config, uint32_t workers, const MemoryLimit& memory);

// Fails with INVALID_ARGUMENT if the training of this run cannot fit into [worker] memory, in the
// words of the worker's daemon. The config must have the run's model and [inner]. Pure.
absl::Status CheckTrainingFits(const Config& config);

}  // namespace atolld
