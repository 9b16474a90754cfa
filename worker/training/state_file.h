// The optimiser's state on disk, so that a worker that was stopped goes on with warm moments.
//
// Tagged with the run and the size of the vector; a file that does not fit is not used. Losing it
// is legal: the moments warm up again.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "worker/training/inner_optimizer.h"

namespace atolld {

// Durable when it returns.
absl::Status SaveState(const std::string& path, const std::string& run_id,
                       const InnerOptimizer::State& state);

// NOT_FOUND: no such file. FAILED_PRECONDITION: of another run or shape. DATA_LOSS: not a whole
// state file. On any error `state` is as before.
absl::Status LoadState(const std::string& path, const std::string& run_id,
                       const InnerOptimizer::State& state);

}  // namespace atolld
