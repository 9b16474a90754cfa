// Writes safetensors: what Hugging Face and PyTorch load.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"

namespace atolld {

// All tensors of `manifest` as F32 into one file, durably. The tied output head is not written
// twice: readers tie it to transformer.wte.weight. INVALID_ARGUMENT: `parameters` does not have
// manifest.elements() values.
absl::Status WriteSafetensors(const std::string& path, const v1::Manifest& manifest,
                              absl::Span<const float> parameters);

}  // namespace atolld
