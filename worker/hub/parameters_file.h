// Parameters in one safetensors file under a manifest's own names: what `atoll import` makes.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"

namespace atolld {

// The SHA-256 of a file, 32 bytes. NOT_FOUND: it cannot be read.
absl::StatusOr<std::string> FileDigest(const std::string& path);

// Fills `out`, manifest.elements() values. INVALID_ARGUMENT: the file's tensors are not those of
// the manifest; DATA_LOSS: it is no safetensors file. The error names the file.
absl::Status LoadParameters(const std::string& path, const v1::Manifest& manifest,
                            absl::Span<float> out);

}  // namespace atolld
