// Makes the model of a run: a GPT, a Llama, or adapters for one of them.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "atoll/v1/run.pb.h"
#include "worker/model/model.h"

namespace atolld {

// Makes the model of the spec's kind, or its adapters. If `checkpointing` is true, the activations
// of blocks are not kept but computed again in the backward pass; adapters always keep their
// activations. Fails with INVALID_ARGUMENT if the spec is invalid, and with FAILED_PRECONDITION if
// the file at model.base_path() is not the base model of the run.
absl::StatusOr<std::unique_ptr<Model>> MakeModel(const v1::ModelSpec& model,
                                                 bool checkpointing = false);

}  // namespace atolld
