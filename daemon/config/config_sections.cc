#include "daemon/config/config_sections.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compression/base/bytes.h"
#include "compression/base/status_macros.h"
#include "daemon/config/data_config.h"
#include "membership/history/header.h"

namespace atolld {
namespace {

constexpr uint32_t kByteVocabulary = 256;
constexpr uint64_t kHiddenMultiple = 256;  // Llama's, for the matrix products' sake
constexpr double kRopeTheta = 10000;       // Llama's, and of the paper of rotary positions
constexpr double kNormEpsilon = 1e-5;      // GPT-2's and Llama's

uint32_t UsualHidden(const ConfigModel& model) {
  if (model.kind != "llama") return 4 * model.width;
  const uint64_t hidden = uint64_t{8} * model.width / 3;
  return static_cast<uint32_t>((hidden + kHiddenMultiple - 1) / kHiddenMultiple * kHiddenMultiple);
}

void AddAdapters(const ConfigModel& model, v1::ModelSpec& spec) {
  spec.set_lora_rank(model.lora_rank);
  spec.set_lora_slice(model.lora_slice);
  spec.set_lora_alpha(model.lora_alpha != 0 ? model.lora_alpha : 2.0 * model.lora_rank);
  // PEFT knows what is usual for each of Hugging Face's.
  const std::string usual = model.kind == kHuggingFaceKind ? ""
                            : model.kind == "llama"        ? "q_proj,v_proj"
                                                           : "c_attn";
  std::vector<std::string> targets =
      SplitNames(model.lora_targets.empty() ? usual : model.lora_targets);
  absl::c_sort(targets);
  targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
  for (const std::string& target : targets) spec.add_lora_targets(target);
  spec.set_base_digest(BytesOfHex(model.base_digest));  // hex digits alone: a rule of its own
}

// The parts of one block: each matrix that may have adapters, by its last name, and all others.
struct BlockParts {
  std::vector<BlockTensor> matrices;
  uint64_t others = 0;  // norms and biases
};

BlockParts PartsOfBlock(const v1::ModelSpec& model, uint32_t layer) {
  const uint64_t width = model.width();
  if (model.kind() == "llama") {
    BlockParts parts;
    const BlockSize size{width, model.heads(), model.kv_heads(), model.hidden()};
    for (BlockTensor& tensor : BlockTensors(DecoderShapeOf(model), size, layer)) {
      if (tensor.shape.size() == 1) {
        parts.others += tensor.shape[0];
        continue;
      }
      tensor.name = std::string(absl::StripSuffix(tensor.name, ".weight"));
      tensor.name.erase(0, tensor.name.rfind('.') + 1);
      parts.matrices.push_back(std::move(tensor));
    }
    return parts;
  }
  const bool biased = model.kind() == "gpt2";
  const uint64_t hidden = biased ? model.hidden() : 4 * width;
  return {{{"c_attn", {3 * width, width}},
           {"c_proj", {width, width}},
           {"c_fc", {hidden, width}},
           {"c_proj", {width, hidden}}},
          biased ? 4 * width + 5 * width + hidden : 2 * width};
}

// Returns how many parameters of one block are trained.
uint64_t TrainedOfBlock(const v1::ModelSpec& model, const BlockParts& block) {
  uint64_t trained = model.lora_rank() != 0 ? 0 : block.others;
  for (const BlockTensor& matrix : block.matrices) {
    if (model.lora_rank() == 0) {
      trained += matrix.shape[0] * matrix.shape[1];
    } else if (absl::c_linear_search(model.lora_targets(), matrix.name)) {
      trained += model.lora_rank() * (matrix.shape[0] + matrix.shape[1]);
    }
  }
  return trained;
}

void SetForeignSpec(const ConfigModel& model, v1::ModelSpec* spec) {
  spec->set_kind(model.kind);
  spec->set_context(1);  // a sample is one row, and counts as one token
  spec->set_file_digest(model.file_digest);
  if (model.kind != kHuggingFaceKind) return;
  spec->set_context(model.context);
  if (model.lora_rank != 0) AddAdapters(model, *spec);
  spec->set_base_bits(model.base_bits);
  // Without a rank, of the adapters that lie in the folder.
  spec->set_base_digest(BytesOfHex(model.base_digest));
}

constexpr size_t kReadBytes = size_t{1} << 20;

}  // namespace

bool IsForeign(absl::string_view model_kind) {
  return model_kind == kExternalKind || model_kind == kTorchScriptKind ||
         model_kind == kHuggingFaceKind;
}

bool TakesModelKey(absl::string_view kind, absl::string_view key) {
  if (key == "kind") return true;
  if (kind == kExternalKind) return false;
  if (kind == kHuggingFaceKind) {
    return key == "path" || key == "context" || key == "base_digest" || key == "base_bits" ||
           absl::StartsWith(key, "lora_");
  }
  return key != "path" && (kind == kTorchScriptKind) == (key == "file");
}

absl::string_view WhyNoModelKey(absl::string_view kind, absl::string_view key) {
  if (kind == kExternalKind) return "which its worker alone describes";
  if (kind == kTorchScriptKind) return "which is whatever its file holds";
  if (kind == kHuggingFaceKind) return "which is whatever its folder holds";
  return key == "path" ? "which is not a folder; 'huggingface' is"
                       : "which is not a file; 'torchscript' is";
}

absl::StatusOr<std::string> DigestOfFile(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free);
  bool good = stream.good() && context != nullptr &&
              EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  std::vector<char> part(kReadBytes);
  while (good && stream) {
    stream.read(part.data(), static_cast<std::streamsize>(part.size()));
    const auto size = static_cast<size_t>(stream.gcount());
    good = !stream.bad() && EVP_DigestUpdate(context.get(), part.data(), size) == 1;
  }
  std::string digest(32, '\0');
  if (!good || EVP_DigestFinal_ex(context.get(), reinterpret_cast<unsigned char*>(digest.data()),
                                  nullptr) != 1) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read"));
  }
  return digest;
}

std::vector<std::string> SplitNames(const std::string& names) {
  std::vector<std::string> out;
  for (const absl::string_view name : absl::StrSplit(names, ',', absl::SkipWhitespace())) {
    out.emplace_back(absl::StripAsciiWhitespace(name));
  }
  return out;
}

v1::ModelSpec MakeModelSpec(const ConfigModel& model) {
  v1::ModelSpec spec;
  if (IsForeign(model.kind)) {
    SetForeignSpec(model, &spec);
    return spec;
  }
  spec.set_kind(model.kind);
  spec.set_layers(model.layers);
  spec.set_heads(model.heads);
  spec.set_width(model.width);
  spec.set_context(model.context);
  spec.set_vocabulary(model.vocabulary != 0 ? model.vocabulary : kByteVocabulary);
  spec.set_dropout(model.dropout);
  spec.set_parameters(model.parameters);
  spec.set_from_file(!model.initial.empty());
  if (model.lora_rank != 0) AddAdapters(model, spec);
  if (model.kind != "gpt2" && model.kind != "llama") return spec;
  spec.set_kv_heads(model.kv_heads != 0 ? model.kv_heads : model.heads);
  spec.set_hidden(model.hidden != 0 ? model.hidden : UsualHidden(model));
  spec.set_untied(!model.tied);
  spec.set_norm_epsilon(model.norm_epsilon != 0 ? model.norm_epsilon : kNormEpsilon);
  if (model.kind == "llama") {
    spec.set_rope_theta(model.rope_theta != 0 ? model.rope_theta : kRopeTheta);
    SetDecoderShape(DecoderOf(model), &spec);
  }
  return spec;
}

DecoderShape DecoderOf(const ConfigModel& model) {
  DecoderShape shape = model.decoder;
  if (shape.family == "gemma3" && shape.local_rope_theta == 0) shape.local_rope_theta = kRopeTheta;
  return shape;
}

std::vector<std::string> AdapterTargets(const ConfigModel& model) {
  if (model.kind != "llama") return {"c_attn", "c_proj", "c_fc"};
  std::vector<std::string> targets = {"q_proj", "k_proj", "v_proj", "o_proj"};
  const DecoderFamily* const family = FindDecoderFamily(model.decoder.family);
  const bool own_names = family != nullptr && !family->experts.module.empty();
  for (const absl::string_view name :
       {own_names ? family->experts.gate : "gate_proj", own_names ? family->experts.up : "up_proj",
        own_names ? family->experts.down : "down_proj"}) {
    targets.emplace_back(name);
  }
  return targets;
}

uint64_t TrainedParameters(const v1::ModelSpec& model) {
  if (model.kind() == kStubKind) return model.parameters();
  uint64_t blocks = 0;
  for (uint32_t layer = 0; layer < model.layers(); ++layer) {
    blocks += TrainedOfBlock(model, PartsOfBlock(model, layer));
  }
  if (model.lora_rank() != 0) return blocks;
  const uint64_t width = model.width();
  const uint64_t embeddings = uint64_t{model.vocabulary()} * width * (model.untied() ? 2 : 1);
  const uint64_t positions = model.kind() == "llama" ? 0 : model.context() * width;
  const uint64_t last_norm = model.kind() == "gpt2" ? 2 * width : width;
  return embeddings + positions + blocks + last_norm;
}

std::vector<BlockTensor> MatricesOfBlock(const v1::ModelSpec& model, uint32_t layer) {
  return PartsOfBlock(model, layer).matrices;
}

double DefaultOutsized(const Config& config) {
  const bool varied = config.exchange.error_feedback || config.model.lora_slice > 0 ||
                      absl::StripSuffix(config.exchange.codec, "+zstd") == "topk";
  return varied || config.privacy.masked ? 0 : Config().membership.outsized;
}

std::string ValueFolderOf(const PeerConfig::Peer& peer) {
  return peer.values_in == "disk" ? peer.dir : "";
}

std::string WorkerProgramOf(const std::string& model_kind) {
  if (model_kind == kHuggingFaceKind) return "atoll-hf-worker";
  return model_kind == kStubKind ? "atoll-stub-worker" : "atoll-worker";
}

}  // namespace atolld
