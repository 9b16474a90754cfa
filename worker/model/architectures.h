// The architectures: GPTs, Llama, and adapters beside either.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "atoll/v1/run.pb.h"
#include "worker/model/model.h"

namespace atolld {

// The model of the spec's kind, or its adapters. With `checkpointing` the activations of blocks are
// computed again in the backward pass instead of kept; adapters keep theirs. INVALID_ARGUMENT: the
// spec breaks a rule. FAILED_PRECONDITION: the file at model.base_path() is not the run's base.
absl::StatusOr<std::unique_ptr<Model>> MakeModel(const v1::ModelSpec& model,
                                                 bool checkpointing = false);

}  // namespace atolld
