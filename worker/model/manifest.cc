#include "worker/model/manifest.h"

#include <initializer_list>
#include <string>

#include "absl/strings/str_cat.h"
#include "worker/status_macros.h"

namespace atolld {
namespace {

// Far above any model that one machine trains; keeps every product of dimensions inside 64 bits.
constexpr uint32_t kMaxWidth = 1u << 20;
constexpr uint32_t kMaxContext = 1u << 24;
constexpr uint32_t kMaxVocabulary = 1u << 24;

absl::Status Wrong(absl::string_view what) { return absl::InvalidArgumentError(what); }

void Append(v1::Manifest& manifest, std::string name, std::initializer_list<uint64_t> shape) {
  v1::Tensor& tensor = *manifest.add_tensors();
  tensor.set_name(std::move(name));
  for (const uint64_t size : shape) tensor.add_shape(size);
  tensor.set_offset(manifest.elements());
  manifest.set_elements(manifest.elements() + TensorElements(tensor));
}

}  // namespace

absl::Status CheckModelSpec(const v1::ModelSpec& model) {
  if (model.kind() != "gpt") {
    return Wrong(absl::StrCat("model.kind \"", model.kind(), "\" is not known; known: gpt"));
  }
  if (model.layers() < 1 || model.layers() > 1024) {
    return Wrong(absl::StrCat("model.layers is ", model.layers(), "; it must be 1-1024"));
  }
  if (model.width() < 1 || model.width() > kMaxWidth) {
    return Wrong(absl::StrCat("model.width is ", model.width(), "; it must be 1-", kMaxWidth));
  }
  if (model.heads() < 1 || model.width() % model.heads() != 0) {
    return Wrong(absl::StrCat("model.heads is ", model.heads(), "; it must divide model.width (",
                              model.width(), ")"));
  }
  if (model.context() < 1 || model.context() > kMaxContext) {
    return Wrong(
        absl::StrCat("model.context is ", model.context(), "; it must be 1-", kMaxContext));
  }
  if (model.vocabulary() < 1 || model.vocabulary() > kMaxVocabulary) {
    return Wrong(absl::StrCat("model.vocabulary is ", model.vocabulary(), "; it must be 1-",
                              kMaxVocabulary));
  }
  if (!(model.dropout() >= 0 && model.dropout() <= 0.9)) {
    return Wrong(absl::StrCat("model.dropout is ", model.dropout(), "; it must be 0-0.9"));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::Manifest> MakeManifest(const v1::ModelSpec& model) {
  RETURN_IF_ERROR(CheckModelSpec(model));
  const uint64_t width = model.width();
  v1::Manifest manifest;
  Append(manifest, "transformer.wte.weight", {model.vocabulary(), width});
  Append(manifest, "transformer.wpe.weight", {model.context(), width});
  for (uint32_t layer = 0; layer < model.layers(); ++layer) {
    const std::string prefix = absl::StrCat("transformer.h.", layer, ".");
    Append(manifest, prefix + "ln_1.weight", {width});
    Append(manifest, prefix + "attn.c_attn.weight", {3 * width, width});
    Append(manifest, prefix + "attn.c_proj.weight", {width, width});
    Append(manifest, prefix + "ln_2.weight", {width});
    Append(manifest, prefix + "mlp.c_fc.weight", {4 * width, width});
    Append(manifest, prefix + "mlp.c_proj.weight", {width, 4 * width});
  }
  Append(manifest, "transformer.ln_f.weight", {width});
  return manifest;
}

uint64_t TensorElements(const v1::Tensor& tensor) {
  uint64_t elements = 1;
  for (const uint64_t size : tensor.shape()) elements *= size;
  return elements;
}

}  // namespace atolld
