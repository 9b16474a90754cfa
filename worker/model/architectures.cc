#include "worker/model/architectures.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "compression/base/decoder.h"
#include "compression/base/status_macros.h"
#include "worker/base/manifest.h"
#include "worker/hub/safetensors.h"
#include "worker/kernels/fused.h"
#include "worker/model/experts.h"
#include "worker/model/layers.h"
#include "worker/model/torch_edge.h"

namespace atolld {
namespace {

// Returns rows of token embeddings, plus those of positions if they are defined; [batch tokens,
// width].
at::Tensor Embed(const at::Tensor& embedding, const at::Tensor& tokens,
                 const at::Tensor& positions = {}) {
  const int64_t length = tokens.size(1);
  if (UsesKernels(embedding)) return FusedEmbedding(embedding, tokens, positions);
  at::Tensor x = at::embedding(embedding, tokens);
  if (positions.defined()) x = x + positions.narrow(0, 0, length);
  return x.view({tokens.numel(), embedding.size(1)});
}

// The GPTs: learned positions, pre-norm.
//
// Kind "gpt" is nanoGPT's without biases: exact GELU, the token embedding doubling as the output
// head. Kind "gpt2" is GPT-2: biases everywhere, GELU by its tanh approximation, a head of its own
// where the spec says so.
class Gpt final : public Model {
 public:
  Gpt(const v1::ModelSpec& model, v1::Manifest manifest, bool checkpointing);

  void Initialise(const at::Tensor& flat, uint64_t seed) const override;
  std::unique_ptr<Model> CopyTo(const at::Device& device,
                                const at::Generator& generator) const override;
  at::Tensor Logits(const ModelParameters& parameters, const at::Tensor& tokens,
                    double dropout) const override;

 private:
  struct Block;

  Linear Take(ModelParameters::const_iterator& next) const;
  at::Tensor Norm(const Linear& norm, const at::Tensor& x) const;
  at::Tensor RunBlock(const Block& block, const at::Tensor& in, int64_t batch,
                      double dropout) const;
  at::Tensor Attend(const Block& block, const at::Tensor& x, int64_t batch, double dropout) const;

  const v1::ModelSpec model_;
  const bool biased_;
};

constexpr double kNormEpsilon = 1e-5;  // nn.LayerNorm's

// The tensors of one block in the manifest's order.
struct Gpt::Block {
  Linear attention_norm, attention_in, attention_out, mlp_norm, mlp_in, mlp_out;
};

Gpt::Gpt(const v1::ModelSpec& model, v1::Manifest manifest, bool checkpointing)
    : Model(std::move(manifest), checkpointing), model_(model), biased_(model.kind() == "gpt2") {}

void Gpt::Initialise(const at::Tensor& flat, uint64_t seed) const {
  InitialiseLayers(manifest(), model_.layers(), Bind(flat), seed);
}

// The model holds only its shape.
std::unique_ptr<Model> Gpt::CopyTo(const at::Device&, const at::Generator& generator) const {
  auto copy = std::make_unique<Gpt>(*this);
  copy->DrawFrom(generator);
  return copy;
}

Linear Gpt::Take(ModelParameters::const_iterator& next) const {
  Linear linear;
  linear.weight = *next++;
  if (biased_) linear.bias = *next++;
  return linear;
}

at::Tensor Gpt::Norm(const Linear& norm, const at::Tensor& x) const {
  const double epsilon = biased_ ? model_.norm_epsilon() : kNormEpsilon;
  if (UsesKernels(x)) return FusedNorm(x, norm.weight, norm.bias, {epsilon, /*centred=*/true});
  return at::layer_norm(x, norm.weight.sizes(), norm.weight, norm.bias, epsilon);
}

// Returns the heads' results side by side.
at::Tensor Gpt::Attend(const Block& block, const at::Tensor& x, int64_t batch,
                       double dropout) const {
  const int64_t heads = model_.heads(), width = model_.width();
  const int64_t tokens = x.size(0) / batch;
  const at::Tensor qkv = block.attention_in(x);
  if (dropout <= 0 && UsesKernels(qkv)) {
    const int64_t head = width / heads;
    return FusedAttention(
        qkv, {batch, heads, heads, head, /*window=*/0, 1 / std::sqrt(static_cast<double>(head))});
  }
  const at::Tensor split =
      qkv.view({batch, tokens, 3, heads, width / heads}).permute({2, 0, 3, 1, 4});
  const at::Tensor y = CausalAttention(split[0], split[1], split[2], dropout, generator());
  return y.transpose(1, 2).reshape({batch * tokens, width});
}

at::Tensor Gpt::RunBlock(const Block& block, const at::Tensor& in, int64_t batch,
                         double dropout) const {
  const at::Tensor attended = Attend(block, Norm(block.attention_norm, in), batch, dropout);
  const at::Tensor x = AddTo(in, block.attention_out, attended, dropout, generator());
  const at::Tensor hidden = block.mlp_in(Norm(block.mlp_norm, x));
  const at::Tensor active =
      UsesKernels(hidden)
          ? FusedActivation(biased_ ? Activation::kGeluTanh : Activation::kGelu, hidden)
          : at::gelu(hidden, biased_ ? "tanh" : "none");
  return AddTo(x, block.mlp_out, active, dropout, generator());
}

at::Tensor Gpt::Logits(const ModelParameters& parameters, const at::Tensor& tokens,
                       double dropout) const {
  const int64_t batch = tokens.size(0);
  auto next = parameters.begin();
  const at::Tensor& token_embedding = *next++;
  const at::Tensor& position_embedding = *next++;
  at::Tensor x = Drop(Embed(token_embedding, tokens, position_embedding), dropout, generator());
  for (uint32_t layer = 0; layer < model_.layers(); ++layer) {
    const Block block{Take(next), Take(next), Take(next), Take(next), Take(next), Take(next)};
    const auto run = [this, block, batch, dropout](const at::Tensor& in) {
      return RunBlock(block, in, batch, dropout);
    };
    x = Run(run, x);
  }
  const at::Tensor last = Norm(Take(next), x);
  return Linear{model_.untied() ? *next : token_embedding, {}}(last);
}

// cos and sin of position x frequency, [tokens, head width / 2]; undefined if the layer has no
// positions.
struct Rotation {
  at::Tensor cos, sin;

  // `x` is [batch, heads, tokens, head width].
  at::Tensor operator()(const at::Tensor& x) const {
    if (!cos.defined()) return x;
    const int64_t half = x.size(3) / 2;
    const at::Tensor a = x.narrow(3, 0, half), b = x.narrow(3, half, half);
    return at::cat({a * cos - b * sin, b * cos + a * sin}, 3);
  }

  // Of [batch tokens, heads x head width].
  at::Tensor Flat(const at::Tensor& x, int64_t heads) const {
    return cos.defined() ? FusedRotation(x, cos, sin, heads) : x;
  }

  bool Fits(int64_t tokens, const at::Tensor& like) const {
    return cos.defined() && cos.size(0) == tokens && cos.device() == like.device() &&
           cos.scalar_type() == like.scalar_type();
  }
};

// Returns `x` with its values clipped to +-bound; `x` itself if the bound is 0.
at::Tensor Clip(const at::Tensor& x, double bound) {
  return bound == 0 ? x : at::clamp(x, -bound, bound);
}

// Llama and its relatives: RMSNorm, rotary positions, grouped-query attention, a gated feed-forward
// part or a mixture of them. Its DecoderShape and DecoderFamily describe what a relative has
// besides.
//
// Rotations pair value i of a head with value i + half, as Hugging Face's weights are laid out.
class Llama final : public Model {
 public:
  Llama(const v1::ModelSpec& model, v1::Manifest manifest, bool checkpointing);

  void Initialise(const at::Tensor& flat, uint64_t seed) const override;
  std::unique_ptr<Model> CopyTo(const at::Device& device,
                                const at::Generator& generator) const override;
  at::Tensor Logits(const ModelParameters& parameters, const at::Tensor& tokens,
                    double dropout) const override;
  at::Tensor Loss(const ModelParameters& parameters, const at::Tensor& tokens,
                  const at::Tensor& targets, double dropout) const override;

 private:
  struct Block;

  Block Take(uint32_t layer, ModelParameters::const_iterator& next) const;
  at::Tensor Forward(const ModelParameters& parameters, const at::Tensor& tokens, double dropout,
                     at::Tensor* sums) const;
  at::Tensor Norm(const at::Tensor& x, const at::Tensor& weight) const;
  at::Tensor HeadNorm(const at::Tensor& x, const at::Tensor& weight) const;
  Rotation RotationOf(int64_t tokens, const at::Tensor& like, char letter) const;
  Rotation MakeRotation(int64_t tokens, const at::Tensor& like, char letter) const;
  at::Tensor RunBlock(const Block& block, const at::Tensor& in, int64_t batch,
                      const Rotation& rotation, const AttentionRule& rule, double dropout,
                      at::Tensor* sums) const;
  at::Tensor Attend(const Block& block, const at::Tensor& x, int64_t batch,
                    const Rotation& rotation, const AttentionRule& rule, double dropout) const;
  at::Tensor FusedAttend(const Block& block, const at::Tensor& x, int64_t batch,
                         const Rotation& rotation, const AttentionRule& rule) const;

  const v1::ModelSpec model_;
  const DecoderShape shape_;
  const DecoderFamily& family_;
  const int64_t head_;                          // the width of one
  const std::vector<double> rotary_factors_;    // of layers that are scaled; empty: all 1
  mutable std::map<char, Rotation> rotations_;  // the last ones, by the layer's letter
};

// One block; norms that the family lacks are undefined. A layer has either `dense` or `mixture`.
struct Llama::Block {
  at::Tensor before_attention, q_norm, k_norm, after_attention, before_mlp, after_mlp;
  Linear q, k, v, attention_out;
  GatedNetwork dense;
  ExpertMixture mixture;
};

Llama::Llama(const v1::ModelSpec& model, v1::Manifest manifest, bool checkpointing)
    : Model(std::move(manifest), checkpointing),
      model_(model),
      shape_(DecoderShapeOf(model)),
      family_(*FindDecoderFamily(shape_.family)),
      head_(static_cast<int64_t>(
          HeadWidth(shape_, {model.width(), model.heads(), model.kv_heads(), model.hidden()}))),
      rotary_factors_(RotaryFactors(shape_, model.rope_theta(), static_cast<uint64_t>(head_))) {}

void Llama::Initialise(const at::Tensor& flat, uint64_t seed) const {
  InitialiseLayers(manifest(), model_.layers(), Bind(flat), seed, family_.gemma ? 0 : 1);
}

// The model holds only its shape, and angles that follow from it.
std::unique_ptr<Model> Llama::CopyTo(const at::Device&, const at::Generator& generator) const {
  auto copy = std::make_unique<Llama>(*this);
  copy->DrawFrom(generator);
  return copy;
}

// Takes the tensors in the manifest's order, which BlockTensors defines.
Llama::Block Llama::Take(uint32_t layer, ModelParameters::const_iterator& next) const {
  using Norms = DecoderFamily::Norms;
  const auto linear = [&next](bool biased) {
    Linear taken;
    taken.weight = *next++;
    if (biased) taken.bias = *next++;
    return taken;
  };
  const auto network = [&linear] {
    GatedNetwork taken;
    taken.gate = linear(false);
    taken.up = linear(false);
    taken.down = linear(false);
    return taken;
  };
  const bool biased = shape_.attention_bias || family_.query_bias;
  Block block;
  if (family_.norms != Norms::kAfter) block.before_attention = *next++;
  block.q = linear(biased);
  block.k = linear(biased);
  block.v = linear(biased);
  block.attention_out = linear(shape_.attention_bias);
  if (family_.head_norms != DecoderFamily::HeadNorms::kNone) {
    block.q_norm = *next++;
    block.k_norm = *next++;
  }
  // What Hugging Face calls Llama's post_attention_layernorm comes before the feed-forward part.
  if (family_.norms != Norms::kBefore) block.after_attention = *next++;
  if (family_.norms != Norms::kAfter) block.before_mlp = *next++;
  if (HasExperts(shape_, layer)) {
    block.mixture.router = linear(false);
    for (uint32_t i = 0; i < shape_.experts.count; ++i) block.mixture.experts.push_back(network());
  } else {
    block.dense = network();
  }
  if (family_.norms != Norms::kBefore) block.after_mlp = *next++;
  return block;
}

// Returns `x` itself if there is no such norm.
at::Tensor Llama::Norm(const at::Tensor& x, const at::Tensor& weight) const {
  if (!weight.defined()) return x;
  if (UsesKernels(x)) {
    return FusedNorm(x, weight, {},
                     {model_.norm_epsilon(), /*centred=*/false, family_.gemma ? 1.0 : 0.0});
  }
  const at::Tensor unit =
      x * at::rsqrt(x.square().mean(-1, /*keepdim=*/true) + model_.norm_epsilon());
  return unit * (family_.gemma ? weight + 1 : weight);
}

// Normalises the result of a product, which under autocast is too coarse for a sum of squares.
at::Tensor Llama::HeadNorm(const at::Tensor& x, const at::Tensor& weight) const {
  return weight.defined() ? Norm(x.to(at::kFloat), weight) : x;
}

Rotation Llama::RotationOf(int64_t tokens, const at::Tensor& like, char letter) const {
  if (!HasPositions(letter)) return {};
  Rotation& kept = rotations_[letter];
  if (!kept.Fits(tokens, like)) kept = MakeRotation(tokens, like, letter);
  return kept;
}

// Computes angles in fp64: distant positions turn through many circles, of which fp32 would lose
// parts.
Rotation Llama::MakeRotation(int64_t tokens, const at::Tensor& like, char letter) const {
  const at::NoGradGuard no_grad;
  const bool apart = IsLocalLayer(letter) && shape_.local_rope_theta != 0;
  const double theta = apart ? shape_.local_rope_theta : model_.rope_theta();
  const auto exact = like.options().dtype(at::kDouble).requires_grad(false);
  const at::Tensor powers = at::arange(0, head_, 2, exact) * (-1.0 / static_cast<double>(head_));
  at::Tensor frequencies = at::pow(at::Scalar(theta), powers);
  double scale = 1;
  if (!apart && !rotary_factors_.empty()) {
    std::vector<double> factors = rotary_factors_;
    frequencies = frequencies * at::from_blob(factors.data(), {head_ / 2}, at::kDouble)
                                    .to(like.device(), at::kDouble, /*non_blocking=*/false,
                                        /*copy=*/true);
    scale = RotaryScale(shape_);
  }
  const at::Tensor angles = at::outer(at::arange(tokens, exact), frequencies);
  at::Tensor cos = at::cos(angles), sin = at::sin(angles);
  if (scale != 1) {
    cos = cos * scale;
    sin = sin * scale;
  }
  return {cos.to(like.scalar_type()), sin.to(like.scalar_type())};
}

at::Tensor Llama::FusedAttend(const Block& block, const at::Tensor& x, int64_t batch,
                              const Rotation& rotation, const AttentionRule& rule) const {
  const int64_t heads = model_.heads(), groups = model_.kv_heads();
  const bool whole = family_.head_norms == DecoderFamily::HeadNorms::kWhole;
  const auto turned = [&](const Linear& linear, const at::Tensor& norm, int64_t count) {
    const at::Tensor one = linear(x);
    const at::Tensor normed =
        whole ? Norm(one, norm) : Norm(one.view({-1, head_}), norm).view(one.sizes());
    return rotation.Flat(Clip(normed, shape_.qkv_clip), count);
  };
  const double scale = rule.scale > 0 ? rule.scale : 1 / std::sqrt(static_cast<double>(head_));
  return FusedAttention(turned(block.q, block.q_norm, heads), turned(block.k, block.k_norm, groups),
                        Clip(block.v(x), shape_.qkv_clip),
                        {batch, heads, groups, head_, rule.window, scale});
}

// Returns the heads' results side by side.
at::Tensor Llama::Attend(const Block& block, const at::Tensor& x, int64_t batch,
                         const Rotation& rotation, const AttentionRule& rule,
                         double dropout) const {
  if (dropout <= 0 && rule.cap == 0 && UsesKernels(x)) {
    return FusedAttend(block, x, batch, rotation, rule);
  }
  const int64_t heads = model_.heads(), groups = model_.kv_heads();
  const int64_t tokens = x.size(0) / batch;
  const bool whole = family_.head_norms == DecoderFamily::HeadNorms::kWhole;
  const auto split = [&](const at::Tensor& t, int64_t count) {
    return t.view({batch, tokens, count, head_}).transpose(1, 2);
  };
  const auto turned = [&](const Linear& linear, const at::Tensor& norm, int64_t count) {
    const at::Tensor one = linear(x);
    const at::Tensor normed =
        whole ? split(HeadNorm(one, norm), count) : HeadNorm(split(one, count), norm);
    return rotation(Clip(normed, shape_.qkv_clip));
  };
  // Every key and value serves heads / groups queries that follow each other.
  const auto share = [&](const at::Tensor& t) {
    if (groups == heads) return t;
    return t.unsqueeze(2)
        .expand({batch, groups, heads / groups, tokens, head_})
        .reshape({batch, heads, tokens, head_});
  };
  const at::Tensor y = CausalAttention(
      turned(block.q, block.q_norm, heads), share(turned(block.k, block.k_norm, groups)),
      share(split(Clip(block.v(x), shape_.qkv_clip), groups)), dropout, generator(), rule);
  return y.transpose(1, 2).reshape({batch * tokens, heads * head_});
}

at::Tensor Llama::RunBlock(const Block& block, const at::Tensor& in, int64_t batch,
                           const Rotation& rotation, const AttentionRule& rule, double dropout,
                           at::Tensor* sums) const {
  const auto add = [&](const at::Tensor& to, const Linear& linear, const at::Tensor& of,
                       const at::Tensor& norm) {
    if (!norm.defined()) return AddTo(to, linear, of, dropout, generator());
    return to + Drop(HeadNorm(linear(of), norm), dropout, generator());
  };
  const at::Tensor attended =
      Attend(block, Norm(in, block.before_attention), batch, rotation, rule, dropout);
  const at::Tensor x = add(in, block.attention_out, attended, block.after_attention);
  const at::Tensor normed = Norm(x, block.before_mlp);
  if (!block.mixture.experts.empty()) {
    const MixtureRule mixing{shape_.experts.per_token,
                             family_.normalised || shape_.experts.normalised};
    return x + Drop(Mix(block.mixture, mixing, normed, sums), dropout, generator());
  }
  const Activation activation = family_.gemma ? Activation::kGeluTanh : Activation::kSilu;
  return add(x, block.dense.down, block.dense.Hidden(activation, normed), block.after_mlp);
}

at::Tensor Llama::Logits(const ModelParameters& parameters, const at::Tensor& tokens,
                         double dropout) const {
  at::Tensor none;
  return Forward(parameters, tokens, dropout, &none);
}

// Evaluation, which records no gradients, has no router's loss.
at::Tensor Llama::Loss(const ModelParameters& parameters, const at::Tensor& tokens,
                       const at::Tensor& targets, double dropout) const {
  if (shape_.experts.router_loss == 0 || !at::GradMode::is_enabled()) {
    return Model::Loss(parameters, tokens, targets, dropout);
  }
  at::Tensor sums = MakeRouterSums(shape_.experts.count, tokens.device());
  const at::Tensor logits = Forward(parameters, tokens, dropout, &sums);
  int64_t choices = 0;  // by all routers together
  for (uint32_t layer = 0; layer < model_.layers(); ++layer) {
    if (HasExperts(shape_, layer)) choices += tokens.numel();
  }
  return CrossEntropy(logits, targets) + shape_.experts.router_loss * BalanceLoss(sums, choices);
}

// Returns the logits. If `sums` is defined, the routers add to it.
at::Tensor Llama::Forward(const ModelParameters& parameters, const at::Tensor& tokens,
                          double dropout, at::Tensor* sums) const {
  const int64_t batch = tokens.size(0), length = tokens.size(1), width = model_.width();
  auto next = parameters.begin();
  const at::Tensor& embedding = *next++;
  at::Tensor x = Embed(embedding, tokens);
  if (family_.gemma) x = x * std::sqrt(static_cast<double>(width));
  const int64_t summed = sums->defined() ? sums->numel() : 0;
  x = JoinSums({Drop(x, dropout, generator()), *sums});
  AttentionRule rule;
  if (shape_.query_scalar != 0)
    rule.scale = 1 / std::sqrt(static_cast<double>(shape_.query_scalar));
  rule.cap = shape_.attention_cap;
  for (uint32_t layer = 0; layer < model_.layers(); ++layer) {
    const Block block = Take(layer, next);
    const char letter = LayerLetter(shape_, layer);
    const Rotation rotation = RotationOf(length, x, letter);
    rule.window = IsLocalLayer(letter) ? shape_.window : 0;
    const auto run = [this, block, batch, rotation, rule, dropout, width,
                      summed](const at::Tensor& in) {
      JoinedSums parts = SplitSums(in, width, summed);
      const at::Tensor out = RunBlock(block, parts.x, batch, rotation, rule, dropout, &parts.sums);
      return JoinSums({out, parts.sums});
    };
    x = Run(run, x);
  }
  const JoinedSums parts = SplitSums(x, width, summed);
  *sums = parts.sums;
  const at::Tensor last = Norm(parts.x, *next++);
  const at::Tensor logits = Linear{model_.untied() ? *next : embedding, {}}(last);
  if (shape_.logit_cap == 0) return logits;
  return at::tanh(logits / shape_.logit_cap) * shape_.logit_cap;
}

// Adapters of low rank (Hu et al. 2021) beside the matrices of a frozen model of any kind.
//
//   W x  becomes  (W + alpha / rank B A) x,     A [rank, in], B [out, rank]
//
// Only A and B are parameters, so only they are trained, exchanged and logged. The base is read
// once, from a file on this machine that the run identifies by its SHA-256. If adapters have slices
// (lora_slice), A and B are made of those, and slices that have no gradient stay as they are.
class Lora final : public Model {
 public:
  // FAILED_PRECONDITION: the file at model.base_path() is not the run's base.
  static absl::StatusOr<std::unique_ptr<Model>> Make(const v1::ModelSpec& model,
                                                     std::unique_ptr<Model> base);

  // A uniform within 1 / sqrt(in) as PEFT draws it, B 0: the adapted model begins as the base.
  void Initialise(const at::Tensor& flat, uint64_t seed) const override;
  std::unique_ptr<Model> CopyTo(const at::Device& device,
                                const at::Generator& generator) const override;
  at::Tensor Logits(const ModelParameters& parameters, const at::Tensor& tokens,
                    double dropout) const override;
  at::Tensor Loss(const ModelParameters& parameters, const at::Tensor& tokens,
                  const at::Tensor& targets, double dropout) const override;

 private:
  Lora(v1::Manifest manifest, std::unique_ptr<Model> base, double scale, size_t slices);

  ModelParameters Adapted(const ModelParameters& parameters) const;

  const std::unique_ptr<Model> base_;
  const double scale_;
  const size_t slices_;  // 1: adapters are whole
  // Since Make or CopyTo: the base's parameters, and by place in its manifest the first of ours
  // that is its adapter's; -1: it has none. An adapter has A of each slice, then B of each.
  at::Tensor flat_;
  ModelParameters frozen_;
  std::vector<int> adapter_of_;
};

absl::Status CheckBase(const v1::ModelSpec& model) {
  if (model.base_path().empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("this run trains adapters of a base with SHA-256 ",
                     absl::BytesToHexString(model.base_digest()),
                     "; name the base's file on this machine as [model] base, or as --base"));
  }
  const std::string wanted =
      absl::StrCat("; the run's adapters are of ", absl::BytesToHexString(model.base_digest()));
  const absl::StatusOr<std::string> digest = FileDigest(model.base_path());
  if (!digest.ok()) {
    return absl::Status(digest.status().code(),
                        absl::StrCat("base: ", digest.status().message(), wanted));
  }
  if (*digest == model.base_digest()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("base: ", model.base_path(), " has SHA-256 ",
                                                    absl::BytesToHexString(*digest), wanted));
}

Lora::Lora(v1::Manifest manifest, std::unique_ptr<Model> base, double scale, size_t slices)
    : Model(std::move(manifest)), base_(std::move(base)), scale_(scale), slices_(slices) {}

absl::StatusOr<std::unique_ptr<Model>> Lora::Make(const v1::ModelSpec& model,
                                                  std::unique_ptr<Model> base) {
  ASSIGN_OR_RETURN(v1::Manifest manifest, MakeManifest(model));
  RETURN_IF_ERROR(CheckBase(model));
  std::unique_ptr<Lora> lora(new Lora(std::move(manifest), std::move(base),
                                      model.lora_alpha() / model.lora_rank(), SlicesOf(model)));
  const v1::Manifest& whole = lora->base_->manifest();
  RETURN_IF_ERROR(CatchTorch(absl::StrCat("base of ", whole.elements(), " parameters"), [&] {
    lora->flat_ = at::empty({static_cast<int64_t>(whole.elements())});
    lora->frozen_ = lora->base_->Bind(lora->flat_);
  }));
  RETURN_IF_ERROR(LoadParameters(model.base_path(), whole,
                                 absl::MakeSpan(lora->flat_.data_ptr<float>(), whole.elements())));
  int next = 0;
  for (const v1::Tensor& tensor : whole.tensors()) {
    const bool adapted = IsAdapted(model, tensor);
    lora->adapter_of_.push_back(adapted ? next : -1);
    if (adapted) next += static_cast<int>(2 * lora->slices_);
  }
  return std::unique_ptr<Model>(std::move(lora));
}

void Lora::Initialise(const at::Tensor& flat, uint64_t seed) const {
  const at::NoGradGuard no_grad;
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const ModelParameters parameters = Bind(flat);
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (i % (2 * slices_) >= slices_) {
      parameters[i].zero_();
      continue;
    }
    const double bound = 1 / std::sqrt(static_cast<double>(parameters[i].size(1)));
    parameters[i].uniform_(-bound, bound, generator);
  }
}

// The base draws the dropout.
std::unique_ptr<Model> Lora::CopyTo(const at::Device& device,
                                    const at::Generator& generator) const {
  std::unique_ptr<Lora> copy(
      new Lora(manifest(), base_->CopyTo(device, generator), scale_, slices_));
  copy->flat_ = flat_.to(device);
  copy->frozen_ = copy->base_->Bind(copy->flat_);
  copy->adapter_of_ = adapter_of_;
  return copy;
}

// Returns the base's parameters with the adapters' products added.
ModelParameters Lora::Adapted(const ModelParameters& parameters) const {
  ModelParameters adapted = frozen_;
  for (size_t i = 0; i < adapted.size(); ++i) {
    if (adapter_of_[i] < 0) continue;
    const auto a = static_cast<size_t>(adapter_of_[i]), b = a + slices_;
    if (slices_ == 1) {
      adapted[i] = at::addmm(adapted[i], parameters[b], parameters[a], 1.0, scale_);
      continue;
    }
    // The sum of the slices' products is one product of all their columns and rows.
    const auto of = [&](size_t first) {
      return std::vector<at::Tensor>(
          parameters.begin() + static_cast<std::ptrdiff_t>(first),
          parameters.begin() + static_cast<std::ptrdiff_t>(first + slices_));
    };
    adapted[i] = at::addmm(adapted[i], at::cat(of(b), 1), at::cat(of(a), 0), 1.0, scale_);
  }
  return adapted;
}

at::Tensor Lora::Logits(const ModelParameters& parameters, const at::Tensor& tokens,
                        double dropout) const {
  return base_->Logits(Adapted(parameters), tokens, dropout);
}

at::Tensor Lora::Loss(const ModelParameters& parameters, const at::Tensor& tokens,
                      const at::Tensor& targets, double dropout) const {
  return base_->Loss(Adapted(parameters), tokens, targets, dropout);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> MakeModel(const v1::ModelSpec& model, bool checkpointing) {
  ASSIGN_OR_RETURN(v1::Manifest manifest, MakeManifest(model));
  if (model.lora_rank() != 0) {
    v1::ModelSpec beneath = model;
    beneath.set_lora_rank(0);
    beneath.set_lora_slice(0);
    beneath.clear_local();  // patterns are of what is trained
    ASSIGN_OR_RETURN(std::unique_ptr<Model> base, MakeModel(beneath));
    return Lora::Make(model, std::move(base));
  }
  if (model.kind() == "llama") {
    return std::make_unique<Llama>(model, std::move(manifest), checkpointing);
  }
  return std::make_unique<Gpt>(model, std::move(manifest), checkpointing);
}

}  // namespace atolld
