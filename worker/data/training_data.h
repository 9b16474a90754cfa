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
  // Of what others know nothing of: private data, or a run's common held-out data beside it.
  struct Own {
    // Null: as the places and the spec say.
    std::shared_ptr<const Tokenizer> tokenizer;
    double validation_fraction = 0;
  };
  // `places` is what Configure.data_path says (worker.proto). `vocabulary` is the model's.
  // INVALID_ARGUMENT: as TokenSource; not as many sources as the run has weights; sources of
  // different tokenizers. FAILED_PRECONDITION: another tokenizer or other data than the run's.
  static absl::StatusOr<std::unique_ptr<TrainingData>> Open(const v1::DataSpec& spec,
                                                            const std::string& places,
                                                            uint64_t vocabulary);

  // Data that has no name in the run: no digest is made or compared, but a tokenizer's file is the
  // run's where that names one. INVALID_ARGUMENT: also a table of characters, which every party
  // would number in its own way.
  static absl::StatusOr<std::unique_ptr<TrainingData>> OpenOwn(const v1::DataSpec& spec,
                                                               const std::string& places,
                                                               uint64_t vocabulary, const Own& own);

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

  // Of one source its own; of several a digest of theirs and the weights; empty for OpenOwn.
  const std::string& digest() const { return digest_; }

  // Null: not known here.
  const Tokenizer* tokenizer() const { return sources_[0]->tokenizer(); }
  const std::shared_ptr<const Tokenizer>& shared_tokenizer() const {
    return sources_[0]->shared_tokenizer();
  }

 private:
  TrainingData() = default;
  static absl::StatusOr<std::unique_ptr<TrainingData>> OpenWith(const v1::DataSpec& spec,
                                                                const std::string& places,
                                                                TokenSource::Options options);
  absl::Status CheckTokenizers() const;
  absl::Status CheckTokenizerIsOf(const v1::DataSpec& spec) const;
  absl::Status CheckIsOf(const v1::DataSpec& spec) const;

  std::vector<std::unique_ptr<TokenSource>> sources_;
  std::vector<double> weights_;
  std::vector<std::string> paths_;  // for messages
  std::string digest_;
};

}  // namespace atolld
