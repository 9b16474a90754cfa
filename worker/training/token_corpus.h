// A party's tokens as sequences: the place of each sample of each pass, and the windows that are
// evaluated.
//
// The law: both depend only on the run's spec and on the tokens. Private data may be shorter than
// one sequence: its sequences are then as long as it is, since a party with three lines trains too.
// Immutable; any thread.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "atoll/v1/run.pb.h"
#include "worker/data/sample_order.h"
#include "worker/data/training_data.h"
#include "worker/training/corpus.h"

namespace atolld {

class TokenCorpus final : public Corpus {
 public:
  enum class Use {
    kRun,     // the data of a run, or private data if the spec says so
    kCommon,  // all of it is held out: a validation split where it has one, else everything
  };

  // INVALID_ARGUMENT: the tokenizer has more tokens than the model, or a split is too short.
  static absl::StatusOr<std::unique_ptr<TokenCorpus>> Make(const v1::RunSpec& spec,
                                                           std::shared_ptr<const TrainingData> data,
                                                           Use use = Use::kRun);

  uint64_t samples() const override { return order_.samples(); }
  uint64_t sample_tokens() const override { return context_; }
  uint64_t train_tokens() const override { return data_->train_tokens(); }
  uint64_t validation_tokens() const override;

  const TrainingData& data() const { return *data_; }

  // `length` tokens from `first` on, the last of which is only a target.
  struct Row {
    const TokenSpan* split = nullptr;
    uint64_t first = 0;
  };
  Row SampleRow(uint64_t sample) const;
  uint64_t sample_length() const { return context_ + 1; }

  // How often the source that is read most often has been read when all samples below `samples`
  // are.
  double Epochs(uint64_t samples) const { return order_.Epochs(samples); }

  // Of the evaluation: windows that do not overlap, the first of each source, as many as its share
  // of all; at most evaluation.tokens together (0: all).
  uint64_t EvaluationWindows() const;
  Row EvaluationRow(uint64_t index) const;
  uint64_t evaluation_length() const { return evaluation_context_ + 1; }

 private:
  TokenCorpus(const v1::RunSpec& spec, std::shared_ptr<const TrainingData> data, Use use,
              SampleMixture order, uint32_t context);

  const TokenSpan& HeldOut(size_t source) const;
  uint64_t WindowsOf(size_t source) const;
  uint64_t AllWindows() const;

  const std::shared_ptr<const TrainingData> data_;
  const Use use_;
  const SampleMixture order_;
  const uint64_t context_;       // tokens of a sequence: the model's, or fewer
  const uint64_t most_tokens_;   // of an evaluation; 0: any number
  uint64_t evaluation_context_;  // of an evaluated window
};

}  // namespace atolld
