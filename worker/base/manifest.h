// The manifest of a model: the names, shapes and places of its tensors in the one flat parameter
// vector.
//
// Names and order are nanoGPT's for "gpt" and "gpt2" (matrices are [out, in]), and Hugging Face's
// for "llama", so that what Atoll writes is read elsewhere. Where the token embedding is the output
// head too, it appears once. Pure functions; any thread.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "atoll/v1/run.pb.h"

namespace atolld {

// INVALID_ARGUMENT names the field that is out of the limits written in run.proto.
absl::Status CheckModelSpec(const v1::ModelSpec& model);

// What is trained: the adapters alone, A then B of each, where the spec has some. INVALID_ARGUMENT
// as CheckModelSpec.
absl::StatusOr<v1::Manifest> MakeManifest(const v1::ModelSpec& model);

// Whether the run's adapters stand beside this tensor of the base.
bool IsAdapted(const v1::ModelSpec& model, const v1::Tensor& tensor);

// The values of one tensor: the product of its dimensions.
uint64_t TensorElements(const v1::Tensor& tensor);

}  // namespace atolld
