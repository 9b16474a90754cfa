// A party's tokens as sequences: the place of each sample of each pass, and the windows that are
// evaluated.
//
// The law: both depend only on the run's spec and on the tokens. Private data may be shorter than
// one sequence: its sequences are then as long as it is, since a party with three lines trains too.
// Of conversations each is a sequence, cut to the model's context, and one of which nothing that is
// learnt is left is none; with DataSpec.packing "join" they are a text like others, of which only
// some tokens count. Immutable; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

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

  // INVALID_ARGUMENT: the tokenizer has more tokens than the model, a split is too short, or has no
  // conversation of which something is learnt.
  static absl::StatusOr<std::unique_ptr<TokenCorpus>> Make(const v1::RunSpec& spec,
                                                           std::shared_ptr<const TrainingData> data,
                                                           Use use = Use::kRun);

  uint64_t samples() const override { return order_.samples(); }
  uint64_t TargetsOf(uint64_t sample) const override { return SampleRow(sample).Targets(); }
  uint64_t train_tokens() const override { return data_->train_tokens(); }
  uint64_t validation_tokens() const override;

  const TrainingData& data() const { return *data_; }

  // What its owner should know of conversations that were cut or left out, a sentence each.
  const std::vector<std::string>& notes() const { return notes_; }

  // `length` tokens from `first` on, the last of which is only a target.
  struct Row {
    const TokenSpan* split = nullptr;
    uint64_t first = 0;
    uint64_t length = 0;
    const TokenMarks* marks = nullptr;  // of the split; null: every target counts

    uint64_t Targets() const;  // that count
  };
  Row SampleRow(uint64_t sample) const;

  // How often the source that is read most often has been read when all samples below `samples`
  // are.
  double Epochs(uint64_t samples) const { return order_.Epochs(samples); }

  // Of the evaluation: windows that do not overlap, the first of each source, as many as its share
  // of all; at most evaluation.tokens together (0: all).
  uint64_t EvaluationWindows() const;
  Row EvaluationRow(uint64_t index) const;
  uint64_t evaluation_length() const { return evaluation_context_ + 1; }  // the longest

 private:
  // Of one source, the conversations that are sequences of their own.
  struct Chats {
    std::vector<uint64_t> train, held_out;
  };

  TokenCorpus(const v1::RunSpec& spec, std::shared_ptr<const TrainingData> data, Use use,
              SampleMixture order, uint32_t context);

  static Row ChatRow(const TokenSpan& split, const TokenMarks& marks, uint64_t chat,
                     uint64_t most_tokens);
  static absl::StatusOr<std::vector<Chats>> FindChats(const v1::RunSpec& spec,
                                                      const TrainingData& data, Use use,
                                                      std::vector<std::string>* notes);

  bool AllIsHeldOut(size_t source) const;
  const TokenSpan& HeldOut(size_t source) const;
  const TokenMarks* HeldOutMarks(size_t source) const;
  uint64_t WindowsOf(size_t source) const;
  uint64_t AllWindows() const;

  const std::shared_ptr<const TrainingData> data_;
  const Use use_;
  const SampleMixture order_;
  const uint64_t context_;       // tokens of a sequence: the model's, or fewer
  const uint64_t most_tokens_;   // of an evaluation; 0: any number
  uint64_t evaluation_context_;  // of an evaluated window
  std::vector<Chats> chats_;     // of each source; none: sequences are windows
  std::vector<std::string> notes_;
};

}  // namespace atolld
