#include "daemon/config/training_memory.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compression/base/decoder.h"
#include "daemon/config/config_sections.h"
#include "daemon/config/expert_sizes.h"
#include "daemon/config/worker_program.h"

namespace atolld {
namespace {

constexpr double kFp32 = 4, kBf16 = 2;  // bytes

// A worker with libtorch 1.13 and a model of 3,000 parameters, as measured.
constexpr double kBaseBytes = 188e6;
// How much larger the heap becomes than the tensors in it, as measured: freed blocks leave holes
// into which no aligned block of the same size fits.
constexpr double kHeapLoss = 1.4;
// The same for a block whose activations are computed again: each one finds the room of the block
// before in pieces.
constexpr double kHeapLossAgain = 3.4;
// From this size on glibc maps a block and gives it back (atoll-worker sets it).
constexpr double kMappedFrom = 32 << 20;
// How many tokens the worker evaluates at once on a CPU.
constexpr uint64_t kEvaluationTokens = 1024;

// Bytes of tensors by the place where glibc puts them.
struct PlacedBytes {
  double heap = 0, mapped = 0;

  void Add(double tensor_bytes, double count = 1) {
    (tensor_bytes < kMappedFrom ? heap : mapped) += count * tensor_bytes;
  }
  void Add(const PlacedBytes& other, double times = 1) {
    heap += times * other.heap;
    mapped += times * other.mapped;
  }
  void RaiseTo(const PlacedBytes& other) {
    heap = std::max(heap, other.heap);
    mapped = std::max(mapped, other.mapped);
  }
};

// `count` tensors with as many values for each token.
struct TokenTensors {
  double values;
  double count;
  double bytes = kFp32;  // of a value
};

PlacedBytes ForTokens(const std::vector<TokenTensors>& tensors, double tokens) {
  PlacedBytes placed;
  for (const TokenTensors& one : tensors) placed.Add(tokens * one.values * one.bytes, one.count);
  return placed;
}

// What one block holds for each token.
struct BlockTokens {
  std::vector<TokenTensors> kept;       // until its backward pass
  std::vector<TokenTensors> gradients;  // the most that its backward pass holds beside that
  std::vector<TokenTensors> evaluated;  // all that a pass without gradients makes

  void Keep(std::initializer_list<TokenTensors> more) { kept.insert(kept.end(), more); }
};

// The sizes of a model from which its blocks follow.
struct BlockWidths {
  double width, heads, head, queries, keys, hidden, context;
  bool bf16, dropout;
};

BlockWidths WidthsOf(const v1::RunSpec& spec) {
  const v1::ModelSpec& model = spec.model();
  const DecoderShape shape = DecoderShapeOf(model);
  const bool llama = model.kind() == "llama";
  const uint64_t groups = llama ? model.kv_heads() : model.heads();
  const uint64_t head =
      llama ? HeadWidth(shape, {model.width(), model.heads(), model.kv_heads(), model.hidden()})
            : model.width() / model.heads();
  BlockWidths widths{};
  widths.width = model.width();
  widths.heads = model.heads();
  widths.head = static_cast<double>(head);
  widths.queries = static_cast<double>(head * model.heads());
  widths.keys = static_cast<double>(head * groups);
  widths.hidden = model.kind() == "gpt" ? 4.0 * model.width() : model.hidden();
  widths.context = model.context();
  widths.bf16 = spec.inner().precision() == "bf16";
  widths.dropout = model.dropout() > 0;
  return widths;
}

// Adds the attention of libtorch's operations: copies of q, k and v by heads, its result, and
// `kept` matrices of a weight for each pair of tokens.
void KeepAttention(const BlockWidths& w, double kept, BlockTokens* block) {
  const double bytes = w.bf16 ? kBf16 : kFp32;
  const double masks = w.dropout ? 2 : 0;  // of dropout, and what it leaves
  block->Keep({{w.queries, 4, bytes}, {w.heads * w.context, kept + masks, bytes}});
  block->gradients.push_back({w.heads * w.context, 2, bytes});
  if (w.dropout) block->Keep({{w.width, 2, bytes}});  // the masks of what is added
}

// Of Gpt::RunBlock.
BlockTokens GptBlock(const BlockWidths& w) {
  BlockTokens block;
  block.evaluated = {{w.width, 6}, {3 * w.width, 1}, {w.hidden, 2}};
  if (w.bf16) {
    block.Keep({{w.width, 2}, {w.width, 2, kBf16}, {w.hidden, 2, kBf16}});
    block.gradients = {{w.width, 1}, {w.hidden, 1, kBf16}};
    KeepAttention(w, 1, &block);
    return block;
  }
  block.Keep({{w.width, 4}, {w.hidden, 2}});
  block.gradients = {{w.width, 1}, {w.hidden, 1}};
  if (w.dropout) {
    KeepAttention(w, 1, &block);
  } else {
    block.Keep({{w.width, 1}, {3 * w.width, 1}, {w.heads + 4, 1}});
  }
  return block;
}

// Adds a gated network. Experts divide the tokens among them.
void KeepNetwork(const BlockWidths& w, const DecoderShape& shape, uint32_t layer,
                 BlockTokens* block) {
  const double bytes = w.bf16 ? kBf16 : kFp32;
  const double factors = w.bf16 ? 4 : 3;  // gate, its activation (fused in fp32), up, product
  if (!HasExperts(shape, layer)) {
    block->Keep({{w.hidden, factors, bytes}});
    block->gradients.insert(block->gradients.end(), {{w.width, 1}, {w.hidden, 2, bytes}});
    block->evaluated.push_back({w.hidden, 3});
    return;
  }
  const double experts = shape.experts.count, chosen = shape.experts.per_token;
  const double hidden = shape.experts.hidden != 0 ? shape.experts.hidden : w.hidden;
  const double share = chosen / experts;
  block->Keep({{share * hidden, factors * experts, bytes},
               {chosen * w.width, 1},         // the experts' inputs
               {chosen * w.width, 1, bytes},  // their results
               {experts, 2}});
  if (w.bf16) block->Keep({{chosen * w.width, 2, bytes}});
  block->gradients.insert(block->gradients.end(),
                          {{w.width, 1}, {chosen * w.width, 3}, {share * hidden, 2, bytes}});
  block->evaluated.insert(block->evaluated.end(),
                          {{share * hidden, 3 * experts}, {chosen * w.width, 4}, {experts, 2}});
}

// Of Llama::RunBlock.
BlockTokens LlamaBlock(const BlockWidths& w, const DecoderShape& shape, uint32_t layer) {
  const DecoderFamily& family = *FindDecoderFamily(shape.family);
  const double before = family.norms != DecoderFamily::Norms::kAfter ? 2 : 0;
  const double after = family.norms != DecoderFamily::Norms::kBefore ? 2 : 0;
  const double capped = shape.attention_cap != 0 ? 1 : 0;
  const bool head_norms = family.head_norms != DecoderFamily::HeadNorms::kNone;
  BlockTokens block;
  block.evaluated = {{w.width, 4 + after}, {w.queries, 3}, {w.keys, 4}};
  if (capped > 0) block.evaluated.push_back({w.heads * w.context, 3});
  block.Keep({{w.width, 2 + before + after}});
  // Each product of q, k, v, gate and up (or the router) makes its own copy of its input in bf16.
  if (w.bf16)
    block.Keep({{w.width, after}, {w.width, HasExperts(shape, layer) ? 4.0 : 5.0, kBf16}});
  if (head_norms) block.Keep({{w.queries, w.bf16 ? 2.0 : 1.0}, {w.keys, w.bf16 ? 2.0 : 1.0}});
  if (shape.qkv_clip != 0) block.Keep({{w.queries, 1}, {w.keys, 2}});
  if (w.bf16 || w.dropout || capped > 0) {
    KeepAttention(w, 1 + capped, &block);
  } else {
    block.Keep({{w.queries, 2}, {w.keys, 2}, {w.heads + 4, 1}});
  }
  KeepNetwork(w, shape, layer, &block);
  return block;
}

BlockTokens BlockOf(const v1::ModelSpec& model, const BlockWidths& widths, uint32_t layer) {
  return model.kind() == "llama" ? LlamaBlock(widths, DecoderShapeOf(model), layer)
                                 : GptBlock(widths);
}

// The norm at the end, the logits, and what the backward pass of the loss makes of them.
std::vector<TokenTensors> HeadOf(const v1::ModelSpec& model, const BlockWidths& w) {
  const double vocabulary = model.vocabulary();
  if (w.bf16) return {{w.width, 3}, {vocabulary, 3}, {vocabulary, 1, kBf16}};
  const bool capped = model.decoder().logit_cap() != 0;
  return {{w.width, 2}, {vocabulary, capped ? 3.0 : 2.0}, {2, 1}};
}

// The matrices of blocks as they are in the model without adapters.
struct MatrixSize {
  double rows, columns;
  bool adapted;

  double bytes() const { return kFp32 * rows * columns; }
};

std::vector<MatrixSize> MatricesOf(const v1::ModelSpec& model) {
  std::vector<MatrixSize> matrices;
  for (uint32_t layer = 0; layer < model.layers(); ++layer) {
    for (const BlockTensor& one : MatricesOfBlock(model, layer)) {
      matrices.push_back({static_cast<double>(one.shape[0]), static_cast<double>(one.shape[1]),
                          absl::c_linear_search(model.lora_targets(), one.name)});
    }
  }
  return matrices;
}

uint64_t BaseParameters(const v1::ModelSpec& model) {
  v1::ModelSpec base = model;
  base.set_lora_rank(0);
  base.set_lora_slice(0);
  return TrainedParameters(base);
}

// Returns how many values a worker trains.
double TrainedValues(const v1::RunSpec& spec, const OwnPart& own) {
  const auto all = static_cast<double>(TrainedParameters(spec.model()));
  if (spec.model().lora_slice() > 0) {
    return own.lora_rank == 0 ? all : all * own.lora_rank / spec.model().lora_rank();
  }
  const ExpertSizes sizes = ExpertSizesOf(spec.model(), spec.experts());
  if (!sizes.known()) return all;
  const double share = OwnedShare(sizes.experts.size(), spec.experts().owners(), own.peers);
  return all - (1 - share) * static_cast<double>(sizes.OfExperts());
}

double StateBytes(const v1::RunSpec& spec, uint32_t copies, const OwnPart& own) {
  const v1::InnerSpec& inner = spec.inner();
  double trained = copies;                        // gradients
  trained += inner.optimizer() == "sgd" ? 0 : 2;  // moments
  double vectors = copies;                        // parameters
  vectors += 3;                                   // the base, and the slots of theta and update
  if (inner.proximal() > 0) vectors += 2;
  if (inner.control_variates()) vectors += 5;
  if (spec.mode().kind() == "eager") vectors += 1;
  double bytes = kFp32 * (vectors * static_cast<double>(TrainedParameters(spec.model())) +
                          trained * TrainedValues(spec, own));
  if (spec.model().lora_rank() != 0) {
    bytes += kFp32 * static_cast<double>(BaseParameters(spec.model()));
  }
  return bytes;
}

// Of Orthogonalised (worker/training/inner_optimizer.cc), for its largest matrix.
PlacedBytes MuonStep(const std::vector<MatrixSize>& matrices) {
  PlacedBytes most;
  for (const MatrixSize& matrix : matrices) {
    const double side = std::min(matrix.rows, matrix.columns);
    PlacedBytes step;
    step.Add(matrix.bytes(), 4);
    step.Add(kFp32 * side * side, 2);
    most.RaiseTo(step);
  }
  return most;
}

// The peaks of each moment, for pieces of this many tokens.
double StepBytes(const v1::RunSpec& spec, uint32_t copies, double tokens) {
  const v1::ModelSpec& model = spec.model();
  const BlockWidths widths = WidthsOf(spec);
  const bool adapters = model.lora_rank() != 0;
  const bool checkpointing = spec.inner().checkpointing() && !adapters;
  const uint64_t context = std::max<uint64_t>(model.context(), 1);
  const auto evaluated =
      static_cast<double>(std::max<uint64_t>(kEvaluationTokens / context, 1) * context);
  PlacedBytes blocks, block_again, block_gradients, evaluation;
  for (uint32_t layer = 0; layer < model.layers(); ++layer) {
    const BlockTokens block = BlockOf(model, widths, layer);
    const PlacedBytes kept = ForTokens(block.kept, tokens);
    blocks.Add(checkpointing ? ForTokens({{widths.width, 1}}, tokens) : kept);
    if (checkpointing) block_again.RaiseTo(kept);
    block_gradients.RaiseTo(ForTokens(block.gradients, tokens));
    evaluation.RaiseTo(ForTokens(block.evaluated, evaluated));
  }
  const std::vector<MatrixSize> matrices = MatricesOf(model);
  PlacedBytes adapted, casts;
  for (const MatrixSize& matrix : matrices) {
    if (adapters && matrix.adapted) adapted.Add(matrix.bytes());
    if (widths.bf16) casts.Add(matrix.bytes() * kBf16 / kFp32);
  }
  blocks.Add(adapted);
  blocks.Add(casts);

  PlacedBytes top = blocks, last = blocks, peak;
  top.Add(ForTokens(HeadOf(model, widths), tokens));
  last.Add(block_again);
  last.Add(block_gradients);
  if (checkpointing) {
    last.heap += (kHeapLossAgain / kHeapLoss - 1) * (block_again.heap + block_gradients.heap);
  }
  evaluation.Add(adapted);
  evaluation.Add(
      ForTokens({{widths.width, 2}, {static_cast<double>(model.vocabulary()), 1}}, evaluated));
  for (const PlacedBytes& moment : {top, last, evaluation}) peak.RaiseTo(moment);
  // The gradients of adapted matrices, until their adapters' are made of them.
  PlacedBytes products = adapted;
  products.Add(adapted);
  peak.RaiseTo(products);
  if (spec.inner().optimizer() == "muon") peak.RaiseTo(MuonStep(matrices));
  return copies * (kHeapLoss * peak.heap + peak.mapped);
}

// The sequences of the largest piece that a copy computes at once.
uint64_t SequencesAtOnce(const v1::InnerSpec& inner, uint32_t copies) {
  const uint64_t own = (uint64_t{inner.batch()} + copies - 1) / copies;
  const uint64_t parts = std::clamp<uint64_t>(inner.accumulation(), 1, std::max<uint64_t>(own, 1));
  return (own + parts - 1) / parts;
}

std::string InBytes(double bytes) { return absl::StrCat(std::round(bytes / 1e7) / 100, " GB"); }

}  // namespace

bool KnowsTrainingMemory(const v1::ModelSpec& model, absl::string_view device) {
  const std::string& kind = model.kind();
  if (absl::StrContains(device, "cuda") || device == kMetal || model.heads() == 0) return false;
  if (kind == "gpt" || kind == "gpt2") return true;
  return kind == "llama" && FindDecoderFamily(DecoderShapeOf(model).family) != nullptr;
}

uint32_t CopiesOn(absl::string_view device) {
  return static_cast<uint32_t>(1 + absl::c_count(device, ','));
}

TrainingMemory TrainingMemoryOf(const v1::RunSpec& spec, uint32_t copies, const OwnPart& own) {
  TrainingMemory memory;
  memory.base_bytes = kBaseBytes;
  memory.state_bytes = StateBytes(spec, copies, own);
  const auto tokens =
      static_cast<double>(SequencesAtOnce(spec.inner(), copies) * spec.model().context());
  memory.step_bytes = StepBytes(spec, copies, tokens);
  return memory;
}

bool TrainingFit::changed(const v1::InnerSpec& inner) const {
  return accumulation != std::max(inner.accumulation(), 1u) ||
         checkpointing != inner.checkpointing();
}

TrainingFit FitTraining(const v1::RunSpec& spec, uint32_t copies, uint64_t limit_bytes,
                        const OwnPart& own) {
  const v1::InnerSpec& inner = spec.inner();
  const uint32_t least = std::max(inner.accumulation(), 1u);
  const bool divisible = spec.model().decoder().router_loss() == 0;
  const uint32_t most = divisible ? std::max(least, (inner.batch() + copies - 1) / copies) : least;
  const bool may_checkpoint = !inner.checkpointing() && spec.model().lora_rank() == 0;
  v1::RunSpec tried = spec;
  TrainingFit fit;
  fit.recorded = TrainingMemoryOf(spec, copies, own);
  for (int round = 0; round < (may_checkpoint ? 2 : 1); ++round) {
    fit.checkpointing = inner.checkpointing() || round == 1;
    tried.mutable_inner()->set_checkpointing(fit.checkpointing);
    for (uint64_t parts = least;; parts = std::min<uint64_t>(2 * parts, most)) {
      fit.accumulation = static_cast<uint32_t>(parts);
      tried.mutable_inner()->set_accumulation(fit.accumulation);
      fit.needed = TrainingMemoryOf(tried, copies, own);
      fit.fits = limit_bytes == 0 || fit.needed.bytes() <= static_cast<double>(limit_bytes);
      if (fit.fits) return fit;
      if (parts >= most) break;
    }
  }
  return fit;
}

std::string ChangeText(const TrainingFit& fit, const v1::InnerSpec& inner) {
  std::string text;
  if (fit.accumulation != std::max(inner.accumulation(), 1u)) {
    text = absl::StrCat("accumulation = ", fit.accumulation);
  }
  if (fit.checkpointing != inner.checkpointing()) {
    absl::StrAppend(&text, text.empty() ? "" : " and ", "checkpointing = true");
  }
  return text;
}

std::string PriceText(const TrainingFit& fit, const v1::InnerSpec& inner) {
  // As measured (docs/sizing.md).
  if (fit.checkpointing != inner.checkpointing()) {
    return "a step then computes the forward pass twice, which takes about a quarter longer";
  }
  return "a step then takes some per cent longer";
}

std::string MisfitText(const TrainingFit& fit, uint64_t limit_bytes) {
  return absl::StrCat("the training needs about ", InBytes(fit.recorded.bytes()), ", and ",
                      InBytes(fit.needed.bytes()),
                      " even with the smallest pieces and checkpointing, and may have ",
                      InBytes(static_cast<double>(limit_bytes)));
}

}  // namespace atolld
