#include "worker/model/llama.h"

#include <utility>

#include "worker/model/dropout.h"
#include "worker/model/layers.h"
#include "worker/model/torch_version.h"

namespace atolld {

// The manifest's order of one block.
struct Llama::Block {
  at::Tensor attention_norm, q, k, v, attention_out, mlp_norm, gate, up, down;
};

// cos and sin of position x frequency, [tokens, head width / 2].
struct Llama::Rotation {
  at::Tensor cos, sin;

  // `x` is [batch, heads, tokens, head width].
  at::Tensor operator()(const at::Tensor& x) const {
    const int64_t half = x.size(3) / 2;
    const at::Tensor a = x.narrow(3, 0, half), b = x.narrow(3, half, half);
    return at::cat({a * cos - b * sin, b * cos + a * sin}, 3);
  }
};

Llama::Llama(const v1::ModelSpec& model, v1::Manifest manifest)
    : Model(std::move(manifest)), model_(model) {}

void Llama::Initialise(const at::Tensor& flat, uint64_t seed) const {
  InitialiseLayers(manifest(), model_.layers(), Bind(flat), seed);
}

// It holds nothing but its shape.
std::unique_ptr<Model> Llama::CopyTo(const at::Device&, const at::Generator& generator) const {
  auto copy = std::make_unique<Llama>(*this);
  copy->DrawFrom(generator);
  return copy;
}

at::Tensor Llama::Norm(const at::Tensor& x, const at::Tensor& weight) const {
  return x * at::rsqrt(x.square().mean(-1, /*keepdim=*/true) + model_.norm_epsilon()) * weight;
}

// Angles in fp64: far positions turn through many circles, of which fp32 would lose parts.
Llama::Rotation Llama::RotationOf(int64_t tokens, const at::Tensor& like) const {
  const int64_t width = model_.width() / model_.heads();
  const auto exact = like.options().dtype(at::kDouble).requires_grad(false);
  const at::Tensor powers = at::arange(0, width, 2, exact) * (-1.0 / static_cast<double>(width));
  const at::Tensor angles =
      at::outer(at::arange(tokens, exact), at::pow(at::Scalar(model_.rope_theta()), powers));
  return {at::cos(angles).to(like.scalar_type()), at::sin(angles).to(like.scalar_type())};
}

at::Tensor Llama::Attention(const Block& block, const at::Tensor& x, int64_t batch,
                            const Rotation& rotation, double dropout) const {
  const int64_t heads = model_.heads(), groups = model_.kv_heads(), width = model_.width();
  const int64_t tokens = x.size(0) / batch, head = width / heads;
  const auto split = [&](const at::Tensor& weight, int64_t count) {
    return at::mm(x, weight.t()).view({batch, tokens, count, head}).transpose(1, 2);
  };
  // Every key and value serves heads / groups queries that follow each other.
  const auto share = [&](const at::Tensor& t) {
    if (groups == heads) return t;
    return t.unsqueeze(2)
        .expand({batch, groups, heads / groups, tokens, head})
        .reshape({batch, heads, tokens, head});
  };
  const at::Tensor y =
      CausalAttention(rotation(split(block.q, heads)), share(rotation(split(block.k, groups))),
                      share(split(block.v, groups)), dropout, generator());
  return at::mm(y.transpose(1, 2).reshape({batch * tokens, width}), block.attention_out.t());
}

at::Tensor Llama::RunBlock(const Block& block, const at::Tensor& in, int64_t batch,
                           const Rotation& rotation, double dropout) const {
  const at::Tensor x =
      in + Drop(Attention(block, Norm(in, block.attention_norm), batch, rotation, dropout), dropout,
                generator());
  const at::Tensor normed = Norm(x, block.mlp_norm);
  const at::Tensor hidden = at::silu(at::mm(normed, block.gate.t())) * at::mm(normed, block.up.t());
  return x + Drop(at::mm(hidden, block.down.t()), dropout, generator());
}

at::Tensor Llama::Logits(const ModelParameters& parameters, const at::Tensor& tokens,
                         double dropout) const {
  const int64_t batch = tokens.size(0), length = tokens.size(1), width = model_.width();
  auto next = parameters.begin();
  const at::Tensor& embedding = *next++;
  at::Tensor x =
      Drop(at::embedding(embedding, tokens).view({batch * length, width}), dropout, generator());
  const Rotation rotation = RotationOf(length, x);
  for (uint32_t layer = 0; layer < model_.layers(); ++layer) {
    const Block block{*next++, *next++, *next++, *next++, *next++,
                      *next++, *next++, *next++, *next++};
    const auto run = [this, block, batch, rotation, dropout](const at::Tensor& in) {
      return RunBlock(block, in, batch, rotation, dropout);
    };
    x = Run(run, x);
  }
  const at::Tensor last = Norm(x, *next++);
  return at::mm(last, (model_.untied() ? *next : embedding).t());
}

}  // namespace atolld
