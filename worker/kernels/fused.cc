#include "worker/kernels/fused.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "worker/kernels/matrix_kernels.h"
#include "worker/kernels/torch_version.h"

namespace atolld {
namespace {

using torch::autograd::variable_list;

// Computes the gradients of a function's inputs, in their order, from that of its output; gradients
// that are not wanted are undefined.
using Gradients = std::function<variable_list(const at::Tensor& output_gradient)>;

// A node of the graph that represents a whole operation.
class FusedNode final : public torch::autograd::Node {
 public:
  FusedNode(const char* name, Gradients gradients)
      : name_(name), gradients_(std::move(gradients)) {}

  variable_list apply(variable_list&& outputs) override {
    if (!outputs.at(0).defined()) return variable_list(num_outputs());
    TORCH_CHECK(gradients_ != nullptr, name_, ": a graph has one backward pass");
    return gradients_(outputs[0].contiguous());
  }
  void release_variables() override { gradients_ = nullptr; }
  std::string name() const override { return name_; }

 private:
  const char* const name_;
  Gradients gradients_;
};

// Returns `output` with the way back to its inputs if gradients are recorded.
at::Tensor Record(const char* name, at::Tensor output, const variable_list& inputs,
                  const std::function<Gradients()>& gradients) {
  const bool wanted =
      at::GradMode::is_enabled() && std::any_of(inputs.begin(), inputs.end(), [](const auto& one) {
        return one.defined() && one.requires_grad();
      });
  if (!wanted) return output;
  const auto node = MakeGraphNode<FusedNode>(name, gradients());
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  torch::autograd::create_gradient_edge(output, node);
  return output;
}

bool Wanted(const at::Tensor& input) { return input.defined() && input.requires_grad(); }

// The place where the gradient of a parameter is added up.
class Sum {
 public:
  explicit Sum(const at::Tensor& parameter) {
    if (!Wanted(parameter)) return;
    if (parameter.is_leaf() && parameter.grad().defined() && IsPlainFloat(parameter.grad()) &&
        parameter.grad().is_contiguous()) {
      there_ = parameter.grad();
    } else {
      there_ = made_ = at::zeros(parameter.sizes(), parameter.options().requires_grad(false));
    }
  }
  float* data() const { return there_.defined() ? there_.data_ptr<float>() : nullptr; }
  // For the graph; undefined where it is added already.
  const at::Tensor& rest() const { return made_; }

 private:
  at::Tensor there_, made_;
};

const float* Data(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr<float>() : nullptr;
}

size_t Size(int64_t value) { return static_cast<size_t>(value); }

at::Tensor Like(const at::Tensor& tensor, at::IntArrayRef sizes) {
  return at::empty(sizes, tensor.options().requires_grad(false));
}
at::Tensor Like(const at::Tensor& tensor) { return Like(tensor, tensor.sizes()); }

// With fewer rows, as in text generation, a product is bound by loading the weights through the
// caches, and laying them out anew would double that.
constexpr int64_t kFewRows = 8;

// Work of about this many operations is worth a thread.
constexpr int64_t kGrain = 1 << 17;

// Runs task(begin, end) for parts of [0, count), where each item costs `cost` operations.
template <class Task>
void InParallel(int64_t count, int64_t cost, const Task& task) {
  at::parallel_for(0, count, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, cost)),
                   [&](int64_t begin, int64_t end) { task(Size(begin), Size(end)); });
}

// As Multiply, with the rows of the result divided among threads.
void ParallelMultiply(const MatrixView& a, const MatrixView& b, int64_t rows, int64_t columns,
                      int64_t depth, bool add, float* c) {
  constexpr int64_t kUnit = 48;  // rows: whole tiles
  InParallel((rows + kUnit - 1) / kUnit, kUnit * columns * depth, [&](size_t begin, size_t end) {
    const size_t first = begin * kUnit, last = std::min(Size(rows), end * kUnit);
    Multiply({a.data + first * a.row, a.row, a.column}, b, last - first, Size(columns), Size(depth),
             add, c + first * Size(columns), Size(columns));
  });
}

// Views of a matrix as it is, and transposed.
MatrixView Rows(const at::Tensor& matrix) {
  return {matrix.data_ptr<float>(), Size(matrix.size(1)), 1};
}
MatrixView Columns(const at::Tensor& matrix) {
  return {matrix.data_ptr<float>(), 1, Size(matrix.size(1))};
}

// The number of rows that are summed separately for the gradient of a norm or a bias, which is one
// row; it is fixed, so that threads do not change the result.
constexpr int64_t kPart = 256;

template <class AddPart>
void SumParts(int64_t rows, int64_t width, float* to, const AddPart& add_part) {
  const int64_t parts = (rows + kPart - 1) / kPart;
  if (to == nullptr || parts == 1) {
    for (int64_t part = 0; part < parts; ++part) {
      add_part(part * kPart, std::min(rows, (part + 1) * kPart), to);
    }
    return;
  }
  std::vector<float> sums(Size(parts * width));
  InParallel(parts, kPart * width, [&](size_t begin, size_t end) {
    for (size_t part = begin; part < end; ++part) {
      const auto first = static_cast<int64_t>(part) * kPart;
      add_part(first, std::min(rows, first + kPart), sums.data() + part * Size(width));
    }
  });
  AddRows(Size(parts), Size(width), sums.data(), to);
}

}  // namespace

at::Tensor FusedLinear(const at::Tensor& x_in, const at::Tensor& weight_in, const at::Tensor& bias,
                       const at::Tensor& residual) {
  const at::Tensor x = x_in.contiguous(), weight = weight_in.contiguous();
  const int64_t rows = x.size(0), in = x.size(1), out = weight.size(0);
  if (rows < kFewRows) {
    const at::Tensor few = bias.defined() ? at::addmm(bias, x, weight.t()) : at::mm(x, weight.t());
    return residual.defined() ? residual + few : few;
  }
  at::Tensor y = Like(x, {rows, out});
  {
    const at::NoGradGuard no_grad;
    if (residual.defined()) y.copy_(residual);
    if (bias.defined()) residual.defined() ? y.add_(bias) : y.copy_(bias.expand({rows, out}));
    ParallelMultiply(Rows(x), Columns(weight), rows, out, in, bias.defined() || residual.defined(),
                     y.data_ptr<float>());
  }
  return Record("FusedLinear", y, {x, weight, bias, residual}, [&]() -> Gradients {
    const bool residual_wanted = Wanted(residual);
    return [=](const at::Tensor& dy) -> variable_list {
      at::Tensor dx;
      if (Wanted(x)) {
        dx = Like(x);
        ParallelMultiply(Rows(dy), Rows(weight), rows, in, out, false, dx.data_ptr<float>());
      }
      const Sum dweight(weight), dbias(bias);
      if (dweight.data() != nullptr) {
        ParallelMultiply(Columns(dy), Rows(x), out, in, rows, true, dweight.data());
      }
      if (dbias.data() != nullptr) {
        SumParts(rows, out, dbias.data(), [&](int64_t first, int64_t end, float* to) {
          AddRows(Size(end - first), Size(out), Data(dy) + first * out, to);
        });
      }
      return {dx, dweight.rest(), dbias.rest(), residual_wanted ? dy : at::Tensor()};
    };
  });
}

at::Tensor FusedNorm(const at::Tensor& x_in, const at::Tensor& weight, const at::Tensor& bias,
                     const NormKind& kind) {
  const at::Tensor x = x_in.contiguous();
  const int64_t width = x.size(-1), rows = x.numel() / width;
  const NormRule rule{Size(width),  static_cast<float>(kind.epsilon),
                      kind.centred, static_cast<float>(kind.shift),
                      Data(weight), Data(bias)};
  const at::Tensor y = Like(x), statistics = Like(x, {rows, 2});
  InParallel(rows, 8 * width, [&](size_t begin, size_t end) {
    const size_t at = begin * rule.width;
    NormForward(rule, end - begin, Data(x) + at, y.data_ptr<float>() + at,
                statistics.data_ptr<float>() + 2 * begin);
  });
  return Record("FusedNorm", y, {x, weight, bias}, [&]() -> Gradients {
    return [=](const at::Tensor& dy) -> variable_list {
      at::Tensor dx;
      if (Wanted(x)) {
        dx = Like(x);
        InParallel(rows, 16 * width, [&](size_t begin, size_t end) {
          const size_t at = begin * rule.width;
          NormBackward(rule, end - begin, Data(x) + at, Data(statistics) + 2 * begin, Data(dy) + at,
                       dx.data_ptr<float>() + at, nullptr, nullptr);
        });
      }
      const Sum dweight(weight), dbias(bias);
      const auto part = [&](bool of_weight) {
        return [&, of_weight](int64_t first, int64_t end, float* to) {
          NormBackward(rule, Size(end - first), Data(x) + first * width,
                       Data(statistics) + 2 * first, Data(dy) + first * width, nullptr,
                       of_weight ? to : nullptr, of_weight ? nullptr : to);
        };
      };
      if (dweight.data() != nullptr) SumParts(rows, width, dweight.data(), part(true));
      if (dbias.data() != nullptr) SumParts(rows, width, dbias.data(), part(false));
      return {dx, dweight.rest(), dbias.rest()};
    };
  });
}

at::Tensor FusedActivation(Activation activation, const at::Tensor& x_in) {
  const at::Tensor x = x_in.contiguous();
  const at::Tensor y = Like(x);
  at::Tensor slope;
  if (at::GradMode::is_enabled() && Wanted(x)) slope = Like(x);
  float* const slopes = slope.defined() ? slope.data_ptr<float>() : nullptr;
  InParallel(x.numel(), 32, [&](size_t begin, size_t end) {
    Activate(activation, end - begin, Data(x) + begin, y.data_ptr<float>() + begin,
             slopes == nullptr ? nullptr : slopes + begin);
  });
  return Record("FusedActivation", y, {x}, [&]() -> Gradients {
    return [slope](const at::Tensor& dy) -> variable_list {
      const at::Tensor dx = Like(dy);
      InParallel(dy.numel(), 2, [&](size_t begin, size_t end) {
        MultiplyValues(end - begin, Data(dy) + begin, Data(slope) + begin,
                       dx.data_ptr<float>() + begin);
      });
      return {dx};
    };
  });
}

at::Tensor FusedGate(Activation activation, const at::Tensor& gate_in, const at::Tensor& up_in) {
  const at::Tensor gate = gate_in.contiguous(), up = up_in.contiguous();
  const at::Tensor y = Like(gate);
  InParallel(gate.numel(), 32, [&](size_t begin, size_t end) {
    GateForward(activation, end - begin, Data(gate) + begin, Data(up) + begin,
                y.data_ptr<float>() + begin);
  });
  return Record("FusedGate", y, {gate, up}, [&]() -> Gradients {
    return [=](const at::Tensor& dy) -> variable_list {
      const at::Tensor dgate = Like(gate), dup = Like(gate);
      InParallel(gate.numel(), 48, [&](size_t begin, size_t end) {
        GateBackward(activation, end - begin, Data(gate) + begin, Data(up) + begin,
                     Data(dy) + begin, dgate.data_ptr<float>() + begin,
                     dup.data_ptr<float>() + begin);
      });
      return {dgate, dup};
    };
  });
}

at::Tensor FusedRotation(const at::Tensor& x_in, const at::Tensor& cos_in, const at::Tensor& sin_in,
                         int64_t heads) {
  const at::Tensor x = x_in.contiguous(), cos = cos_in.contiguous(), sin = sin_in.contiguous();
  const int64_t tokens = cos.size(0), head = x.size(1) / heads, sequences = x.size(0) / tokens;
  const auto turn = [=](const at::Tensor& from, bool back) {
    const at::Tensor to = Like(from);
    const size_t values = Size(tokens * heads * head);
    InParallel(sequences, static_cast<int64_t>(4 * values), [&](size_t begin, size_t end) {
      Rotate((end - begin) * Size(tokens), Size(tokens), Size(heads), Size(head), Data(cos),
             Data(sin), back, Data(from) + begin * values, to.data_ptr<float>() + begin * values);
    });
    return to;
  };
  return Record("FusedRotation", turn(x, false), {x}, [&]() -> Gradients {
    return [turn](const at::Tensor& dy) -> variable_list { return {turn(dy, true)}; };
  });
}

namespace {

// Attention over matrices whose rows are tokens; q, k and v each begin at a column of their own.
class AttentionCall {
 public:
  AttentionCall(const AttentionLayout& layout, int64_t rows)
      : layout_(layout),
        tokens_(rows / layout.batch),
        shape_{Size(tokens_), Size(layout.head), Size(layout.heads / layout.groups),
               Size(layout.window), static_cast<float>(layout.scale)} {}

  struct Part {
    float* data;
    size_t row;
  };

  // task(input, the first row's and head's place in out, in lse) for each key head of each
  // sequence.
  template <class Task>
  void ForEach(const Part& q, const Part& k, const Part& v, const Task& task) const {
    const int64_t cost = 2 * tokens_ * tokens_ * layout_.head * layout_.heads / layout_.groups;
    InParallel(layout_.batch * layout_.groups, cost, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        const size_t first = i / Size(layout_.groups) * shape_.tokens;
        const size_t group = i % Size(layout_.groups);
        const auto at = [&](const Part& part, size_t head) {
          return part.data + first * part.row + head * shape_.head;
        };
        const size_t head = group * shape_.shared;
        task(AttentionInput{at(q, head), at(k, group), at(v, group), q.row, k.row, v.row},
             first * out_row() + head * shape_.head, i * shape_.shared * shape_.tokens);
      }
    });
  }

  const AttentionShape& shape() const { return shape_; }
  size_t out_row() const { return Size(layout_.heads) * shape_.head; }
  size_t group_row() const { return Size(layout_.groups) * shape_.head; }

  void Forward(const Part& q, const Part& k, const Part& v, const at::Tensor& out,
               const at::Tensor& lse) const {
    ForEach(q, k, v, [&](const AttentionInput& in, size_t at, size_t of_lse) {
      AttentionForward(shape_, in, out.data_ptr<float>() + at, out_row(),
                       lse.data_ptr<float>() + of_lse);
    });
  }

  // Writes the gradients into matrices that are laid out as q, k and v.
  void Backward(const Part& q, const Part& k, const Part& v, const at::Tensor& out,
                const at::Tensor& lse, const at::Tensor& dout, const Part& dq, const Part& dk,
                const Part& dv) const {
    ForEach(q, k, v, [&](const AttentionInput& in, size_t at, size_t of_lse) {
      AttentionGradient gradient;
      gradient.out = Data(out) + at;
      gradient.out_gradient = Data(dout) + at;
      gradient.lse = Data(lse) + of_lse;
      gradient.out_row = out_row();
      gradient.q = dq.data + (in.q - q.data);
      gradient.k = dk.data + (in.k - k.data);
      gradient.v = dv.data + (in.v - v.data);
      gradient.q_row = dq.row;
      gradient.k_row = dk.row;
      gradient.v_row = dv.row;
      AttentionBackward(shape_, in, gradient);
    });
  }

 private:
  const AttentionLayout layout_;
  const int64_t tokens_;
  const AttentionShape shape_;
};

AttentionCall::Part PartOf(const at::Tensor& matrix, size_t column = 0) {
  return {matrix.data_ptr<float>() + column, Size(matrix.size(1))};
}

at::Tensor LogSums(const at::Tensor& like, const AttentionLayout& layout) {
  return Like(like, {layout.heads * like.size(0)});
}

}  // namespace

at::Tensor FusedAttention(const at::Tensor& q_in, const at::Tensor& k_in, const at::Tensor& v_in,
                          const AttentionLayout& layout) {
  const at::Tensor q = q_in.contiguous(), k = k_in.contiguous(), v = v_in.contiguous();
  const AttentionCall call(layout, q.size(0));
  at::Tensor out = Like(q);
  const at::Tensor lse = LogSums(q, layout), kept = out.detach();
  call.Forward(PartOf(q), PartOf(k), PartOf(v), out, lse);
  return Record("FusedAttention", out, {q, k, v}, [&]() -> Gradients {
    return [=](const at::Tensor& dout) -> variable_list {
      const at::Tensor dq = Like(q), dk = Like(k), dv = Like(v);
      call.Backward(PartOf(q), PartOf(k), PartOf(v), kept, lse, dout, PartOf(dq), PartOf(dk),
                    PartOf(dv));
      return {dq, dk, dv};
    };
  });
}

at::Tensor FusedAttention(const at::Tensor& qkv_in, const AttentionLayout& layout) {
  const at::Tensor qkv = qkv_in.contiguous();
  const AttentionCall call(layout, qkv.size(0));
  const size_t k = call.out_row(), v = k + call.group_row();  // columns
  at::Tensor out = Like(qkv, {qkv.size(0), static_cast<int64_t>(call.out_row())});
  const at::Tensor lse = LogSums(qkv, layout), kept = out.detach();
  call.Forward(PartOf(qkv), PartOf(qkv, k), PartOf(qkv, v), out, lse);
  return Record("FusedAttention", out, {qkv}, [&]() -> Gradients {
    return [=](const at::Tensor& dout) -> variable_list {
      const at::Tensor dqkv = Like(qkv);
      call.Backward(PartOf(qkv), PartOf(qkv, k), PartOf(qkv, v), kept, lse, dout, PartOf(dqkv),
                    PartOf(dqkv, k), PartOf(dqkv, v));
      return {dqkv};
    };
  });
}

at::Tensor FusedEmbedding(const at::Tensor& weight_in, const at::Tensor& tokens_in,
                          const at::Tensor& positions) {
  const at::Tensor weight = weight_in.contiguous(), tokens = tokens_in.contiguous();
  const int64_t vocabulary = weight.size(0), width = weight.size(1), length = tokens.size(1);
  const int64_t rows = tokens.numel();
  at::Tensor x = Like(weight, {rows, width});
  TORCH_CHECK_INDEX(!positions.defined() || length <= positions.size(0), length, " tokens, and ",
                    positions.defined() ? positions.size(0) : 0, " positions");
  const int64_t* const ids = tokens.data_ptr<int64_t>();
  for (int64_t r = 0; r < rows; ++r) {
    TORCH_CHECK_INDEX(ids[r] >= 0 && ids[r] < vocabulary, "token ", ids[r], " of a vocabulary of ",
                      vocabulary);
    float* const to = x.data_ptr<float>() + r * width;
    std::copy_n(Data(weight) + ids[r] * width, width, to);
    if (positions.defined()) AddRows(1, Size(width), Data(positions) + r % length * width, to);
  }
  return Record("FusedEmbedding", x, {weight, positions}, [&]() -> Gradients {
    return [=](const at::Tensor& dx) -> variable_list {
      const Sum dweight(weight), dpositions(positions);
      const int64_t* const of = tokens.data_ptr<int64_t>();
      for (int64_t r = 0; r < rows; ++r) {
        const float* const row = Data(dx) + r * width;
        if (dweight.data() != nullptr) AddRows(1, Size(width), row, dweight.data() + of[r] * width);
        if (dpositions.data() != nullptr) {
          AddRows(1, Size(width), row, dpositions.data() + r % length * width);
        }
      }
      return {dweight.rest(), dpositions.rest()};
    };
  });
}

at::Tensor FusedCrossEntropy(const at::Tensor& logits_in, const at::Tensor& targets_in,
                             int64_t ignored) {
  const at::Tensor logits = logits_in.contiguous(), targets = targets_in.contiguous();
  const int64_t rows = logits.size(0), width = logits.size(1);
  const int64_t* const of = targets.data_ptr<int64_t>();
  int64_t counted = 0;
  for (int64_t r = 0; r < rows; ++r) {
    if (of[r] == ignored) continue;
    TORCH_CHECK_INDEX(of[r] >= 0 && of[r] < width, "target ", of[r], " of ", width, " classes");
    ++counted;
  }
  const at::Tensor lse = Like(logits, {rows}), losses = Like(logits, {rows});
  InParallel(rows, 24 * width, [&](size_t begin, size_t end) {
    CrossEntropyForward(end - begin, Size(width), Data(logits) + begin * Size(width), of + begin,
                        ignored, lse.data_ptr<float>() + begin, losses.data_ptr<float>() + begin);
  });
  const double sum = std::accumulate(Data(losses), Data(losses) + rows, 0.0);
  at::Tensor mean = Like(logits, {});
  *mean.data_ptr<float>() = static_cast<float>(sum / static_cast<double>(counted));
  return Record("FusedCrossEntropy", mean, {logits}, [&]() -> Gradients {
    return [=](const at::Tensor& dmean) -> variable_list {
      const at::Tensor dlogits = Like(logits);
      const float scale = *Data(dmean) / static_cast<float>(counted);
      InParallel(rows, 16 * width, [&](size_t begin, size_t end) {
        CrossEntropyBackward(end - begin, Size(width), Data(logits) + begin * Size(width),
                             targets.data_ptr<int64_t>() + begin, ignored, Data(lse) + begin, scale,
                             dlogits.data_ptr<float>() + begin * Size(width));
      });
      return {dlogits};
    };
  });
}

}  // namespace atolld
