// One peer's model in training: its parameters, gradient, optimiser and data.
//
// The law: the result of a step depends only on the parameters, the optimiser's state, the step's
// number, the numbers of its samples, the data in use and the terms that terms() adds. Evaluation
// never changes the worker's own parameters. A tensor that is not trained has no gradient and no
// optimiser's state, and costs no memory for them. No function throws: an exception of libtorch
// becomes a Status that names the computation and its shapes. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"
#include "atoll/v1/worker.pb.h"
#include "worker/data/training_data.h"
#include "worker/training/corpus.h"
#include "worker/training/inner_optimizer.h"
#include "worker/training/token_corpus.h"

namespace atolld {

struct EvaluationSum {
  double loss_sum = 0;  // The sum of the losses of all tokens, in nats.
  uint64_t tokens = 0;
};

class GradientTerms;

class Trainer {
 public:
  // `data` must outlive the trainer. `devices` are libtorch's names of the devices. Each device
  // computes a part of each step's batch and of each evaluation; the parameters and the optimiser
  // are on the first. Fails with INVALID_ARGUMENT if the spec breaks a rule, a split is too short
  // for one sequence, or a batch has fewer sequences than there are devices, and with
  // RESOURCE_EXHAUSTED if the model does not fit in a device's memory. All tensors are trained;
  // only if peers own experts in this run, nothing is trained before the first call of Freeze.
  static absl::StatusOr<std::unique_ptr<Trainer>> Make(const v1::RunSpec& spec,
                                                       const TrainingData& data,
                                                       const std::vector<std::string>& devices = {
                                                           "cpu"});
  // Does the same with data of which the trainer shares the ownership.
  static absl::StatusOr<std::unique_ptr<Trainer>> Make(const v1::RunSpec& spec,
                                                       std::shared_ptr<const TokenCorpus> corpus,
                                                       const std::vector<std::string>& devices);
  virtual ~Trainer() = default;

  // From now on trains all tensors but TrainSteps.frozen, from which it reads nothing else.
  // Releases the gradient, and the optimiser's state of frozen tensors; a tensor that is no longer
  // frozen begins with fresh state. SetBase of terms() must follow. Does nothing if the same
  // tensors were trained before. Fails with INVALID_ARGUMENT if the ranges are not whole tensors or
  // leave nothing to train.
  virtual absl::Status Freeze(const v1::TrainSteps& train) = 0;

  // Makes the optimiser have state of just these tensors of the whole vector, by their positions in
  // its manifest. A state that was saved can then be read. Freeze must follow before the next step.
  virtual absl::Status ShapeState(const std::vector<bool>& trained) = 0;

  // The manifest of the tensors that peers exchange; it has no personal tensors.
  virtual const v1::Manifest& manifest() const = 0;

  // Makes later steps and evaluations read this data, which must belong to this kind of trainer.
  // Costs almost nothing. Fails with INVALID_ARGUMENT if the model does not accept the arrays of
  // this data.
  virtual absl::Status Use(std::shared_ptr<const Corpus> corpus) = 0;
  virtual const Corpus& corpus() const = 0;

  // The personal tensors, which follow parameters() in memory and are fetched and pushed together
  // with them; empty if there are none. After Make they hold their initial values, which come from
  // the run's seed or from the model's file.
  virtual absl::Span<float> personal() = 0;

  // The terms that every step adds to its gradient.
  virtual GradientTerms& terms() = 0;

  // The worker's own parameters, in the manifest's order. The caller may write them between calls.
  // If the device is not the CPU, the span is a copy in the CPU's memory: FetchParameters updates
  // it from the device, and PushParameters writes it to the device. On a CPU both do nothing.
  virtual absl::Span<float> parameters() = 0;
  virtual absl::Status FetchParameters() = 0;
  virtual absl::Status PushParameters() = 0;

  // Sets the parameters to their initial values, which come from the run's seed or from the file of
  // the model with which the run begins.
  virtual absl::Status Initialise() = 0;

  // Takes inner step number `step` of the run's schedule on the samples with these numbers. Each
  // device computes its part in `inner.accumulation` pieces. Returns the mean loss before the step,
  // in nats per token. Fails with FAILED_PRECONDITION if the loss or the gradient is not finite
  // (the message names the step); the parameters are then unchanged. Fails with INVALID_ARGUMENT if
  // there are fewer samples than devices, except with private data, where some devices may have no
  // sample.
  virtual absl::StatusOr<double> Step(uint64_t step, absl::Span<const uint64_t> samples) = 0;

  // The gradient of the last step before clipping, of the tensors that are trained
  // (trained_tensors.h), including personal tensors; empty if the device is not the CPU.
  virtual absl::Span<const float> gradient() const = 0;

  // Returns the loss of `theta` on one of `shares` equal parts of the evaluation set. The
  // evaluation set consists of the non-overlapping windows of `context` tokens in the first
  // evaluation.tokens tokens of the validation split (0 means all of it). Dropout is off, and
  // personal() is used with `theta`. `stop` is called between batches; if it returns true, this
  // fails with CANCELLED.
  absl::StatusOr<EvaluationSum> Evaluate(absl::Span<const float> theta, uint32_t share,
                                         uint32_t shares, const std::function<bool()>& stop) {
    return EvaluateOn(corpus(), theta, personal(), share, shares, stop);
  }

  // Does the same as Evaluate, but with the given data and personal tensors.
  virtual absl::StatusOr<EvaluationSum> EvaluateOn(const Corpus& corpus,
                                                   absl::Span<const float> theta,
                                                   absl::Span<const float> personal, uint32_t share,
                                                   uint32_t shares,
                                                   const std::function<bool()>& stop) = 0;

  virtual InnerOptimizer& optimizer() = 0;

  // FetchState copies the optimiser's state from the device to the CPU's memory, and PushState
  // copies it back. The state covers all tensors that are trained, including the personal ones.
  virtual absl::Status FetchState() = 0;
  virtual absl::Status PushState() = 0;

  // Returns how many times the source that is read most often has been read once every sample with
  // a number below `samples` has been read.
  virtual double Epochs(uint64_t samples) const = 0;
};

}  // namespace atolld
