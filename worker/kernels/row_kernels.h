// What a model does between its products, on plain fp32 memory of a CPU: norms, activations,
// rotations, cross-entropy, and AdamW's step.
//
// Matrices are rows of `width` values without gaps, one row a token. Each row is computed alone, so
// that no result depends on how callers divide rows among threads; sums over rows go in ascending
// order. Gradients of parameters are added to, all else is written. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace atolld {

// y = (x - mean) / sqrt(variance + epsilon) * (weight + shift) + bias. RMSNorm (Zhang and Sennrich,
// arXiv:1910.07467) is the same with 0 in place of the mean.
struct NormRule {
  size_t width;
  float epsilon;
  bool centred;  // LayerNorm; else RMSNorm
  float shift;   // added to the weights: 1 for Gemma's
  const float* weight;
  const float* bias;  // nullptr: none
};

// `statistics`: two values a row, mean and 1 / sqrt(variance + epsilon), for the backward pass.
void NormForward(const NormRule& rule, size_t rows, const float* x, float* y, float* statistics);

// Writes `x_gradient` and adds to the gradients of weight and bias, each nullptr where not wanted.
void NormBackward(const NormRule& rule, size_t rows, const float* x, const float* statistics,
                  const float* y_gradient, float* x_gradient, float* weight_gradient,
                  float* bias_gradient);

enum class Activation { kGelu, kGeluTanh, kSilu };

// y = f(x) and, unless it is nullptr, the derivative f'(x).
void Activate(Activation activation, size_t values, const float* x, float* y, float* slope);

// y = f(gate) up, and the gradients of both.
void GateForward(Activation activation, size_t values, const float* gate, const float* up,
                 float* y);
void GateBackward(Activation activation, size_t values, const float* gate, const float* up,
                  const float* y_gradient, float* gate_gradient, float* up_gradient);

// y = a b, value by value.
void MultiplyValues(size_t values, const float* a, const float* b, float* y);

// Turns the pairs (i, i + head / 2) of every head by a token's angles: `cos` and `sin` are
// [tokens, head / 2], and row r is token r % tokens. With `back` the other way round.
void Rotate(size_t rows, size_t tokens, size_t heads, size_t head, const float* cos,
            const float* sin, bool back, const float* x, float* y);

// The loss of one row, log(sum of exp(logits)) - logits[target], of which `lse` is the first part.
void CrossEntropyForward(size_t rows, size_t width, const float* logits, const int64_t* targets,
                         int64_t ignored, float* lse, float* losses);

// The gradient: scale (softmax - 1 at the target), 0 in rows whose target is `ignored`. May be
// written over the logits.
void CrossEntropyBackward(size_t rows, size_t width, const float* logits, const int64_t* targets,
                          int64_t ignored, const float* lse, float scale, float* gradient);

// Adds row after row: to[i] += the sum over rows of x[r][i].
void AddRows(size_t rows, size_t width, const float* x, float* to);

// AdamW's step in one pass, to the bit as this line by line:
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

// The sum of squares in fp64: of 16 sums, one for each remainder of the index, and of what is left
// behind whole sixteens, which counts first.
double SumOfSquares(const float* values, size_t count);

}  // namespace atolld
