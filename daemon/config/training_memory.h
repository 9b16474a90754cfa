// Training memory: computes how much memory a worker of ours needs for a run before it is started,
// and what makes a run fit that does not.
//
// The peak of the resident memory (VmHWM) of a worker that trains on a CPU is the sum of
//
//   base    the program and libtorch, before any model
//   state   4 bytes a parameter for each vector of the model's size: parameters and gradient (on
//           each device), the optimiser's moments (two, none with "sgd"), the base of the round,
//           and the two slots that are shared with the daemon; more with control variates,
//           proximal terms and mode "eager". With adapters these vectors have the adapters' size,
//           and the base model is one more. If peers own experts, gradient and moments have the
//           shared tensors and, of E experts, the ceil(E owners / peers) that a peer may own.
//   step    1.4 heap + mapped, each of them the greatest of four moments: the top of the backward
//           pass (what all blocks keep, the logits and their gradient), the backward pass of the
//           last block (what all blocks keep, and its own gradients), an evaluation (one block and
//           the logits of 1024 tokens), and a step of Muon
//
// A block keeps the tensors that the backward passes of its operations refer to: those of
// worker/kernels/fused.cc in fp32 on a CPU, and libtorch's with bf16, dropout or capped scores. For
// each token, with width W, hidden width F, queries Q and keys K wide, in fp32:
//
//   gpt     5 W (input, two norms, attention, middle) + 3 W (q, k, v) + 2 F (slope, activation)
//   llama   4 W (input, two norms, middle) + 2 Q + 2 K (rotated q and k, v, attention) + 3 F
//   mixture in place of 3 F, with k experts for each token: k (3 F + 2 W)
//   libtorch's attention instead: heads x context for each matrix of weights that is kept
//
// With checkpointing a block keeps its input, and only one block at a time has the rest.
//
// The worker's heap never shrinks, so its peaks of different moments count even if they are not at
// the same time. The factor 1.4 is what it loses between blocks of memory, as measured; it is 3.4
// for a block that is computed again with checkpointing. Tensors of 32 MiB or more are mapped and
// given back, so they lose nothing. docs/sizing.md has the comparison with measured peaks. Pure.
// May be called from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "atoll/v1/run.pb.h"

namespace atolld {

struct TrainingMemory {
  double base_bytes = 0, state_bytes = 0, step_bytes = 0;  // as described above

  double bytes() const { return base_bytes + state_bytes + step_bytes; }
};

// Returns true if TrainingMemoryOf knows what a worker needs: a model of kind "gpt", "gpt2" or
// "llama" (of a family that this release knows) on CPUs. `device` is [worker] device; with "auto"
// the worker is taken to find no GPU.
bool KnowsTrainingMemory(const v1::ModelSpec& model, absl::string_view device);

// Returns the number of devices that [worker] device names, each with a copy of the model.
uint32_t CopiesOn(absl::string_view device);

// What a worker trains of a model that peers divide.
struct OwnPart {
  // If peers own experts, this many divide them; with 1, which is right where their number is not
  // known, a worker trains all.
  uint32_t peers = 1;
  // If adapters have slices, the first ranks that it trains ([worker] lora_rank); 0 means all.
  uint32_t lora_rank = 0;
};

// Computes the memory of a worker with `copies` copies of the model, which share each batch. The
// spec must be valid, and KnowsTrainingMemory true.
TrainingMemory TrainingMemoryOf(const v1::RunSpec& spec, uint32_t copies, const OwnPart& own = {});

// How a worker computes its steps within a limit.
struct TrainingFit {
  bool fits = false;
  uint32_t accumulation = 1;   // in place of inner.accumulation
  bool checkpointing = false;  // in place of inner.checkpointing
  TrainingMemory recorded;     // what the run's record asks for
  TrainingMemory needed;       // what these two need; the least possible if it does not fit

  // Returns true if they are not those of the record.
  bool changed(const v1::InnerSpec& inner) const;
};

// Returns the smallest change of inner.accumulation and inner.checkpointing with which the training
// needs at most `limit_bytes`; 0 means no limit. `own` is that of TrainingMemoryOf. Accumulation
// is doubled first, up to the sequences that a copy has, because it costs least; then blocks are
// checkpointed, with as little accumulation as then suffices.
//
// Both compute the same mean gradient of the same samples, rounded differently, so each machine may
// choose for itself. Only the balance loss of routers is one of the whole piece that is computed at
// once, so a run with model.decoder.router_loss keeps its accumulation. Adapters keep their
// activations, so they are never checkpointed.
TrainingFit FitTraining(const v1::RunSpec& spec, uint32_t copies, uint64_t limit_bytes,
                        const OwnPart& own = {});

// Returns "accumulation = 4 and checkpointing = true", naming only what differs from the record.
std::string ChangeText(const TrainingFit& fit, const v1::InnerSpec& inner);

// Returns what the change costs in speed, as a clause.
std::string PriceText(const TrainingFit& fit, const v1::InnerSpec& inner);

// Returns why a training cannot be made to fit, with the numbers: "the training needs 3.2 GB ...".
std::string MisfitText(const TrainingFit& fit, uint64_t limit_bytes);

}  // namespace atolld
