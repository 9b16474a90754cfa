// Muon: momentum for matrices whose step is made orthogonal before it is taken (Jordan et al.,
// 2024, https://kellerjordan.github.io/posts/muon).
//
// Every singular value of the step comes near 1, by five steps of a Newton-Schulz iteration with
// the published coefficients 3.4445, -4.7750, 2.0315. Of the two published scales this is 0.2 *
// sqrt(max(rows, columns)) (Liu et al., "Muon is scalable for LLM training", arXiv:2502.16982),
// with which a step is as long as one of AdamW, so that one learning rate and one weight decay
// serve both. Computed in fp32. One thread at a time. May throw libtorch's exceptions.
#pragma once

#include <memory>

#include "atoll/v1/run.pb.h"
#include "worker/training/inner_optimizer.h"

namespace at {
class Tensor;
}

namespace atolld {

// Whether Muon steps this tensor: a matrix of a block, which is what has a number in its name
// ("h.0.mlp.c_fc.weight"). Embeddings, head and norms are AdamW's.
bool IsMuons(const v1::Tensor& tensor);

// The matrix U V^T of `matrix` = U S V^T, about: singular values end between 0.7 and 1.2.
at::Tensor Orthogonalised(const at::Tensor& matrix);

// Checked by InnerOptimizer::Make.
std::unique_ptr<InnerOptimizer> MakeMuon(const v1::InnerSpec& inner, const v1::Manifest& manifest,
                                         const std::string& device);

}  // namespace atolld
