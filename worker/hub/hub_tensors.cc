#include "worker/hub/hub_tensors.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace atolld {

bool IsTransposed(const v1::ModelSpec& model, const std::string& name) {
  return model.kind() != "llama" &&
         (absl::EndsWith(name, "c_attn.weight") || absl::EndsWith(name, "c_proj.weight") ||
          absl::EndsWith(name, "c_fc.weight"));
}

std::vector<uint64_t> HubShape(const v1::ModelSpec& model, const v1::Tensor& tensor) {
  std::vector<uint64_t> shape(tensor.shape().begin(), tensor.shape().end());
  if (IsTransposed(model, tensor.name())) std::reverse(shape.begin(), shape.end());
  return shape;
}

void Transpose(absl::Span<const float> in, uint64_t rows, uint64_t columns, absl::Span<float> out) {
  constexpr uint64_t kBlock = 32;  // both sides stay within the cache
  for (uint64_t first = 0; first < rows; first += kBlock) {
    const uint64_t last = std::min(rows, first + kBlock);
    for (uint64_t column = 0; column < columns; ++column) {
      for (uint64_t row = first; row < last; ++row) {
        out[column * rows + row] = in[row * columns + column];
      }
    }
  }
}

std::vector<ZeroBias> ZeroBiases(const v1::ModelSpec& model, const v1::Manifest& manifest) {
  std::vector<ZeroBias> biases;
  if (model.kind() != "gpt") return biases;
  for (const v1::Tensor& tensor : manifest.tensors()) {
    if (absl::StrContains(tensor.name(), ".wte.") || absl::StrContains(tensor.name(), ".wpe.")) {
      continue;
    }
    const absl::string_view module = absl::StripSuffix(tensor.name(), ".weight");
    biases.push_back({absl::StrCat(module, ".bias"), tensor.shape(0)});
  }
  return biases;
}

}  // namespace atolld
