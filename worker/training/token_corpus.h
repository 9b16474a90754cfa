// A party's tokens as sequences: it finds the sequence of each sample of each pass, and the windows
// for evaluation.
//
// The law: sequences and windows depend only on the run's spec and on the tokens. If private data
// is shorter than one sequence, its sequences are as long as the data, so that a party with three
// lines can train. Each conversation is one sequence, cut to the model's context. It is left out if
// the rest has no token that is learnt. If DataSpec.packing is "join", conversations are instead
// read like any other text, in which only some tokens count. Immutable. May be used from any
// thread.
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
    kRun,  // The training data of a run; it is private data if the spec says so.
    // Data that is only evaluated: the validation split of each source that has one, and the whole
    // of each other source.
    kCommon,
  };

  // Fails with INVALID_ARGUMENT if the tokenizer has more tokens than the model, or if a split is
  // too short or has no conversation with a token that is learnt.
  static absl::StatusOr<std::unique_ptr<TokenCorpus>> Make(const v1::RunSpec& spec,
                                                           std::shared_ptr<const TrainingData> data,
                                                           Use use = Use::kRun);

  uint64_t samples() const override { return order_.samples(); }
  uint64_t TargetsOf(uint64_t sample) const override { return SampleRow(sample).Targets(); }
  uint64_t train_tokens() const override { return data_->train_tokens(); }
  uint64_t validation_tokens() const override;

  const TrainingData& data() const { return *data_; }

  // The tokens of a source that are evaluated, and their marks; null if every token counts.
  const TokenSpan& HeldOut(size_t source) const;
  const TokenMarks* HeldOutMarks(size_t source) const;

  // Sentences for the data's owner about the conversations that were cut or left out.
  const std::vector<std::string>& notes() const { return notes_; }

  // The `length` tokens of a split that begin at `first`. The last token is only a target.
  struct Row {
    const TokenSpan* split = nullptr;
    uint64_t first = 0;
    uint64_t length = 0;
    // The marks of the split, which say which targets count; null if every target counts.
    const TokenMarks* marks = nullptr;

    uint64_t Targets() const;  // Returns how many targets count.
  };
  Row SampleRow(uint64_t sample) const;

  // Returns how many times the source that is read most often has been read once every sample with
  // a number below `samples` has been read.
  double Epochs(uint64_t samples) const { return order_.Epochs(samples); }

  // EvaluationWindows returns the number of windows for evaluation, and EvaluationRow returns one
  // of them. Windows do not overlap. Each source contributes a number of windows in proportion to
  // its length, taken from its start. Together they have at most evaluation.tokens tokens; 0 means
  // no limit.
  uint64_t EvaluationWindows() const;
  Row EvaluationRow(uint64_t index) const;
  // The length of the longest window.
  uint64_t evaluation_length() const { return evaluation_context_ + 1; }

 private:
  // The numbers of the conversations of one source that are used as sequences.
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
  uint64_t WindowsOf(size_t source) const;
  uint64_t AllWindows() const;

  const std::shared_ptr<const TrainingData> data_;
  const Use use_;
  const SampleMixture order_;
  // The number of tokens in a sequence: the model's context, or fewer if the data is shorter.
  const uint64_t context_;
  // The largest number of tokens that are evaluated; 0 means no limit.
  const uint64_t most_tokens_;
  uint64_t evaluation_context_;  // The number of tokens in an evaluated window.
  // One element for each source; empty if sequences are windows of the text.
  std::vector<Chats> chats_;
  std::vector<std::string> notes_;
};

}  // namespace atolld
