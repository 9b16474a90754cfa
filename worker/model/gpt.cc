#include "worker/model/gpt.h"

#include <utility>

#include "worker/model/dropout.h"
#include "worker/model/layers.h"
#include "worker/model/torch_version.h"

namespace atolld {
namespace {

constexpr double kNormEpsilon = 1e-5;  // nn.LayerNorm's

}  // namespace

// Weight and bias of a norm or a matrix; undefined where the kind has no biases.
struct Gpt::Linear {
  at::Tensor weight, bias;

  at::Tensor operator()(const at::Tensor& x) const {
    return bias.defined() ? at::addmm(bias, x, weight.t()) : at::mm(x, weight.t());
  }
};

// The manifest's order of one block.
struct Gpt::Block {
  Linear attention_norm, attention_in, attention_out, mlp_norm, mlp_in, mlp_out;
};

Gpt::Gpt(const v1::ModelSpec& model, v1::Manifest manifest)
    : Model(std::move(manifest)), model_(model), biased_(model.kind() == "gpt2") {}

void Gpt::Initialise(const at::Tensor& flat, uint64_t seed) const {
  InitialiseLayers(manifest(), model_.layers(), Bind(flat), seed);
}

// It holds nothing but its shape.
std::unique_ptr<Model> Gpt::CopyTo(const at::Device&, const at::Generator& generator) const {
  auto copy = std::make_unique<Gpt>(*this);
  copy->DrawFrom(generator);
  return copy;
}

Gpt::Linear Gpt::Take(ModelParameters::const_iterator& next) const {
  Linear linear;
  linear.weight = *next++;
  if (biased_) linear.bias = *next++;
  return linear;
}

at::Tensor Gpt::Norm(const Linear& norm, const at::Tensor& x) const {
  return at::layer_norm(x, norm.weight.sizes(), norm.weight, norm.bias,
                        biased_ ? model_.norm_epsilon() : kNormEpsilon);
}

at::Tensor Gpt::Attention(const Block& block, const at::Tensor& x, int64_t batch,
                          double dropout) const {
  const int64_t heads = model_.heads(), width = model_.width();
  const int64_t tokens = x.size(0) / batch;
  const at::Tensor qkv =
      block.attention_in(x).view({batch, tokens, 3, heads, width / heads}).permute({2, 0, 3, 1, 4});
  const at::Tensor y = CausalAttention(qkv[0], qkv[1], qkv[2], dropout, generator());
  return block.attention_out(y.transpose(1, 2).reshape({batch * tokens, width}));
}

at::Tensor Gpt::RunBlock(const Block& block, const at::Tensor& in, int64_t batch,
                         double dropout) const {
  const at::Tensor x = in + Drop(Attention(block, Norm(block.attention_norm, in), batch, dropout),
                                 dropout, generator());
  const at::Tensor hidden =
      at::gelu(block.mlp_in(Norm(block.mlp_norm, x)), biased_ ? "tanh" : "none");
  return x + Drop(block.mlp_out(hidden), dropout, generator());
}

at::Tensor Gpt::Logits(const ModelParameters& parameters, const at::Tensor& tokens,
                       double dropout) const {
  const int64_t batch = tokens.size(0), length = tokens.size(1), width = model_.width();
  auto next = parameters.begin();
  const at::Tensor& token_embedding = *next++;
  const at::Tensor& position_embedding = *next++;
  at::Tensor x = at::embedding(token_embedding, tokens) + position_embedding.narrow(0, 0, length);
  x = Drop(x.view({batch * length, width}), dropout, generator());
  for (uint32_t layer = 0; layer < model_.layers(); ++layer) {
    const Block block{Take(next), Take(next), Take(next), Take(next), Take(next), Take(next)};
    const auto run = [this, block, batch, dropout](const at::Tensor& in) {
      return RunBlock(block, in, batch, dropout);
    };
    x = Run(run, x);
  }
  const at::Tensor last = Norm(Take(next), x);
  return at::mm(last, (model_.untied() ? *next : token_embedding).t());
}

}  // namespace atolld
