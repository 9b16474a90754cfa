// The operations of a model other than matrix products, in plain fp32 memory on a CPU: norms,
// activations, rotations, cross-entropy, and AdamW's step.
//
// A matrix has one row of `width` values per token, without gaps. Each row is computed
// independently, so that no result depends on how callers divide rows among threads; sums over rows
// are taken in ascending order. The gradients of parameters are added to the values that are
// already in memory; all other results are overwritten. The functions may be called from any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace atolld {

// y = (x - mean) / sqrt(variance + epsilon) * (weight + shift) + bias. RMSNorm (Zhang and Sennrich,
// arXiv:1910.07467) is the same formula with mean = 0.
struct NormRule {
  size_t width;
  float epsilon;
  bool centred;  // True for LayerNorm, false for RMSNorm.
  float shift;   // It is added to the weights; 1 for Gemma.
  const float* weight;
  const float* bias;  // Null if there is no bias.
};

// Computes y. Writes two values per row to `statistics`, the mean and 1 / sqrt(variance + epsilon),
// for the backward pass.
void NormForward(const NormRule& rule, size_t rows, const float* x, float* y, float* statistics);

// Writes `x_gradient`, and adds to the gradients of the weight and the bias. A gradient whose
// pointer is null is not computed.
void NormBackward(const NormRule& rule, size_t rows, const float* x, const float* statistics,
                  const float* y_gradient, float* x_gradient, float* weight_gradient,
                  float* bias_gradient);

enum class Activation { kGelu, kGeluTanh, kSilu };

// Computes y = f(x) and, unless `slope` is null, the derivative f'(x).
void Activate(Activation activation, size_t values, const float* x, float* y, float* slope);

// GateForward computes y = f(gate) * up, and GateBackward the gradients of `gate` and `up`.
void GateForward(Activation activation, size_t values, const float* gate, const float* up,
                 float* y);
void GateBackward(Activation activation, size_t values, const float* gate, const float* up,
                  const float* y_gradient, float* gate_gradient, float* up_gradient);

// Computes y = a b, value by value.
void MultiplyValues(size_t values, const float* a, const float* b, float* y);

// Rotates the pairs (i, i + head / 2) of every head by a token's angles: `cos` and `sin` are
// [tokens, head / 2], and row r belongs to token r % tokens. If `back` is true, rotates in the
// opposite direction.
void Rotate(size_t rows, size_t tokens, size_t heads, size_t head, const float* cos,
            const float* sin, bool back, const float* x, float* y);

// Computes the loss of each row, log(sum of exp(logits)) - logits[target], and writes the logarithm
// to `lse`.
void CrossEntropyForward(size_t rows, size_t width, const float* logits, const int64_t* targets,
                         int64_t ignored, float* lse, float* losses);

// Computes the gradient: scale * softmax, minus `scale` at the target. It is 0 in rows whose target
// is `ignored`. `gradient` may be the memory of `logits`.
void CrossEntropyBackward(size_t rows, size_t width, const float* logits, const int64_t* targets,
                          int64_t ignored, const float* lse, float scale, float* gradient);

// Adds the rows of x to `to`, one after another: to[i] += x[r][i].
void AddRows(size_t rows, size_t width, const float* x, float* to);

// The factors of AdamW's step. AdamWPass takes the step in one pass, with exactly the same bits as
// these statements:
//
//   g = gradient clip;  first = beta1 first + one_minus_beta1 g
//   second = beta2 second + one_minus_beta2 (g g)
//   parameter = parameter keep - step_size (first / (sqrt(second) / root_correction + epsilon))
struct AdamWFactors {
  float clip, beta1, beta2, one_minus_beta1, one_minus_beta2, step_size, root_correction, keep,
      epsilon;
};
void AdamWPass(const AdamWFactors& factors, size_t values, float* parameters, const float* gradient,
               float* first, float* second);

// Returns the sum of squares in fp64. It is the sum of 16 sums, one for each index modulo 16. The
// values after the last complete group of 16 are added first.
double SumOfSquares(const float* values, size_t count);

}  // namespace atolld
