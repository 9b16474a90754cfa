#include "worker/model/experts.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "worker/kernels/torch_version.h"

namespace atolld {
namespace {

// The places of the choices, sorted by expert, and within an expert by token. Choice number
// token * per_token + i is the token's i-th.
struct Dispatch {
  at::Tensor choices;           // by place: the number of the choice
  at::Tensor tokens;            // by place: its token
  at::Tensor places;            // by the number of the choice: its place
  std::vector<int64_t> counts;  // by expert: how many choices it has
};

// `chosen` is int64 [tokens, per_token].
Dispatch Sort(const at::Tensor& chosen, size_t experts) {
  const at::Tensor here = chosen.to(at::kCPU).contiguous();
  const int64_t all = here.numel(), per_token = here.size(1);
  const int64_t* const expert_of = here.data_ptr<int64_t>();
  Dispatch sorted;
  sorted.counts.resize(experts);
  for (int64_t choice = 0; choice < all; ++choice) {
    ++sorted.counts[static_cast<size_t>(expert_of[choice])];
  }
  std::vector<int64_t> next(experts);
  for (size_t i = 1; i < experts; ++i) next[i] = next[i - 1] + sorted.counts[i - 1];
  for (at::Tensor* one : {&sorted.choices, &sorted.tokens, &sorted.places}) {
    *one = at::empty({all}, at::kLong);
  }
  int64_t* const choices = sorted.choices.data_ptr<int64_t>();
  int64_t* const tokens = sorted.tokens.data_ptr<int64_t>();
  int64_t* const places = sorted.places.data_ptr<int64_t>();
  for (int64_t choice = 0; choice < all; ++choice) {
    const int64_t place = next[static_cast<size_t>(expert_of[choice])]++;
    choices[place] = choice;
    tokens[place] = choice / per_token;
    places[choice] = place;
  }
  for (at::Tensor* one : {&sorted.choices, &sorted.tokens, &sorted.places}) {
    *one = one->to(chosen.device());
  }
  return sorted;
}

// The way back of TakeRows. libtorch's own would add gradients row by row on one thread.
class RowsNode final : public torch::autograd::Node {
 public:
  RowsNode(at::Tensor back, int64_t times) : back_(std::move(back)), times_(times) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&& outputs) override {
    if (!outputs.at(0).defined()) return torch::autograd::variable_list(num_outputs());
    const at::Tensor rows = outputs[0].index_select(0, back_);
    if (times_ == 1) return {rows};
    return {rows.view({-1, times_, rows.size(1)}).sum(1)};
  }

  std::string name() const override { return "TakeRows"; }

 private:
  const at::Tensor back_;
  const int64_t times_;
};

// Returns the rows of `x` with these numbers. Each row of `x` is taken `times` times, and
// back[row * times + i] is the place of the i-th in the result.
at::Tensor TakeRows(const at::Tensor& x, const at::Tensor& rows, const at::Tensor& back,
                    int64_t times) {
  at::Tensor taken;
  {
    const at::NoGradGuard no_grad;
    taken = x.index_select(0, rows);
  }
  if (!at::GradMode::is_enabled() || !x.requires_grad()) return taken;
  const auto node = MakeGraphNode<RowsNode>(back, times);
  node->set_next_edges(torch::autograd::collect_next_edges(x));
  torch::autograd::create_gradient_edge(taken, node);
  return taken;
}

// Returns the results of the choices in the order of their places. An expert that no token has
// chosen is not part of the graph, so its gradient stays as it is.
at::Tensor RunExperts(const ExpertMixture& mixture, const Dispatch& sorted, const at::Tensor& x) {
  std::vector<at::Tensor> results;
  int64_t first = 0;
  for (size_t i = 0; i < mixture.experts.size(); ++i) {
    const int64_t count = sorted.counts[i];
    if (count == 0) continue;
    const GatedNetwork& expert = mixture.experts[i];
    results.push_back(expert.down(expert.Hidden(Activation::kSilu, x.narrow(0, first, count))));
    first += count;
  }
  return at::cat(results);
}

at::Tensor CountsOf(const Dispatch& sorted, const at::Device& device) {
  const auto experts = static_cast<int64_t>(sorted.counts.size());
  const at::Tensor counts = at::empty({experts}, at::kFloat);
  for (size_t i = 0; i < sorted.counts.size(); ++i) {
    counts.data_ptr<float>()[i] = static_cast<float>(sorted.counts[i]);
  }
  return counts.to(device);
}

}  // namespace

at::Tensor Mix(const ExpertMixture& mixture, const MixtureRule& rule, const at::Tensor& x,
               at::Tensor* sums) {
  const at::Tensor probabilities = at::softmax(mixture.router(x).to(at::kFloat), -1);
  const at::Tensor chosen = std::get<1>(at::topk(probabilities.detach(), rule.per_token));
  at::Tensor weights = probabilities.gather(1, chosen);
  if (rule.normalised) weights = weights / weights.sum(-1, /*keepdim=*/true);
  const Dispatch sorted = Sort(chosen, mixture.experts.size());
  if (sums->defined()) {
    *sums = *sums + at::cat({CountsOf(sorted, x.device()), probabilities.sum(0)});
  }
  const at::Tensor inputs = TakeRows(x, sorted.tokens, sorted.places, rule.per_token);
  const at::Tensor results = RunExperts(mixture, sorted, inputs);
  const at::Tensor by_token = TakeRows(results, sorted.places, sorted.choices, /*times=*/1)
                                  .view({x.size(0), rule.per_token, results.size(1)});
  return (by_token * weights.unsqueeze(2)).sum(1);
}

at::Tensor MakeRouterSums(int64_t experts, const at::Device& device) {
  return at::zeros({2 * experts}, at::device(device).dtype(at::kFloat));
}

at::Tensor BalanceLoss(const at::Tensor& sums, int64_t choices) {
  const int64_t experts = sums.numel() / 2;
  const at::Tensor means = sums / static_cast<double>(choices);
  return (means.narrow(0, 0, experts) * means.narrow(0, experts, experts)).sum() *
         static_cast<double>(experts);
}

at::Tensor JoinSums(const JoinedSums& parts) {
  return parts.sums.defined() ? at::cat({parts.x.reshape({-1}), parts.sums}) : parts.x;
}

JoinedSums SplitSums(const at::Tensor& joined, int64_t width, int64_t summed) {
  if (summed == 0) return {joined, {}};
  const int64_t values = joined.numel() - summed;
  return {joined.narrow(0, 0, values).view({-1, width}), joined.narrow(0, values, summed)};
}

}  // namespace atolld
