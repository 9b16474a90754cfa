#include "daemon/config/expert_sizes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "compression/base/decoder.h"
#include "daemon/config/config_sections.h"
#include "membership/experts/expert_parts.h"

namespace atolld {
namespace {

// A tensor that is trained, with the name that it has in the manifest (worker/base/manifest.cc).
struct TrainedTensor {
  std::string name;
  uint64_t values = 0;
};

bool HasAdapters(const v1::ModelSpec& model, const BlockTensor& tensor) {
  return tensor.shape.size() == 2 &&
         absl::c_any_of(model.lora_targets(), [&](const std::string& target) {
           return absl::EndsWith(tensor.name, absl::StrCat(".", target, ".weight"));
         });
}

std::vector<TrainedTensor> TensorsOfLayer(const v1::ModelSpec& model, uint32_t layer) {
  const BlockSize size{model.width(), model.heads(), model.kv_heads(), model.hidden()};
  const std::string prefix = absl::StrCat("model.layers.", layer, ".");
  const uint64_t rank = model.lora_rank();
  std::vector<TrainedTensor> tensors;
  for (const BlockTensor& tensor : BlockTensors(DecoderShapeOf(model), size, layer)) {
    if (rank == 0) {
      uint64_t values = 1;
      for (const uint64_t dimension : tensor.shape) values *= dimension;
      tensors.push_back({prefix + tensor.name, values});
    } else if (HasAdapters(model, tensor)) {
      const std::string module =
          absl::StrCat(prefix, absl::StripSuffix(tensor.name, ".weight"), ".lora_");
      tensors.push_back({module + "A.weight", rank * tensor.shape[1]});
      tensors.push_back({module + "B.weight", tensor.shape[0] * rank});
    }
  }
  return tensors;
}

uint64_t RoundedUp(uint64_t values, uint64_t step) { return (values + step - 1) / step * step; }

}  // namespace

uint64_t ExpertSizes::OfExperts() const {
  return std::accumulate(experts.begin(), experts.end(), uint64_t{0});
}

uint64_t ExpertSizes::Padded(uint64_t chunk_elements) const {
  uint64_t end = shared;
  for (const uint64_t values : experts) end = RoundedUp(end, chunk_elements) + values;
  return end;
}

ExpertSizes ExpertSizesOf(const v1::ModelSpec& model, const v1::ExpertsSpec& experts) {
  ExpertSizes sizes;
  if (model.lora_slice() > 0) {
    const uint64_t slices = model.lora_rank() / model.lora_slice();
    if (model.heads() == 0 || slices == 0) return sizes;
    sizes.experts.assign(slices, TrainedParameters(model) / slices);
    return sizes;
  }
  if (model.kind() != "llama" || model.heads() == 0 || experts.tensors().empty() ||
      FindDecoderFamily(DecoderShapeOf(model).family) == nullptr) {
    return sizes;
  }
  // Tensors outside the layers have no number in their names.
  std::map<uint32_t, uint64_t> by_number;
  for (uint32_t layer = 0; layer < model.layers(); ++layer) {
    for (const TrainedTensor& tensor : TensorsOfLayer(model, layer)) {
      uint32_t number = 0;
      const bool owned = absl::c_any_of(experts.tensors(), [&](const std::string& pattern) {
        return MatchesExpert(pattern, tensor.name, &number);
      });
      if (owned) by_number[number] += tensor.values;
    }
  }
  if (by_number.size() < 2) return sizes;
  for (const auto& [number, values] : by_number) sizes.experts.push_back(values);
  sizes.shared = TrainedParameters(model) - sizes.OfExperts();
  return sizes;
}

double OwnedShare(uint64_t experts, uint32_t owners, uint32_t peers) {
  if (owners >= peers) return 1;
  const uint64_t most = (experts * owners + peers - 1) / peers;
  return static_cast<double>(most) / static_cast<double>(experts);
}

}  // namespace atolld
