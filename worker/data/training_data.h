// All that a run trains on: one source of tokens, or several that are mixed by weight.
//
// Immutable; any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"
#include "worker/data/token_source.h"

namespace atolld {

class TrainingData {
 public:
  // `places` is what Configure.data_path says (worker.proto). `vocabulary` is the model's.
  // INVALID_ARGUMENT: as TokenSource; not as many sources as the run has weights; sources of
  // different tokenizers. FAILED_PRECONDITION: another tokenizer or other data than the run's.
  static absl::StatusOr<std::unique_ptr<TrainingData>> Open(const v1::DataSpec& spec,
                                                            const std::string& places,
                                                            uint64_t vocabulary);

  // Of bytes that are in memory.
  static absl::StatusOr<std::unique_ptr<TrainingData>> FromText(std::string text,
                                                                double validation_fraction);

  size_t sources() const { return sources_.size(); }
  const TokenSource& source(size_t index) const { return *sources_[index]; }
  absl::Span<const double> weights() const { return weights_; }

  // What its owner should know, of all sources, each once: as TokenSource's.
  std::vector<std::string> notes() const;

  // The number of training tokens of each source.
  std::vector<uint64_t> TrainTokens() const;

  uint64_t train_tokens() const;
  uint64_t validation_tokens() const;

  // Of one source its own; of several a digest of theirs and the weights.
  const std::string& digest() const { return digest_; }

  // Null: not known here.
  const Tokenizer* tokenizer() const { return sources_[0]->tokenizer(); }

 private:
  TrainingData() = default;
  absl::Status CheckTokenizers() const;
  absl::Status CheckIsOf(const v1::DataSpec& spec) const;

  std::vector<std::unique_ptr<TokenSource>> sources_;
  std::vector<double> weights_;
  std::vector<std::string> paths_;  // for messages
  std::string digest_;
};

}  // namespace atolld
