#include "worker/base/manifest.h"

#include <cmath>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "compression/base/decoder.h"
#include "compression/base/lora_slices.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"

namespace atolld {
namespace {

// Far above any model that one machine trains; keeps every product of dimensions inside 64 bits.
constexpr uint32_t kMaxRank = 65536;
constexpr size_t kDigestBytes = 32;
constexpr uint32_t kMaxWidth = 1u << 20;
constexpr uint32_t kMaxContext = 1u << 24;
constexpr uint32_t kMaxVocabulary = 1u << 24;

absl::Status WrongModel(absl::string_view what) { return absl::InvalidArgumentError(what); }

void Append(v1::Manifest& manifest, std::string name, absl::Span<const uint64_t> shape) {
  v1::Tensor& tensor = *manifest.add_tensors();
  tensor.set_name(std::move(name));
  for (const uint64_t one : shape) tensor.add_shape(one);
  tensor.set_offset(manifest.elements());
  manifest.set_elements(manifest.elements() + TensorElements(tensor));
}

absl::Status CheckRange(absl::string_view field, uint64_t value, uint64_t most) {
  if (value >= 1 && value <= most) return absl::OkStatus();
  return WrongModel(absl::StrCat("model.", field, " is ", value, "; it must be 1-", most));
}

absl::Status CheckUnused(const v1::ModelSpec& model) {
  if (model.kv_heads() == 0 && model.hidden() == 0 && !model.untied() && model.rope_theta() == 0 &&
      model.norm_epsilon() == 0) {
    return absl::OkStatus();
  }
  return WrongModel(
      "model.kv_heads, hidden, untied, rope_theta and norm_epsilon must be 0 with kind \"gpt\"");
}

absl::Status CheckAdapters(const v1::ModelSpec& model) {
  if (model.lora_rank() == 0) return absl::OkStatus();
  RETURN_IF_ERROR(CheckRange("lora_rank", model.lora_rank(), kMaxRank));
  if (!(model.lora_alpha() > 0 && std::isfinite(model.lora_alpha()))) {
    return WrongModel(
        absl::StrCat("model.lora_alpha is ", model.lora_alpha(), "; it must be above 0"));
  }
  if (model.lora_slice() != 0) {
    RETURN_IF_ERROR(CheckLoraSlice(model.lora_rank(), model.lora_slice(), "model."));
    if (model.local_size() > 0) {
      return WrongModel(
          "model.local must be empty with model.lora_slice: a tensor that stays with "
          "each peer is in no slice that others train");
    }
  }
  if (model.base_digest().size() != kDigestBytes) {
    return WrongModel(absl::StrCat("model.base_digest has ",
                                   Counted(model.base_digest().size(), "byte"), "; it must have ",
                                   kDigestBytes));
  }
  return absl::OkStatus();
}

absl::Status CheckShape(const v1::ModelSpec& model) {
  RETURN_IF_ERROR(CheckRange("layers", model.layers(), kMaxLayers));
  RETURN_IF_ERROR(CheckRange("width", model.width(), kMaxWidth));
  if (model.heads() < 1 || model.width() % model.heads() != 0) {
    return WrongModel(absl::StrCat("model.heads is ", model.heads(),
                                   "; it must divide model.width (", model.width(), ")"));
  }
  RETURN_IF_ERROR(CheckRange("context", model.context(), kMaxContext));
  RETURN_IF_ERROR(CheckRange("vocabulary", model.vocabulary(), kMaxVocabulary));
  if (!(model.dropout() >= 0 && model.dropout() <= 0.9)) {
    return WrongModel(absl::StrCat("model.dropout is ", model.dropout(), "; it must be 0-0.9"));
  }
  if (model.kind() == "gpt") return CheckUnused(model);
  RETURN_IF_ERROR(CheckRange("hidden", model.hidden(), kMaxWidth));
  if (!(model.norm_epsilon() > 0 && model.norm_epsilon() <= 1)) {
    return WrongModel(absl::StrCat("model.norm_epsilon is ", model.norm_epsilon(),
                                   "; it must be above 0 and at most 1"));
  }
  return absl::OkStatus();
}

absl::Status CheckAttention(const v1::ModelSpec& model) {
  if (model.kind() == "gpt2" && (model.kv_heads() != model.heads() || model.rope_theta() != 0)) {
    return WrongModel(
        "model.kv_heads must be model.heads, and rope_theta 0, with kind \"gpt2\", which has "
        "neither "
        "grouped queries nor rotary positions");
  }
  const DecoderShape decoder = DecoderShapeOf(model);
  const DecoderFault fault = model.kind() == "llama" ? FaultOfDecoder(decoder, model.layers())
                                                     : FaultOfNoDecoder(decoder, model.kind());
  if (!fault.what.empty()) return WrongModel(absl::StrCat("model.", fault.what));
  if (model.kind() != "llama") return absl::OkStatus();
  if (model.kv_heads() < 1 || model.heads() % model.kv_heads() != 0) {
    return WrongModel(absl::StrCat("model.kv_heads is ", model.kv_heads(),
                                   "; it must divide model.heads (", model.heads(), ")"));
  }
  if (decoder.head_width == 0 && model.width() / model.heads() % 2 != 0) {
    return WrongModel(absl::StrCat("model.width is ", model.width(),
                                   "; with kind \"llama\" a head of it "
                                   "must be even, and one of ",
                                   model.heads(), " is not"));
  }
  if (!(model.rope_theta() >= 1 && std::isfinite(model.rope_theta()))) {
    return WrongModel(
        absl::StrCat("model.rope_theta is ", model.rope_theta(), "; it must be 1 or more"));
  }
  return absl::OkStatus();
}

// Appends a matrix, and its bias if the kind has biases.
void AppendLinear(v1::Manifest& manifest, const std::string& name, uint64_t out, uint64_t in,
                  bool biased) {
  Append(manifest, name + ".weight", {out, in});
  if (biased) Append(manifest, name + ".bias", {out});
}

v1::Manifest GptManifest(const v1::ModelSpec& model) {
  const bool biased = model.kind() == "gpt2";
  const uint64_t width = model.width();
  const uint64_t hidden = biased ? model.hidden() : 4 * width;
  v1::Manifest manifest;
  const auto norm = [&](const std::string& name) {
    Append(manifest, name + ".weight", {width});
    if (biased) Append(manifest, name + ".bias", {width});
  };
  Append(manifest, "transformer.wte.weight", {model.vocabulary(), width});
  Append(manifest, "transformer.wpe.weight", {model.context(), width});
  for (uint32_t layer = 0; layer < model.layers(); ++layer) {
    const std::string prefix = absl::StrCat("transformer.h.", layer, ".");
    norm(prefix + "ln_1");
    AppendLinear(manifest, prefix + "attn.c_attn", 3 * width, width, biased);
    AppendLinear(manifest, prefix + "attn.c_proj", width, width, biased);
    norm(prefix + "ln_2");
    AppendLinear(manifest, prefix + "mlp.c_fc", hidden, width, biased);
    AppendLinear(manifest, prefix + "mlp.c_proj", width, hidden, biased);
  }
  norm("transformer.ln_f");
  if (model.untied()) Append(manifest, "lm_head.weight", {model.vocabulary(), width});
  return manifest;
}

v1::Manifest LlamaManifest(const v1::ModelSpec& model) {
  const uint64_t width = model.width();
  const DecoderShape shape = DecoderShapeOf(model);
  const BlockSize size{width, model.heads(), model.kv_heads(), model.hidden()};
  v1::Manifest manifest;
  Append(manifest, "model.embed_tokens.weight", {model.vocabulary(), width});
  for (uint32_t layer = 0; layer < model.layers(); ++layer) {
    const std::string prefix = absl::StrCat("model.layers.", layer, ".");
    for (const BlockTensor& tensor : BlockTensors(shape, size, layer)) {
      Append(manifest, prefix + tensor.name, tensor.shape);
    }
  }
  Append(manifest, "model.norm.weight", {width});
  if (model.untied()) Append(manifest, "lm_head.weight", {model.vocabulary(), width});
  return manifest;
}

v1::Manifest WholeManifest(const v1::ModelSpec& model) {
  return model.kind() == "llama" ? LlamaManifest(model) : GptManifest(model);
}

// What follows the name of A or B; PEFT names the tensors of several adapters so.
std::string NameInSlice(const v1::ModelSpec& model, uint32_t slice) {
  return model.lora_slice() == 0 ? ".weight" : absl::StrCat(".", SliceName(slice), ".weight");
}

v1::Manifest AdapterManifest(const v1::ModelSpec& model) {
  const v1::Manifest whole = WholeManifest(model);
  v1::Manifest manifest;
  for (const v1::Tensor& tensor : whole.tensors()) {
    if (!IsAdapted(model, tensor)) continue;
    const std::string module(absl::StripSuffix(tensor.name(), ".weight"));
    const uint64_t rank = model.lora_rank() / SlicesOf(model);
    for (uint32_t slice = 0; slice < SlicesOf(model); ++slice) {
      const std::string name = NameInSlice(model, slice);
      Append(manifest, absl::StrCat(module, ".lora_A", name), {rank, tensor.shape(1)});
    }
    for (uint32_t slice = 0; slice < SlicesOf(model); ++slice) {
      const std::string name = NameInSlice(model, slice);
      Append(manifest, absl::StrCat(module, ".lora_B", name), {tensor.shape(0), rank});
    }
  }
  return manifest;
}

}  // namespace

bool IsAdapted(const v1::ModelSpec& model, const v1::Tensor& tensor) {
  if (tensor.shape_size() != 2) return false;
  for (const std::string& target : model.lora_targets()) {
    if (absl::EndsWith(tensor.name(), absl::StrCat(".", target, ".weight"))) return true;
  }
  return false;
}

absl::Status CheckModelSpec(const v1::ModelSpec& model) {
  if (model.kind() != "gpt" && model.kind() != "gpt2" && model.kind() != "llama") {
    return WrongModel(
        absl::StrCat("model.kind \"", model.kind(), "\" is not known; known: gpt, gpt2, llama"));
  }
  RETURN_IF_ERROR(CheckShape(model));
  RETURN_IF_ERROR(CheckAttention(model));
  return CheckAdapters(model);
}

absl::StatusOr<v1::Manifest> MakeManifest(const v1::ModelSpec& model) {
  RETURN_IF_ERROR(CheckModelSpec(model));
  TensorAliases aliases;
  v1::Manifest manifest;
  if (model.lora_rank() == 0) {
    manifest = WholeManifest(model);
    if (!model.untied()) aliases.emplace_back("lm_head.weight", manifest.tensors(0).name());
  } else {
    manifest = AdapterManifest(model);
  }
  if (manifest.tensors_size() > 0) {
    RETURN_IF_ERROR(PlacePersonal(PersonalPatterns(model), aliases, &manifest));
    return manifest;
  }
  return WrongModel(absl::StrCat("model.lora_targets \"", absl::StrJoin(model.lora_targets(), ","),
                                 "\" name no matrix of a model of kind \"", model.kind(), "\""));
}

uint32_t SlicesOf(const v1::ModelSpec& model) {
  return model.lora_slice() == 0 ? 1 : model.lora_rank() / model.lora_slice();
}

uint64_t TensorElements(const v1::Tensor& tensor) {
  uint64_t elements = 1;
  for (const uint64_t size : tensor.shape()) elements *= size;
  return elements;
}

}  // namespace atolld
