#include "worker/gpt.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <functional>

#include "absl/strings/match.h"
#include "worker/checkpoint.h"
#include "worker/manifest.h"
#include "worker/torch_version.h"

namespace atolld {
namespace {

constexpr double kNormEpsilon = 1e-5;  // nn.LayerNorm's
constexpr double kInitStd = 0.02;      // GPT-2's

at::Tensor View(const v1::Tensor& tensor, const at::Tensor& flat) {
  const std::vector<int64_t> shape(tensor.shape().begin(), tensor.shape().end());
  return flat
      .narrow(0, static_cast<int64_t>(tensor.offset()),
              static_cast<int64_t>(TensorElements(tensor)))
      .view(shape);
}

at::Tensor Norm(const at::Tensor& x, const at::Tensor& weight) {
  return at::layer_norm(x, weight.sizes(), weight, {}, kNormEpsilon);
}

at::Tensor Drop(const at::Tensor& x, double dropout) {
  return dropout > 0 ? at::dropout(x, dropout, /*train=*/true) : x;
}

// The manifest's order, once: both ways of binding walk it.
GptParameters Assemble(const v1::Manifest& manifest,
                       const std::function<at::Tensor(const v1::Tensor&)>& bind) {
  int next = 0;
  const auto take = [&] { return bind(manifest.tensors(next++)); };
  GptParameters out;
  out.token_embedding = take();
  out.position_embedding = take();
  while (next + 1 < manifest.tensors_size()) {
    GptParameters::Block block;
    block.attention_norm = take();
    block.attention_in = take();
    block.attention_out = take();
    block.mlp_norm = take();
    block.mlp_in = take();
    block.mlp_out = take();
    out.blocks.push_back(std::move(block));
  }
  out.final_norm = take();
  return out;
}

}  // namespace

Gpt::Gpt(const v1::ModelSpec& model, const v1::Manifest& manifest, bool checkpointing)
    : model_(model), manifest_(manifest), checkpointing_(checkpointing) {}

GptParameters Gpt::Bind(const at::Tensor& flat) const {
  return Assemble(manifest_, [&](const v1::Tensor& tensor) { return View(tensor, flat); });
}

GptParameters Gpt::BindTrainable(const at::Tensor& flat, const at::Tensor& gradient) const {
  return Assemble(manifest_, [&](const v1::Tensor& tensor) {
    at::Tensor leaf = View(tensor, flat).detach();
    leaf.requires_grad_(true);
    leaf.mutable_grad() = View(tensor, gradient);
    return leaf;
  });
}

void Gpt::Initialise(const at::Tensor& flat, uint64_t seed) const {
  const at::NoGradGuard no_grad;
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  for (const v1::Tensor& tensor : manifest_.tensors()) {
    const at::Tensor view = View(tensor, flat);
    if (tensor.shape_size() == 1) {
      view.fill_(1.0);
      continue;
    }
    const double std_dev = absl::EndsWith(tensor.name(), "c_proj.weight")
                               ? kInitStd / std::sqrt(2.0 * model_.layers())
                               : kInitStd;
    view.normal_(0.0, std_dev, generator);
  }
}

at::Tensor Gpt::Attention(const GptParameters::Block& block, const at::Tensor& x, int64_t batch,
                          double dropout) const {
  const int64_t heads = model_.heads(), width = model_.width();
  const int64_t tokens = x.size(0) / batch;
  const at::Tensor qkv = at::mm(x, block.attention_in.t())
                             .view({batch, tokens, 3, heads, width / heads})
                             .permute({2, 0, 3, 1, 4});
  const at::Tensor y = CausalAttention(qkv[0], qkv[1], qkv[2], dropout);
  return at::mm(y.transpose(1, 2).reshape({batch * tokens, width}), block.attention_out.t());
}

at::Tensor Gpt::RunBlock(const GptParameters::Block& block, const at::Tensor& in, int64_t batch,
                         double dropout) const {
  const at::Tensor x =
      in + Drop(Attention(block, Norm(in, block.attention_norm), batch, dropout), dropout);
  const at::Tensor hidden = at::gelu(at::mm(Norm(x, block.mlp_norm), block.mlp_in.t()));
  return x + Drop(at::mm(hidden, block.mlp_out.t()), dropout);
}

at::Tensor Gpt::Logits(const GptParameters& parameters, const at::Tensor& tokens,
                       double dropout) const {
  const int64_t batch = tokens.size(0), length = tokens.size(1), width = model_.width();
  at::Tensor x = at::embedding(parameters.token_embedding, tokens) +
                 parameters.position_embedding.narrow(0, 0, length);
  x = Drop(x.view({batch * length, width}), dropout);
  for (const GptParameters::Block& block : parameters.blocks) {
    if (!checkpointing_) {
      x = RunBlock(block, x, batch, dropout);
      continue;
    }
    x = Checkpointed([this, block, batch, dropout](
                         const at::Tensor& in) { return RunBlock(block, in, batch, dropout); },
                     x);
  }
  return at::mm(Norm(x, parameters.final_norm), parameters.token_embedding.t());
}

at::Tensor Gpt::Loss(const GptParameters& parameters, const at::Tensor& tokens,
                     const at::Tensor& targets, double dropout) const {
  // Under autocast the last product is bf16, which is too coarse for a sum of exponentials.
  return at::cross_entropy_loss(Logits(parameters, tokens, dropout).to(at::kFloat),
                                targets.reshape({-1}));
}

}  // namespace atolld
