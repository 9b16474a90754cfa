// Adapters as PEFT has them: adapter_config.json and adapter_model.safetensors.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"
#include "worker/hub/dtype.h"

namespace atolld {

// Makes `folder` where it is missing. `parameters` are of `model`'s manifest, which must be one of
// adapters. `base` is what PEFT's base_model_name_or_path says.
absl::Status WriteAdapterFolder(const std::string& folder, const v1::ModelSpec& model,
                                absl::Span<const float> parameters, const std::string& base,
                                DType dtype);

}  // namespace atolld
