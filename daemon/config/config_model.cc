#include "daemon/config/config_model.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "daemon/config/config_foreign.h"
#include "daemon/config/config_names.h"

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
  spec.set_lora_alpha(model.lora_alpha != 0 ? model.lora_alpha : 2.0 * model.lora_rank);
  const std::string usual = model.kind == "llama" ? "q_proj,v_proj" : "c_attn";
  std::vector<std::string> targets =
      SplitNames(model.lora_targets.empty() ? usual : model.lora_targets);
  absl::c_sort(targets);
  targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
  for (const std::string& target : targets) spec.add_lora_targets(target);
  std::string digest(model.base_digest.size() / 2, '\0');  // of hex digits alone: a rule of its own
  size_t length = 0;
  OPENSSL_hexstr2buf_ex(reinterpret_cast<unsigned char*>(digest.data()), digest.size(), &length,
                        model.base_digest.c_str(), /*sep=*/'\0');
  spec.set_base_digest(digest);
}

// Of one block: the [out, in] of each matrix that adapters may stand beside, and all else.
struct BlockSize {
  struct Matrix {
    std::string name;
    uint64_t out, in;
  };
  std::vector<Matrix> matrices;
  uint64_t others;  // norms and biases
};

BlockSize SizeOfBlock(const v1::ModelSpec& model) {
  const uint64_t width = model.width();
  if (model.kind() == "llama") {
    const uint64_t keys = width / model.heads() * model.kv_heads(), hidden = model.hidden();
    return {{{"q_proj", width, width},
             {"k_proj", keys, width},
             {"v_proj", keys, width},
             {"o_proj", width, width},
             {"gate_proj", hidden, width},
             {"up_proj", hidden, width},
             {"down_proj", width, hidden}},
            2 * width};
  }
  const bool biased = model.kind() == "gpt2";
  const uint64_t hidden = biased ? model.hidden() : 4 * width;
  return {{{"c_attn", 3 * width, width},
           {"c_proj", width, width},
           {"c_fc", hidden, width},
           {"c_proj", width, hidden}},
          biased ? 4 * width + 5 * width + hidden : 2 * width};
}

}  // namespace

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
  }
  return spec;
}

std::vector<std::string> AdapterTargets(const std::string& kind) {
  if (kind == "llama") {
    return {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"};
  }
  return {"c_attn", "c_proj", "c_fc"};
}

uint64_t TrainedParameters(const v1::ModelSpec& model) {
  if (model.kind() == kStubKind) return model.parameters();
  const BlockSize block = SizeOfBlock(model);
  uint64_t a_block = 0;
  if (model.lora_rank() != 0) {
    for (const BlockSize::Matrix& matrix : block.matrices) {
      if (!absl::c_linear_search(model.lora_targets(), matrix.name)) continue;
      a_block += model.lora_rank() * (matrix.out + matrix.in);
    }
    return model.layers() * a_block;
  }
  a_block = block.others;
  for (const BlockSize::Matrix& matrix : block.matrices) a_block += matrix.out * matrix.in;
  const uint64_t width = model.width();
  const uint64_t embeddings = uint64_t{model.vocabulary()} * width * (model.untied() ? 2 : 1);
  const uint64_t positions = model.kind() == "llama" ? 0 : model.context() * width;
  const uint64_t last_norm = model.kind() == "gpt2" ? 2 * width : width;
  return embeddings + positions + model.layers() * a_block + last_norm;
}

}  // namespace atolld
