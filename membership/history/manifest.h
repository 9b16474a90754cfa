// The manifest of a run's model: names, shapes and places of its tensors in the flat vector.
// Coordinator and peers go by the same rule: what one accepts the others can hold. Pure functions.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "atoll/v1/run.pb.h"

namespace atolld {

// INVALID_ARGUMENT: the manifest is not whole: names that differ, shapes, offsets that tile the
// vector, within run.proto's limits.
absl::Status CheckManifest(const v1::Manifest& manifest);

// "[64, 128]"
std::string ShapeText(const v1::Tensor& tensor);

}  // namespace atolld
