// Writes safetensors of any tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/hub/dtype.h"

namespace atolld {

struct TensorToWrite {
  std::string name;  // nothing in it to escape
  std::vector<uint64_t> shape;
  std::vector<uint8_t> bytes;  // of the file's dtype
};

// `values` as a file of this dtype holds them.
TensorToWrite MakeTensor(std::string name, std::vector<uint64_t> shape, DType dtype,
                         absl::Span<const float> values);

// All into one file, in this order, durably.
absl::Status WriteTensors(const std::string& path, DType dtype,
                          absl::Span<const TensorToWrite> tensors);

}  // namespace atolld
