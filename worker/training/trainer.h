// One peer's model in training: parameters, gradient, optimiser and the data they see.
//
// The law: a step depends only on the parameters, the optimiser's state, the step's number, its
// sample numbers, the data in use and what terms() adds. Evaluation never touches the worker's own
// parameters. No call throws: what libtorch throws comes back as a Status that names what was being
// computed and its shapes. One thread at a time.
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
#include "worker/data/training_data.h"
#include "worker/training/corpus.h"
#include "worker/training/inner_optimizer.h"
#include "worker/training/token_corpus.h"

namespace atolld {

struct EvaluationSum {
  double loss_sum = 0;  // nats over all tokens
  uint64_t tokens = 0;
};

class GradientTerms;

class Trainer {
 public:
  // `data` must outlive the trainer. `devices` are libtorch's names of those that compute a part of
  // each step's batch and of each evaluation; parameters and optimiser are on the first.
  // INVALID_ARGUMENT: the spec breaks a rule, a split is too short for one sequence, or a batch has
  // fewer sequences than there are devices. RESOURCE_EXHAUSTED: a device's memory does not hold the
  // model.
  static absl::StatusOr<std::unique_ptr<Trainer>> Make(const v1::RunSpec& spec,
                                                       const TrainingData& data,
                                                       const std::vector<std::string>& devices = {
                                                           "cpu"});
  // The same, with data that is the trainer's to keep.
  static absl::StatusOr<std::unique_ptr<Trainer>> Make(const v1::RunSpec& spec,
                                                       std::shared_ptr<const TokenCorpus> corpus,
                                                       const std::vector<std::string>& devices);
  virtual ~Trainer() = default;

  // Of what peers exchange: without personal tensors.
  virtual const v1::Manifest& manifest() const = 0;

  // From now on steps and evaluations read this data, which must be of this trainer's kind. Costs
  // next to nothing. INVALID_ARGUMENT: arrays that are not what the model takes.
  virtual absl::Status Use(std::shared_ptr<const Corpus> corpus) = 0;
  virtual const Corpus& corpus() const = 0;

  // The personal tensors, which lie behind parameters() and move with them; empty: there are none.
  // Since Make they hold what the run's seed, or the model's file, begins with.
  virtual absl::Span<float> personal() = 0;

  // What every step adds to its gradient.
  virtual GradientTerms& terms() = 0;

  // The worker's own parameters, in the manifest's order; the caller may write them between calls.
  // Where the device is not the CPU they lie there: FetchParameters brings them here, and what was
  // written here counts after PushParameters. On a CPU both do nothing.
  virtual absl::Span<float> parameters() = 0;
  virtual absl::Status FetchParameters() = 0;
  virtual absl::Status PushParameters() = 0;

  // Makes the initial parameters: of the run's seed, or those of the file that it begins with.
  virtual absl::Status Initialise() = 0;

  // One inner step of the run's schedule on the given samples, one sequence each, computed in
  // `inner.accumulation` parts on each device. Returns the mean loss in nats a token, from before
  // the step. FAILED_PRECONDITION: loss or gradient is not finite (named with the step); the
  // parameters are as before. INVALID_ARGUMENT: fewer samples than devices, but for private data,
  // of which some devices may have none.
  virtual absl::StatusOr<double> Step(uint64_t step, absl::Span<const uint64_t> samples) = 0;

  // The gradient of the last step, before clipping, of personal tensors too; empty where the device
  // is not the CPU.
  virtual absl::Span<const float> gradient() const = 0;

  // Loss of `theta` on one of `shares` equal parts of the evaluation set: the non-overlapping
  // windows of `context` tokens in the first evaluation.tokens of the validation split (0: all).
  // Dropout off, and the personal tensors beside `theta`. CANCELLED: `stop` returned true; it is
  // asked between batches.
  absl::StatusOr<EvaluationSum> Evaluate(absl::Span<const float> theta, uint32_t share,
                                         uint32_t shares, const std::function<bool()>& stop) {
    return EvaluateOn(corpus(), theta, personal(), share, shares, stop);
  }

  // The same of other data, and with other personal tensors.
  virtual absl::StatusOr<EvaluationSum> EvaluateOn(const Corpus& corpus,
                                                   absl::Span<const float> theta,
                                                   absl::Span<const float> personal, uint32_t share,
                                                   uint32_t shares,
                                                   const std::function<bool()>& stop) = 0;

  virtual InnerOptimizer& optimizer() = 0;

  // The optimiser's state, as FetchParameters and PushParameters; of the whole vector, in which the
  // personal tensors come last.
  virtual absl::Status FetchState() = 0;
  virtual absl::Status PushState() = 0;

  // How often the source that is read most often has been read when all samples below `samples`
  // are.
  virtual double Epochs(uint64_t samples) const = 0;
};

}  // namespace atolld
