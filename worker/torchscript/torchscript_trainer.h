// Trains a model that is given as a TorchScript file. The value that its forward(batch...) returns
// is the loss.
//
// The law: the file defines everything. Its trainable parameters are the tensors of the manifest,
// in the order in which the file names them. Parameters that need no gradient, and buffers, which
// are restored after each step, keep the values in the file, and are therefore the same at every
// peer whose file has the run's digest. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "atoll/v1/run.pb.h"
#include "worker/data/arrays.h"
#include "worker/data/sample_order.h"
#include "worker/training/corpus.h"
#include "worker/training/trainer.h"

namespace atolld {

// A party's arrays as training data: maps each sample of each pass to a row, and decides which rows
// are held out.
//
// Immutable. May be used from any thread.
class ArrayCorpus final : public Corpus {
 public:
  enum class Use {
    kRun,     // The last rows are held out.
    kCommon,  // All rows are held out.
  };

  static absl::StatusOr<std::unique_ptr<ArrayCorpus>> Make(const v1::RunSpec& spec,
                                                           std::shared_ptr<const Arrays> arrays,
                                                           Use use = Use::kRun) {
    // A row is treated as a window of one token that needs no next token.
    auto order = SampleOrder::Make(spec.seed(), arrays->train_rows() + 1, 1);
    if (!order.ok()) return order.status();
    return std::unique_ptr<ArrayCorpus>(new ArrayCorpus(std::move(arrays), use, *order));
  }

  uint64_t samples() const override { return order_.windows(); }
  uint64_t TargetsOf(uint64_t /*sample*/) const override { return 1; }
  uint64_t train_tokens() const override { return arrays_->train_rows(); }
  uint64_t validation_tokens() const override {
    return arrays_->validation_rows() + (use_ == Use::kCommon ? arrays_->train_rows() : 0);
  }

  const Arrays& arrays() const { return *arrays_; }
  int64_t Row(uint64_t sample) const { return static_cast<int64_t>(order_.FirstToken(sample)); }
  uint64_t first_held_out() const { return use_ == Use::kCommon ? 0 : arrays_->train_rows(); }

 private:
  ArrayCorpus(std::shared_ptr<const Arrays> arrays, Use use, SampleOrder order)
      : arrays_(std::move(arrays)), use_(use), order_(order) {}

  const std::shared_ptr<const Arrays> arrays_;
  const Use use_;
  const SampleOrder order_;
};

// Makes the trainer of spec.model().file(). Each array of `corpus` is an argument of forward.
// Arrays are assigned to arguments by name if every argument has an array of the same name, and
// otherwise by order. Fails with FAILED_PRECONDITION if the file does not have the run's digest,
// and with INVALID_ARGUMENT if the file is not TorchScript, has no trainable fp32 parameters, takes
// other arguments, or its forward does not return a scalar; the message is one line.
absl::StatusOr<std::unique_ptr<Trainer>> MakeTorchScriptTrainer(
    const v1::RunSpec& spec, std::shared_ptr<const ArrayCorpus> corpus);

}  // namespace atolld
