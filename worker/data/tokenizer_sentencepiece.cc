#include "worker/data/tokenizer_sentencepiece.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "worker/data/sentencepiece_model.h"

namespace atolld {
namespace {

class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(std::string file, std::unique_ptr<SentencePieceModel> model)
      : Tokenizer(std::move(file)), model_(std::move(model)) {}

  std::string kind() const override { return "sentencepiece"; }
  uint32_t vocabulary() const override { return model_->vocabulary(); }

  absl::optional<uint32_t> end_of_text() const override {
    if (model_->end_of_text() < 0) return absl::nullopt;
    return static_cast<uint32_t>(model_->end_of_text());
  }

  // A model may put a space before all that it is given.
  bool CutsAtSpaces() const override { return false; }

  std::unique_ptr<Encoder> NewEncoder() const override {
    class Caller final : public Encoder {
     public:
      explicit Caller(const SentencePieceModel& model) : model_(model) {}
      absl::Status Encode(absl::string_view text, std::vector<uint32_t>* out) override {
        return model_.Encode(text, out);
      }

     private:
      const SentencePieceModel& model_;
    };
    return std::make_unique<Caller>(*model_);
  }

  absl::StatusOr<std::string> Decode(absl::Span<const uint32_t> tokens) const override {
    std::vector<int> ids;
    for (const uint32_t token : tokens) {
      if (token >= vocabulary()) {
        return absl::InvalidArgumentError(
            absl::StrCat("token ", token, " is none of the ", vocabulary(), " pieces"));
      }
      ids.push_back(static_cast<int>(token));
    }
    return model_->Decode(ids);
  }

 private:
  const std::unique_ptr<SentencePieceModel> model_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeSentencePieceTokenizer(std::string file) {
  auto model = SentencePieceModel::Load(file);
  if (absl::IsInvalidArgument(model.status())) {
    return absl::InvalidArgumentError(
        absl::StrCat("it is neither JSON nor a model: ", model.status().message()));
  }
  RETURN_IF_ERROR(model.status());
  return std::unique_ptr<Tokenizer>(
      std::make_unique<SentencePieceTokenizer>(std::move(file), *std::move(model)));
}

}  // namespace atolld
