#include "worker/data/tokenizer.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "worker/base/file_io.h"
#include "worker/base/sha256.h"
#include "worker/data/tokenizer_bpe.h"
#include "worker/data/tokenizer_chars.h"
#include "worker/data/tokenizer_sentencepiece.h"

namespace atolld {
namespace {

constexpr uint32_t kBytes = 256;

class ByteTokenizer final : public Tokenizer {
 public:
  ByteTokenizer() : Tokenizer("") {}

  std::string kind() const override { return "bytes"; }
  uint32_t vocabulary() const override { return kBytes; }

  std::unique_ptr<Encoder> NewEncoder() const override {
    class Copier final : public Encoder {
      absl::Status Encode(absl::string_view text, std::vector<uint32_t>* out) override {
        out->reserve(out->size() + text.size());
        for (const char c : text) out->push_back(static_cast<uint8_t>(c));
        return absl::OkStatus();
      }
    };
    return std::make_unique<Copier>();
  }

  absl::StatusOr<std::string> Decode(absl::Span<const uint32_t> tokens) const override {
    std::string text;
    for (const uint32_t token : tokens) {
      if (token >= kBytes) {
        return absl::InvalidArgumentError(absl::StrCat("token ", token, " is no byte"));
      }
      text.push_back(static_cast<char>(token));
    }
    return text;
  }
};

}  // namespace

Tokenizer::Tokenizer(std::string file)
    : file_(std::move(file)), digest_(file_.empty() ? "" : Sha256().Add(file_).Finish()) {}

std::unique_ptr<Tokenizer> MakeByteTokenizer() { return std::make_unique<ByteTokenizer>(); }

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& spec) {
  if (spec.empty() || spec == "bytes") return MakeByteTokenizer();
  auto file = ReadWholeFile(spec);
  RETURN_IF_ERROR(Annotate(file.status(), "tokenizer"));
  return ParseTokenizer(spec, *std::move(file));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> ParseTokenizer(const std::string& name,
                                                          std::string file) {
  const std::string where = absl::StrCat("tokenizer ", name);
  const auto first = file.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": the file is empty"));
  }
  auto tokenizer = [&]() -> absl::StatusOr<std::unique_ptr<Tokenizer>> {
    if (file[first] != '{') return MakeSentencePieceTokenizer(std::move(file));
    const nlohmann::json json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded()) return absl::InvalidArgumentError("it is not well-formed JSON");
    if (json.contains("characters")) return ParseCharTokenizer(json);
    return ParseBpeTokenizer(json, std::move(file));
  }();
  RETURN_IF_ERROR(Annotate(tokenizer.status(), where));
  return tokenizer;
}

std::string TokenizerFileName(const std::string& kind) {
  if (kind == "chars") return "characters.json";
  if (kind == "bpe") return "tokenizer.json";
  if (kind == "sentencepiece") return "tokenizer.model";
  return "";
}

}  // namespace atolld
