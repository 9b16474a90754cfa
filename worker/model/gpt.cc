#include "worker/model/gpt.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "worker/torch_version.h"

namespace atolld {
namespace {

constexpr double kNormEpsilon = 1e-5;  // nn.LayerNorm's
constexpr double kInitStd = 0.02;      // GPT-2's

at::Tensor Norm(const at::Tensor& x, const at::Tensor& weight) {
  return at::layer_norm(x, weight.sizes(), weight, {}, kNormEpsilon);
}

at::Tensor Drop(const at::Tensor& x, double dropout) {
  return dropout > 0 ? at::dropout(x, dropout, /*train=*/true) : x;
}

}  // namespace

// The manifest's order of one block.
struct Gpt::Block {
  at::Tensor attention_norm, attention_in, attention_out, mlp_norm, mlp_in, mlp_out;
};

Gpt::Gpt(const v1::ModelSpec& model, v1::Manifest manifest)
    : Model(std::move(manifest)), model_(model) {}

void Gpt::Initialise(const at::Tensor& flat, uint64_t seed) const {
  const at::NoGradGuard no_grad;
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const ModelParameters views = Bind(flat);
  for (size_t i = 0; i < views.size(); ++i) {
    if (views[i].dim() == 1) {
      views[i].fill_(1.0);
      continue;
    }
    const std::string& name = manifest().tensors(static_cast<int>(i)).name();
    const double std_dev = absl::EndsWith(name, "c_proj.weight")
                               ? kInitStd / std::sqrt(2.0 * model_.layers())
                               : kInitStd;
    views[i].normal_(0.0, std_dev, generator);
  }
}

at::Tensor Gpt::Attention(const Block& block, const at::Tensor& x, int64_t batch,
                          double dropout) const {
  const int64_t heads = model_.heads(), width = model_.width();
  const int64_t tokens = x.size(0) / batch;
  const at::Tensor qkv = at::mm(x, block.attention_in.t())
                             .view({batch, tokens, 3, heads, width / heads})
                             .permute({2, 0, 3, 1, 4});
  const at::Tensor y = CausalAttention(qkv[0], qkv[1], qkv[2], dropout);
  return at::mm(y.transpose(1, 2).reshape({batch * tokens, width}), block.attention_out.t());
}

at::Tensor Gpt::Logits(const ModelParameters& parameters, const at::Tensor& tokens,
                       double dropout) const {
  const int64_t batch = tokens.size(0), length = tokens.size(1), width = model_.width();
  auto next = parameters.begin();
  const at::Tensor& token_embedding = *next++;
  const at::Tensor& position_embedding = *next++;
  at::Tensor x = at::embedding(token_embedding, tokens) + position_embedding.narrow(0, 0, length);
  x = Drop(x.view({batch * length, width}), dropout);
  for (uint32_t layer = 0; layer < model_.layers(); ++layer) {
    const Block block{*next++, *next++, *next++, *next++, *next++, *next++};
    x = x + Drop(Attention(block, Norm(x, block.attention_norm), batch, dropout), dropout);
    const at::Tensor hidden = at::gelu(at::mm(Norm(x, block.mlp_norm), block.mlp_in.t()));
    x = x + Drop(at::mm(hidden, block.mlp_out.t()), dropout);
  }
  return at::mm(Norm(x, *next++), token_embedding.t());
}

}  // namespace atolld
