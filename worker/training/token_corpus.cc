#include "worker/training/token_corpus.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"

namespace atolld {
namespace {

// Of `evaluated` windows those that fall to the first `some` of `all`.
uint64_t PartOfWindows(uint64_t evaluated, uint64_t some, uint64_t all) {
  return some == all ? evaluated
                     : static_cast<uint64_t>(static_cast<double>(evaluated) *
                                             static_cast<double>(some) / static_cast<double>(all));
}

// One source of private tokens may be too short for the model's context.
uint32_t ContextOf(const v1::RunSpec& spec, const TrainingData& data) {
  const uint32_t context = spec.model().context();
  const uint64_t tokens = data.train_tokens();
  if (!spec.data().private_() || data.sources() > 1 || tokens < 2) return context;
  return static_cast<uint32_t>(std::min<uint64_t>(context, tokens - 1));
}

absl::Status CheckSplits(const v1::RunSpec& spec, const TrainingData& data, TokenCorpus::Use use) {
  const Tokenizer* tokenizer = data.tokenizer();
  if (tokenizer != nullptr && spec.model().vocabulary() < tokenizer->vocabulary()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.vocabulary is ", spec.model().vocabulary(), "; tokenizer \"",
                     tokenizer->kind(), "\" needs ", tokenizer->vocabulary()));
  }
  if (use == TokenCorpus::Use::kCommon || spec.data().private_()) return absl::OkStatus();
  const uint64_t validation = data.validation_tokens(), context = spec.model().context();
  if (spec.data().validation_fraction() <= 0 || validation >= context + 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("data: the validation split has ",
                                                 Counted(validation, "token"),
                                                 "; one sequence needs ", context + 1));
}

}  // namespace

TokenCorpus::TokenCorpus(const v1::RunSpec& spec, std::shared_ptr<const TrainingData> data, Use use,
                         SampleMixture order, uint32_t context)
    : data_(std::move(data)),
      use_(use),
      order_(std::move(order)),
      context_(context),
      most_tokens_(spec.evaluation().tokens()),
      evaluation_context_(spec.model().context()) {
  const bool may_be_short = spec.data().private_() && data_->sources() == 1;
  const uint64_t held_out = HeldOut(0).size();
  if (may_be_short && held_out >= 2) {
    evaluation_context_ = std::min(evaluation_context_, held_out - 1);
  }
}

absl::StatusOr<std::unique_ptr<TokenCorpus>> TokenCorpus::Make(
    const v1::RunSpec& spec, std::shared_ptr<const TrainingData> data, Use use) {
  RETURN_IF_ERROR(CheckSplits(spec, *data, use));
  const uint32_t context = ContextOf(spec, *data);
  auto order = SampleMixture::Make(spec.seed(), data->TrainTokens(), data->weights(), context);
  RETURN_IF_ERROR(Annotate(order.status(), "data"));
  std::unique_ptr<TokenCorpus> corpus(
      new TokenCorpus(spec, std::move(data), use, *std::move(order), context));
  if (use == Use::kCommon && corpus->EvaluationWindows() == 0) {
    return absl::InvalidArgumentError(absl::StrCat("data: the common validation set has ",
                                                   Counted(corpus->validation_tokens(), "token"),
                                                   "; one sequence needs ", context + 1));
  }
  return corpus;
}

const TokenSpan& TokenCorpus::HeldOut(size_t source) const {
  const TokenSource& one = data_->source(source);
  const bool all = use_ == Use::kCommon && one.validation().size() == 0;
  return all ? one.train() : one.validation();
}

uint64_t TokenCorpus::validation_tokens() const {
  uint64_t all = 0;
  for (size_t i = 0; i < data_->sources(); ++i) all += HeldOut(i).size();
  return all;
}

TokenCorpus::Row TokenCorpus::SampleRow(uint64_t sample) const {
  const SampleMixture::Place place = order_.Of(sample);
  return {&data_->source(place.source).train(), place.first_token};
}

// Each window needs a next token.
uint64_t TokenCorpus::WindowsOf(size_t source) const {
  const uint64_t available = HeldOut(source).size();
  return available == 0 ? 0 : (available - 1) / evaluation_context_;
}

uint64_t TokenCorpus::AllWindows() const {
  uint64_t all = 0;
  for (size_t i = 0; i < data_->sources(); ++i) all += WindowsOf(i);
  return all;
}

uint64_t TokenCorpus::EvaluationWindows() const {
  const uint64_t all = AllWindows();
  if (most_tokens_ == 0) return all;
  return std::min(all, std::max<uint64_t>(1, most_tokens_ / evaluation_context_));
}

TokenCorpus::Row TokenCorpus::EvaluationRow(uint64_t index) const {
  const uint64_t all = AllWindows(), evaluated = EvaluationWindows();
  uint64_t before = 0;
  for (size_t i = 0;; ++i) {
    const uint64_t end = before + WindowsOf(i);
    const uint64_t first = PartOfWindows(evaluated, before, all);
    const uint64_t past = PartOfWindows(evaluated, end, all);
    if (index < past || i + 1 == data_->sources()) {
      return {&HeldOut(i), (index - first) * evaluation_context_};
    }
    before = end;
  }
}

}  // namespace atolld
