// How our tensors lie in Hugging Face's files. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"

namespace atolld {

// GPT-2's matrices are Conv1D's there, [in, out]; ours are [out, in].
bool IsTransposed(const v1::ModelSpec& model, const std::string& name);

// The shape there.
std::vector<uint64_t> HubShape(const v1::ModelSpec& model, const v1::Tensor& tensor);

// `out`, [columns, rows], is `in`, [rows, columns], transposed.
void Transpose(absl::Span<const float> in, uint64_t rows, uint64_t columns, absl::Span<float> out);

// The biases that GPT-2 has there and our kind "gpt" lacks: names and sizes, all values 0. None for
// other kinds.
struct ZeroBias {
  std::string name;
  uint64_t elements;
};
std::vector<ZeroBias> ZeroBiases(const v1::ModelSpec& model, const v1::Manifest& manifest);

}  // namespace atolld
