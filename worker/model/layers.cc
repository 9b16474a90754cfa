#include "worker/model/layers.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "worker/kernels/fused.h"
#include "worker/kernels/torch_version.h"

namespace atolld {
namespace {

constexpr double kInitStd = 0.02;  // GPT-2's

bool EndsInResidual(const std::string& name) {
  return absl::EndsWith(name, "c_proj.weight") || absl::EndsWith(name, "o_proj.weight") ||
         absl::EndsWith(name, "down_proj.weight") || absl::EndsWith(name, ".w2.weight");
}

using Part = std::function<at::Tensor(const at::Tensor&)>;

// A node of the graph that represents a whole part of the model.
class PartNode final : public torch::autograd::Node {
 public:
  PartNode(Part part, at::Tensor x, const at::Generator& generator)
      : part_(std::move(part)),
        x_(std::move(x)),
        generator_(generator.defined() ? generator
                                       : at::globalContext().defaultGenerator(x_.device())),
        random_(generator_.get_state()),
        autocast_(AutocastEnabled(x_.device().type())) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    const at::AutoGradMode record(true);
    const at::Tensor before = generator_.get_state();
    generator_.set_state(random_);
    at::Tensor input = x_.detach();
    input.requires_grad_(true);
    at::Tensor output;
    {
      const Autocast autocast(x_.device().type(), autocast_);
      output = part_(input);
    }
    generator_.set_state(before);
    // The leaves' gradients are added where they always are; what flows on is the input's.
    torch::autograd::backward({output}, {gradients.at(0)});
    return {input.grad()};
  }

  std::string name() const override { return "Checkpointed"; }

 private:
  const Part part_;
  const at::Tensor x_;
  at::Generator generator_;
  const at::Tensor random_;
  const bool autocast_;
};

}  // namespace

void InitialiseLayers(const v1::Manifest& manifest, uint32_t layers,
                      const ModelParameters& parameters, uint64_t seed, double norm) {
  const at::NoGradGuard no_grad;
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  for (int i = 0; i < manifest.tensors_size(); ++i) {
    const std::string& name = manifest.tensors(i).name();
    const at::Tensor& values = parameters[static_cast<size_t>(i)];
    if (values.dim() == 1) {
      values.fill_(absl::EndsWith(name, ".bias") ? 0.0 : norm);
      continue;
    }
    values.normal_(0.0, EndsInResidual(name) ? kInitStd / std::sqrt(2.0 * layers) : kInitStd,
                   generator);
  }
}

at::Tensor Drop(const at::Tensor& x, double dropout, const at::Generator& generator) {
  if (dropout <= 0) return x;
  if (!generator.defined()) return at::dropout(x, dropout, /*train=*/true);
  return x * at::empty_like(x.detach()).bernoulli_(1 - dropout, generator).div_(1 - dropout);
}

bool UsesKernels(const at::Tensor& x) { return IsPlainFloat(x) && !AutocastEnabled(at::kCPU); }

at::Tensor Linear::operator()(const at::Tensor& x) const {
  if (UsesKernels(x)) return FusedLinear(x, weight, bias);
  return bias.defined() ? at::addmm(bias, x, weight.t()) : at::mm(x, weight.t());
}

at::Tensor AddTo(const at::Tensor& in, const Linear& linear, const at::Tensor& x, double dropout,
                 const at::Generator& generator) {
  if (dropout <= 0 && UsesKernels(x)) return FusedLinear(x, linear.weight, linear.bias, in);
  return in + Drop(linear(x), dropout, generator);
}

at::Tensor GatedNetwork::Hidden(Activation activation, const at::Tensor& x) const {
  const at::Tensor gated = gate(x), upper = up(x);
  if (UsesKernels(gated)) return FusedGate(activation, gated, upper);
  return (activation == Activation::kSilu ? at::silu(gated) : at::gelu(gated, "tanh")) * upper;
}

at::Tensor CausalAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           double dropout, const at::Generator& generator,
                           const AttentionRule& rule) {
  const int64_t batch = q.size(0), heads = q.size(1), tokens = q.size(2), width = q.size(3);
  const double usual = 1.0 / std::sqrt(static_cast<double>(width));
  const double scale = rule.scale > 0 ? rule.scale : usual;
  const bool windowed = rule.window > 0 && rule.window < tokens;
  if (kHasFusedAttention && rule.cap == 0 && (dropout <= 0 || !generator.defined())) {
    at::Tensor seen;  // undefined: all that is causal
    if (windowed) {
      seen = at::ones({tokens, tokens}, q.options().dtype(at::kBool).requires_grad(false))
                 .tril()
                 .triu(1 - rule.window);
    }
    return FusedCausalAttention(scale == usual ? q : q * (scale / usual), k, v, dropout, seen);
  }
  // The mask rides along as the addend of the batched product, so that it costs no pass of its own.
  const auto hidden = [&] {
    return at::full({tokens, tokens}, -std::numeric_limits<float>::infinity(), q.options());
  };
  at::Tensor mask = hidden().triu_(1);
  if (windowed) mask.add_(hidden().tril_(-rule.window));
  const auto flat = [&](const at::Tensor& t) { return t.reshape({batch * heads, tokens, width}); };
  at::Tensor weights;
  if (rule.cap == 0) {
    weights = at::baddbmm(mask.expand({batch * heads, tokens, tokens}), flat(q),
                          flat(k).transpose(1, 2), 1.0, scale);
  } else {
    const at::Tensor scores = at::bmm(flat(q), flat(k).transpose(1, 2)) * (scale / rule.cap);
    weights = at::tanh(scores) * rule.cap + mask;
  }
  return at::bmm(Drop(at::softmax(weights, -1), dropout, generator), flat(v))
      .view({batch, heads, tokens, width});
}

at::Tensor Checkpointed(Part part, const at::Tensor& x, const at::Generator& generator) {
  if (!at::GradMode::is_enabled() || !x.requires_grad()) return part(x);
  const auto node = MakeGraphNode<PartNode>(part, x, generator);
  node->set_next_edges(torch::autograd::collect_next_edges(x));
  at::Tensor output;
  {
    const at::NoGradGuard no_grad;
    output = part(x);
  }
  torch::autograd::create_gradient_edge(output, node);
  return output;
}

// -----------------------------------------------------------------------------------------------

namespace {

constexpr double kCircle = 6.283185307179586;  // 2 pi

// Frequencies that turn often within the original context stay, slow ones are divided by the
// factor, and between the two bounds the share that stays grows with the number of turns.
std::vector<double> Llama3Factors(const DecoderShape& shape, double theta, uint64_t width) {
  std::vector<double> factors;
  for (uint64_t i = 0; i < width; i += 2) {
    const double exponent = static_cast<double>(i) / static_cast<double>(width);
    const double turns = shape.rope_context * std::pow(theta, -exponent) / kCircle;
    const double kept =
        std::clamp((turns - shape.rope_low) / (shape.rope_high - shape.rope_low), 0.0, 1.0);
    factors.push_back((1 - kept) / shape.rope_factor + kept);
  }
  return factors;
}

// The same, where the share depends on the pair's number.
std::vector<double> YarnFactors(const DecoderShape& shape, double theta, uint64_t width) {
  const auto size = static_cast<double>(width);
  // The pair that turns so often within the first context; not whole.
  const auto pair_of = [&](double turns) {
    return size * std::log(shape.rope_context / (turns * kCircle)) / (2 * std::log(theta));
  };
  const double low = std::max(std::floor(pair_of(shape.rope_high)), 0.0);
  double high = std::min(std::ceil(pair_of(shape.rope_low)), size - 1);
  constexpr double kApart = 0.001;  // transformers': no division by 0
  if (low == high) high += kApart;
  std::vector<double> factors;
  for (uint64_t pair = 0; pair < width / 2; ++pair) {
    const double slowed = std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
    factors.push_back(slowed / shape.rope_factor + (1 - slowed));
  }
  return factors;
}

}  // namespace

std::vector<double> RotaryFactors(const DecoderShape& shape, double theta, uint64_t width) {
  if (shape.rope_scaling == "linear") return std::vector<double>(width / 2, 1 / shape.rope_factor);
  if (shape.rope_scaling == "llama3") return Llama3Factors(shape, theta, width);
  if (shape.rope_scaling == "yarn") return YarnFactors(shape, theta, width);
  return {};
}

double RotaryScale(const DecoderShape& shape) {
  if (shape.rope_scaling != "yarn") return 1;
  if (shape.rope_attention != 0) return shape.rope_attention;
  return 0.1 * std::log(shape.rope_factor) + 1;  // of the paper, equation 22
}

}  // namespace atolld
