#include "worker/data/training_data.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compression/base/status_macros.h"
#include "worker/base/file_io.h"

namespace atolld {
namespace {

constexpr char kTokenizerLine[] = "tokenizer ";

TokenSource::Options OptionsOf(const v1::DataSpec& spec, uint64_t vocabulary) {
  TokenSource::Options options;
  options.kind = spec.kind();
  options.field = spec.field();
  options.end_of_text = spec.end_of_text();
  options.skip_bad_lines = spec.on_bad_line() == "skip";
  options.chat = {spec.chat_template(), spec.loss_on() == "all", spec.packing() == "join"};
  options.width = spec.width();
  options.vocabulary = vocabulary;
  if (!spec.tokenizer().empty()) options.tokenizer = spec.tokenizer();
  return options;
}

std::string HexOrNone(const std::string& digest) {
  return digest.empty() ? "none" : absl::BytesToHexString(digest);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrainingData>> TrainingData::Open(const v1::DataSpec& spec,
                                                                 const std::string& places,
                                                                 uint64_t vocabulary) {
  TokenSource::Options options = OptionsOf(spec, vocabulary);
  options.validation_fraction = spec.validation_fraction();
  ASSIGN_OR_RETURN(std::unique_ptr<TrainingData> data, OpenWith(spec, places, options));
  data->digest_ = data->sources_[0]->digest();
  if (data->sources_.size() > 1) {
    Sha256Stream all;
    all.Add(absl::StrCat("atoll data mixture 1\n", absl::StrJoin(data->weights_, " "), "\n"));
    for (const auto& source : data->sources_) all.Add(source->digest());
    data->digest_ = all.Finish();
  }
  RETURN_IF_ERROR(data->CheckIsOf(spec));
  return data;
}

absl::StatusOr<std::unique_ptr<TrainingData>> TrainingData::OpenOwn(const v1::DataSpec& spec,
                                                                    const std::string& places,
                                                                    uint64_t vocabulary,
                                                                    const Own& own) {
  TokenSource::Options options = OptionsOf(spec, vocabulary);
  options.validation_fraction = own.validation_fraction;
  options.ready = own.tokenizer;
  options.named = false;
  if (options.tokenizer == "chars" && options.ready == nullptr) {
    return absl::InvalidArgumentError(
        "data: private text needs [data] tokenizer \"bytes\" or a file: each party would number "
        "its \"chars\" in its own way");
  }
  ASSIGN_OR_RETURN(std::unique_ptr<TrainingData> data, OpenWith(spec, places, options));
  RETURN_IF_ERROR(data->CheckTokenizerIsOf(spec));
  return data;
}

absl::StatusOr<std::unique_ptr<TrainingData>> TrainingData::OpenWith(const v1::DataSpec& spec,
                                                                     const std::string& places,
                                                                     TokenSource::Options options) {
  std::unique_ptr<TrainingData> data(new TrainingData);
  for (absl::string_view line : absl::StrSplit(places, '\n')) {
    if (absl::ConsumePrefix(&line, kTokenizerLine)) {
      options.tokenizer = std::string(line);
    } else {
      data->paths_.emplace_back(line);
    }
  }
  data->weights_.assign(spec.weights().begin(), spec.weights().end());
  if (data->weights_.empty()) data->weights_ = {1};
  if (data->weights_.size() != data->paths_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("data: the run mixes ", data->weights_.size(), " sources, here are ",
                     data->paths_.size(), ": name as many, in the run's order, in [data] sources"));
  }
  for (const std::string& path : data->paths_) {
    ASSIGN_OR_RETURN(std::unique_ptr<TokenSource> source, TokenSource::Open(path, options));
    data->sources_.push_back(std::move(source));
  }
  RETURN_IF_ERROR(data->CheckTokenizers());
  return data;
}

absl::StatusOr<std::unique_ptr<TrainingData>> TrainingData::FromText(std::string text,
                                                                     double validation_fraction) {
  std::unique_ptr<TrainingData> data(new TrainingData);
  ASSIGN_OR_RETURN(std::unique_ptr<TokenSource> source,
                   TokenSource::FromText(std::move(text), validation_fraction));
  data->digest_ = source->digest();
  data->sources_.push_back(std::move(source));
  data->weights_ = {1};
  data->paths_ = {"the text"};
  return data;
}

absl::Status TrainingData::CheckTokenizers() const {
  const auto digest_of = [](const TokenSource& source) {
    return source.tokenizer() == nullptr ? "" : source.tokenizer()->digest();
  };
  for (size_t i = 1; i < sources_.size(); ++i) {
    if (digest_of(*sources_[i]) == digest_of(*sources_[0])) continue;
    return absl::InvalidArgumentError(absl::StrCat("data: ", paths_[i],
                                                   " is of another tokenizer than ", paths_[0],
                                                   "; what is mixed must be of one"));
  }
  return absl::OkStatus();
}

absl::Status TrainingData::CheckTokenizerIsOf(const v1::DataSpec& spec) const {
  const std::string here = tokenizer() == nullptr ? "" : tokenizer()->digest();
  if (spec.tokenizer_digest() == here) return absl::OkStatus();
  // Before the first worker has read its data, private data is of nobody's tokenizer.
  if (spec.private_() && spec.tokenizer_digest().empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("data: the tokenizer of ", paths_[0], " has SHA-256 ", HexOrNone(here),
                   "; the run's has ", HexOrNone(spec.tokenizer_digest())));
}

absl::Status TrainingData::CheckIsOf(const v1::DataSpec& spec) const {
  if (spec.digest().empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckTokenizerIsOf(spec));
  if (spec.digest() == digest_) return absl::OkStatus();
  // What was left out here, or stands between documents, may be what differs.
  const std::string all = absl::StrJoin(notes(), "; ");
  return absl::FailedPreconditionError(absl::StrCat(
      "data: ", absl::StrJoin(paths_, ", "), " has SHA-256 ", HexOrNone(digest_),
      "; the run trains on ", HexOrNone(spec.digest()), all.empty() ? "" : "; here ", all));
}

std::vector<std::string> TrainingData::notes() const {
  std::vector<std::string> all;
  for (const auto& source : sources_) {
    for (const std::string& note : source->notes()) {
      if (std::find(all.begin(), all.end(), note) == all.end()) all.push_back(note);
    }
  }
  return all;
}

std::vector<uint64_t> TrainingData::TrainTokens() const {
  std::vector<uint64_t> tokens;
  for (const auto& source : sources_) tokens.push_back(source->train().size());
  return tokens;
}

uint64_t TrainingData::train_tokens() const {
  uint64_t all = 0;
  for (const auto& source : sources_) all += source->train().size();
  return all;
}

uint64_t TrainingData::validation_tokens() const {
  uint64_t all = 0;
  for (const auto& source : sources_) all += source->validation().size();
  return all;
}

}  // namespace atolld
