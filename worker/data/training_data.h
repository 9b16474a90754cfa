// All training data of a run: one source of tokens, or several sources that are mixed by weight.
//
// Immutable. May be used from any thread.
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
  // Options of data that is not part of the run's spec: private data, or the common held-out data
  // of a run with private data.
  struct Own {
    // The tokenizer; if null, it is the one that the places or the spec name.
    std::shared_ptr<const Tokenizer> tokenizer;
    double validation_fraction = 0;
  };
  // `places` is Configure.data_path (worker.proto). `vocabulary` is the size of the model's
  // vocabulary. Fails with the errors of TokenSource::Open; with INVALID_ARGUMENT if the number of
  // sources differs from the number of the run's weights, or the sources have different tokenizers;
  // and with FAILED_PRECONDITION if the tokenizer or the data is not that of the run.
  static absl::StatusOr<std::unique_ptr<TrainingData>> Open(const v1::DataSpec& spec,
                                                            const std::string& places,
                                                            uint64_t vocabulary);

  // Opens data that the run does not identify by a digest, so that no digest is computed or
  // compared. If the run names a tokenizer's file, the data must use that file. Fails with the
  // errors of Open, and with INVALID_ARGUMENT if the tokenizer is a table of characters, because
  // every party would number the characters differently.
  static absl::StatusOr<std::unique_ptr<TrainingData>> OpenOwn(const v1::DataSpec& spec,
                                                               const std::string& places,
                                                               uint64_t vocabulary, const Own& own);

  // Makes data from a text in memory, whose tokens are its bytes.
  static absl::StatusOr<std::unique_ptr<TrainingData>> FromText(std::string text,
                                                                double validation_fraction);

  size_t sources() const { return sources_.size(); }
  const TokenSource& source(size_t index) const { return *sources_[index]; }
  absl::Span<const double> weights() const { return weights_; }

  // Returns the notes of all sources for the data's owner, without duplicates.
  std::vector<std::string> notes() const;

  // Returns the number of training tokens of each source.
  std::vector<uint64_t> TrainTokens() const;

  uint64_t train_tokens() const;
  uint64_t validation_tokens() const;

  // The digest of the data. If there is only one source it is the source's digest; otherwise it is
  // a digest of the sources' digests and the weights. Empty if OpenOwn made this object.
  const std::string& digest() const { return digest_; }

  // The tokenizer of the data; null if it is not known.
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
  std::vector<std::string> paths_;  // The paths of the sources, for messages.
  std::string digest_;
};

}  // namespace atolld
