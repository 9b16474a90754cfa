// Mixtures of experts: the feed-forward part of a layer is many gated networks, and a router
// chooses few of them for each token (Shazeer et al., arXiv:1701.06538), as in Hugging Face's
// Mixtral, Qwen3-MoE and OLMoE.
//
// No token is dropped: an expert computes all tokens that have chosen it, however many they are.
// All sums have a fixed order: a token's results are added in the order of its choices, and the
// gradients of a token in the same order. May throw libtorch's exceptions. The functions are pure
// and may be called from any thread.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "worker/model/layers.h"

namespace atolld {

struct ExpertMixture {
  Linear router;  // its weight is [experts, width]
  std::vector<GatedNetwork> experts;
};

struct MixtureRule {
  int64_t per_token;  // how many experts compute each token
  bool normalised;    // true if the weights of a token's experts are scaled to sum 1
};

// Returns the results of the experts for `x` [tokens, width], each token's added up with the
// probabilities of its experts as weights. The probabilities are the softmax in fp32 of the
// router's products over all experts, and the most likely experts are chosen. If `sums` is defined,
// the router's choices and probabilities are added to it.
at::Tensor Mix(const ExpertMixture& mixture, const MixtureRule& rule, const at::Tensor& x,
               at::Tensor* sums);

// The sums from which BalanceLoss is computed: for each expert the number of tokens that have
// chosen it, and then for each expert the sum of its probabilities; fp32 [2 experts]. They begin at
// zero, and the routers of all layers add to them.
at::Tensor MakeRouterSums(int64_t experts, const at::Device& device);

// Returns the loss of an uneven choice (Fedus et al., arXiv:2101.03961, equations 4-6) over all
// layers at once, as transformers' load_balancing_loss_func computes it without an attention mask:
// experts * sum over experts of (share of the choices) * (mean probability). With even choices it
// is the number of experts per token. `choices` is the number of tokens that routers have seen,
// each counted once a router. Only the probabilities have gradients.
at::Tensor BalanceLoss(const at::Tensor& sums, int64_t choices);

// Activations [rows, width], and the router's sums if they are wanted.
struct JoinedSums {
  at::Tensor x, sums;
};

// JoinSums makes one tensor of both, since what is checkpointed takes one tensor and returns one;
// SplitSums is its inverse for sums of `summed` values. If there are no sums (undefined, or 0
// values), both return the activations as they are.
at::Tensor JoinSums(const JoinedSums& parts);
JoinedSums SplitSums(const at::Tensor& joined, int64_t width, int64_t summed);

}  // namespace atolld
