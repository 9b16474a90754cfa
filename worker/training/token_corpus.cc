#include "worker/training/token_corpus.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"

namespace atolld {
namespace {

// Returns how many of `evaluated` windows fall to the first `some` of `all`.
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

// Returns true if each conversation is a sequence.
bool OwnSequences(const v1::RunSpec& spec, const TrainingData& data) {
  return data.source(0).train_marks() != nullptr && spec.data().packing() != "join";
}

absl::Status CheckSplits(const v1::RunSpec& spec, const TrainingData& data, TokenCorpus::Use use) {
  const Tokenizer* tokenizer = data.tokenizer();
  if (tokenizer != nullptr && spec.model().vocabulary() < tokenizer->vocabulary()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.vocabulary is ", spec.model().vocabulary(), "; tokenizer \"",
                     tokenizer->kind(), "\" needs ", tokenizer->vocabulary()));
  }
  if (use == TokenCorpus::Use::kCommon || spec.data().private_() || OwnSequences(spec, data)) {
    return absl::OkStatus();
  }
  const uint64_t validation = data.validation_tokens(), context = spec.model().context();
  if (spec.data().validation_fraction() <= 0 || validation >= context + 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("data: the validation split has ",
                                                 Counted(validation, "token"),
                                                 "; one sequence needs ", context + 1));
}

}  // namespace

uint64_t TokenCorpus::Row::Targets() const {
  if (marks == nullptr) return length - 1;
  const auto begin = marks->learnt.begin() + static_cast<std::ptrdiff_t>(first);
  return static_cast<uint64_t>(
      std::count(begin + 1, begin + static_cast<std::ptrdiff_t>(length), true));
}

TokenCorpus::Row TokenCorpus::ChatRow(const TokenSpan& split, const TokenMarks& marks,
                                      uint64_t chat, uint64_t most_tokens) {
  const uint64_t first = marks.begins[chat];
  return {&split, first, std::min(most_tokens, marks.begins[chat + 1] - first), &marks};
}

absl::StatusOr<std::vector<TokenCorpus::Chats>> TokenCorpus::FindChats(
    const v1::RunSpec& spec, const TrainingData& data, Use use, std::vector<std::string>* notes) {
  const uint64_t most = uint64_t{spec.model().context()} + 1;
  uint64_t cut = 0, lost = 0;
  const auto find = [&](const TokenSpan& split, const TokenMarks& marks) {
    std::vector<uint64_t> found;
    for (uint64_t chat = 0; chat < marks.conversations(); ++chat) {
      const Row row = ChatRow(split, marks, chat, most);
      if (row.length < 2 || row.Targets() == 0) {
        ++lost;
        continue;
      }
      if (marks.begins[chat + 1] - row.first > most) ++cut;
      found.push_back(chat);
    }
    return found;
  };
  std::vector<Chats> chats;
  for (size_t i = 0; i < data.sources(); ++i) {
    const TokenSource& source = data.source(i);
    chats.push_back({find(source.train(), *source.train_marks()),
                     find(source.validation(), *source.validation_marks())});
    const bool tests =
        use == Use::kRun && !spec.data().private_() && spec.data().validation_fraction() > 0;
    if (!chats[i].train.empty() && !(tests && chats[i].held_out.empty())) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "data: the ", chats[i].train.empty() ? "training" : "validation",
        " split has no conversation with anything to learn in its first ", most,
        " tokens, which are what [model] context = ", spec.model().context(), " holds"));
  }
  if (cut > 0) {
    notes->push_back(absl::StrCat(Counted(cut, "conversation is", "conversations are"),
                                  " longer than [model] context and cut there"));
  }
  if (lost > 0) {
    notes->push_back(absl::StrCat(Counted(lost, "conversation was", "conversations were"),
                                  " left out: nothing in [model] context is learnt"));
  }
  return chats;
}

TokenCorpus::TokenCorpus(const v1::RunSpec& spec, std::shared_ptr<const TrainingData> data, Use use,
                         SampleMixture order, uint32_t context)
    : data_(std::move(data)),
      use_(use),
      order_(std::move(order)),
      context_(context),
      most_tokens_(spec.evaluation().tokens()),
      evaluation_context_(spec.model().context()) {
  const bool may_be_short =
      spec.data().private_() && data_->sources() == 1 && !OwnSequences(spec, *data_);
  const uint64_t held_out = HeldOut(0).size();
  if (may_be_short && held_out >= 2) {
    evaluation_context_ = std::min(evaluation_context_, held_out - 1);
  }
}

absl::StatusOr<std::unique_ptr<TokenCorpus>> TokenCorpus::Make(
    const v1::RunSpec& spec, std::shared_ptr<const TrainingData> data, Use use) {
  RETURN_IF_ERROR(CheckSplits(spec, *data, use));
  std::vector<Chats> chats;
  std::vector<std::string> notes;
  std::vector<uint64_t> tokens = data->TrainTokens();
  uint32_t context = ContextOf(spec, *data), window = context;
  if (OwnSequences(spec, *data)) {
    ASSIGN_OR_RETURN(chats, FindChats(spec, *data, use, &notes));
    // Each is a window of one place that needs no next one.
    for (size_t i = 0; i < chats.size(); ++i) tokens[i] = chats[i].train.size() + 1;
    context = spec.model().context();
    window = 1;
  }
  auto order = SampleMixture::Make(spec.seed(), tokens, data->weights(), window);
  RETURN_IF_ERROR(Annotate(order.status(), "data"));
  std::unique_ptr<TokenCorpus> corpus(
      new TokenCorpus(spec, std::move(data), use, *std::move(order), context));
  corpus->chats_ = std::move(chats);
  corpus->notes_ = std::move(notes);
  if (use == Use::kCommon && corpus->EvaluationWindows() == 0) {
    return absl::InvalidArgumentError(absl::StrCat("data: the common validation set has ",
                                                   Counted(corpus->validation_tokens(), "token"),
                                                   "; one sequence needs ", context + 1));
  }
  return corpus;
}

bool TokenCorpus::AllIsHeldOut(size_t source) const {
  return use_ == Use::kCommon && data_->source(source).validation().size() == 0;
}

const TokenSpan& TokenCorpus::HeldOut(size_t source) const {
  const TokenSource& one = data_->source(source);
  return AllIsHeldOut(source) ? one.train() : one.validation();
}

const TokenMarks* TokenCorpus::HeldOutMarks(size_t source) const {
  const TokenSource& one = data_->source(source);
  return AllIsHeldOut(source) ? one.train_marks() : one.validation_marks();
}

uint64_t TokenCorpus::validation_tokens() const {
  uint64_t all = 0;
  for (size_t i = 0; i < data_->sources(); ++i) all += HeldOut(i).size();
  return all;
}

TokenCorpus::Row TokenCorpus::SampleRow(uint64_t sample) const {
  const SampleMixture::Place place = order_.Of(sample);
  const TokenSource& source = data_->source(place.source);
  if (chats_.empty()) {
    return {&source.train(), place.first_token, context_ + 1, source.train_marks()};
  }
  const uint64_t chat = chats_[place.source].train[place.first_token];
  return ChatRow(source.train(), *source.train_marks(), chat, context_ + 1);
}

// Each window needs a next token.
uint64_t TokenCorpus::WindowsOf(size_t source) const {
  if (!chats_.empty()) {
    const Chats& chats = chats_[source];
    return AllIsHeldOut(source) ? chats.train.size() : chats.held_out.size();
  }
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
      if (chats_.empty()) {
        return {&HeldOut(i), (index - first) * evaluation_context_, evaluation_context_ + 1,
                HeldOutMarks(i)};
      }
      const std::vector<uint64_t>& held = AllIsHeldOut(i) ? chats_[i].train : chats_[i].held_out;
      return ChatRow(HeldOut(i), *HeldOutMarks(i), held[index - first], evaluation_context_ + 1);
    }
    before = end;
  }
}

}  // namespace atolld
