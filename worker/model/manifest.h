// The manifest of a GPT: the names, shapes and places of its tensors in the one flat parameter
// vector.
//
// Names and order are nanoGPT's, so that what Atoll exports loads where nanoGPT's checkpoints do.
// The token embedding and the output head are one tensor and appear once. Pure functions; any
// thread.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "atoll/v1/run.pb.h"

namespace atolld {

// INVALID_ARGUMENT names the field that is out of the limits written in run.proto.
absl::Status CheckModelSpec(const v1::ModelSpec& model);

// INVALID_ARGUMENT as CheckModelSpec.
absl::StatusOr<v1::Manifest> MakeManifest(const v1::ModelSpec& model);

// The values of one tensor: the product of its dimensions.
uint64_t TensorElements(const v1::Tensor& tensor);

}  // namespace atolld
