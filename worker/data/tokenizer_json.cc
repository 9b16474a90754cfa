#include "worker/data/tokenizer_json.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "compression/base/status_macros.h"
#include "compression/base/utf8.h"
#include "worker/data/added_tokens.h"
#include "worker/data/bpe_model.h"
#include "worker/data/json_record.h"
#include "worker/data/token_model.h"
#include "worker/data/tokenizer_decoder.h"
#include "worker/data/tokenizer_normalizer.h"
#include "worker/data/tokenizer_splitter.h"
#include "worker/data/unigram_model.h"

namespace atolld {
namespace {

// How many words an encoder remembers: the words of a language are few and recur. Beyond the limit
// it forgets all.
constexpr size_t kRememberedWords = size_t{1} << 18;
constexpr size_t kLongestRemembered = 48;

// Texts with which it is tried whether a tokenizer cuts before a space between two letters.
constexpr absl::string_view kTrials[] = {
    "the sea is Old", "don't say It's we'LL go x y", "12 ab 3 cd (ef) gh, ij; kl",
    "a B  cD\n eF gH\t\ti j\r\n\r\n  k L", "caf\xc3\xa9 au lait \xe6\x97\xa5 a b <s> c d </s>"};

struct Parts {
  TextNormalizer normalizer;
  WordSplitter splitter;
  std::unique_ptr<TokenModel> model;
  AddedTokens added;
  TokenDecoder decoder;
};

class JsonTokenizer final : public Tokenizer {
 public:
  JsonTokenizer(std::string file, Parts parts)
      : Tokenizer(std::move(file)), parts_(std::move(parts)) {
    const TokenTable& table = parts_.model->table();
    vocabulary_ = std::max(static_cast<uint32_t>(table.of_id.size()), parts_.added.end());
    cuts_ = parts_.added.cuts_at_spaces() && TriesCuts();
    if (!parts_.decoder.is_byte_level()) return;
    bytes_of_.reserve(vocabulary_);
    for (uint32_t id = 0; id < vocabulary_; ++id) {
      bytes_of_.push_back(BytesOf(id));
    }
  }

  std::string kind() const override { return parts_.model->kind(); }
  uint32_t vocabulary() const override { return vocabulary_; }
  bool CutsAtSpaces() const override { return cuts_; }
  std::unique_ptr<Encoder> NewEncoder() const override;

  absl::optional<uint32_t> IdOf(const std::string& token) const override {
    const auto added = parts_.added.IdOf(token);
    return added.has_value() ? added : parts_.model->table().IdOf(token);
  }

  std::string Written(uint32_t token) const override {
    if (const std::string* content = parts_.added.ContentOf(token)) return *content;
    const auto& of_id = parts_.model->table().of_id;
    return token < of_id.size() ? of_id[token] : "";
  }

  absl::StatusOr<std::string> Decode(absl::Span<const uint32_t> tokens) const override {
    std::string text;
    std::vector<std::string> pieces;
    for (const uint32_t token : tokens) {
      if (token >= vocabulary_) {
        return absl::InvalidArgumentError(
            absl::StrCat("token ", token, " is not one of the ", vocabulary_));
      }
      if (!bytes_of_.empty()) {
        text += bytes_of_[token];
      } else if (const std::string* written = parts_.added.WrittenOf(token)) {
        pieces.push_back(*written);
      } else if (std::string own = Written(token); !own.empty()) {
        pieces.push_back(std::move(own));
      }
    }
    return bytes_of_.empty() ? parts_.decoder.Decode(std::move(pieces)) : text;
  }

 private:
  friend class JsonEncoder;

  // An added token's own text is not of the alphabet, unless a normalizer made it so.
  std::string BytesOf(uint32_t id) const {
    const std::string* content = parts_.added.ContentOf(id);
    if (content == nullptr) return TokenDecoder::BytesOf(parts_.model->table().of_id[id]);
    const std::string& written = *parts_.added.WrittenOf(id);
    return written == *content ? written : TokenDecoder::BytesOf(written);
  }

  // The words of a text; none: it has none, or something gave up.
  std::vector<std::string> WordsOf(absl::string_view text) const {
    std::vector<std::string> words;
    std::string normalized(text);
    WordSplitter::Scratch scratch(parts_.splitter);
    const auto take = [&](absl::string_view word) { words.emplace_back(word); };
    if (!parts_.normalizer.Apply(&normalized).ok() ||
        !parts_.splitter.Split(normalized, /*first=*/true, scratch, take).ok()) {
      return {};
    }
    return words;
  }

  bool TriesCuts() const {
    for (const absl::string_view trial : kTrials) {
      const std::vector<std::string> whole = WordsOf(trial);
      for (size_t at = 1; at + 1 < trial.size(); ++at) {
        const auto letter = [&](size_t i) {
          return absl::ascii_isalpha(static_cast<unsigned char>(trial[i]));
        };
        if (trial[at] != ' ' || !letter(at - 1) || !letter(at + 1)) continue;
        std::vector<std::string> parts = WordsOf(trial.substr(0, at));
        const std::vector<std::string> rest = WordsOf(trial.substr(at));
        parts.insert(parts.end(), rest.begin(), rest.end());
        if (parts != whole) return false;
      }
    }
    return true;
  }

  const Parts parts_;
  uint32_t vocabulary_ = 0;
  bool cuts_ = true;
  std::vector<std::string> bytes_of_;  // by id, if the decoder is a ByteLevel; else empty
};

class JsonEncoder final : public Encoder {
 public:
  explicit JsonEncoder(const JsonTokenizer& tokenizer)
      : parts_(tokenizer.parts_), scratch_(parts_.splitter) {}

  absl::Status Encode(absl::string_view text, std::vector<uint32_t>* out) override {
    out_ = out;
    return parts_.added.Split(
        text, /*normalized=*/false,
        [this](size_t first, absl::string_view piece) { return EncodePiece(piece, first == 0); },
        [this](uint32_t id) { out_->push_back(id); });
  }

 private:
  // Bytes that are no UTF-8 belong to no word: each is taken by itself.
  absl::Status EncodePiece(absl::string_view text, bool first) {
    while (!text.empty()) {
      const size_t valid = FindInvalidUtf8(text);
      RETURN_IF_ERROR(EncodeText(text.substr(0, valid), first));
      if (valid == text.size()) break;
      RETURN_IF_ERROR(EncodeByte(static_cast<uint8_t>(text[valid])));
      text.remove_prefix(valid + 1);
      first = false;
    }
    return absl::OkStatus();
  }

  absl::Status EncodeByte(uint8_t byte) {
    if (!parts_.splitter.has_byte_level() || parts_.splitter.gives_bytes()) {
      return parts_.model->EncodeByte(byte, out_);
    }
    return parts_.model->Encode(TokenOfBytes(std::string(1, static_cast<char>(byte))), out_);
  }

  absl::Status EncodeText(absl::string_view text, bool first) {
    if (parts_.normalizer.does_nothing()) return EncodeNormalized(text, first);
    std::string normalized(text);
    RETURN_IF_ERROR(parts_.normalizer.Apply(&normalized));
    return EncodeNormalized(normalized, first);
  }

  absl::Status EncodeNormalized(absl::string_view text, bool first) {
    if (!parts_.added.any_normalized()) return EncodeWords(text, first);
    return parts_.added.Split(
        text, /*normalized=*/true,
        [this, first](size_t begin, absl::string_view piece) {
          return EncodeWords(piece, first && begin == 0);
        },
        [this](uint32_t id) { out_->push_back(id); });
  }

  absl::Status EncodeWords(absl::string_view text, bool first) {
    absl::Status status;
    RETURN_IF_ERROR(parts_.splitter.Split(text, first, scratch_, [&](absl::string_view word) {
      if (Remembers(word)) return;
      while (!word.empty() && status.ok()) {
        const absl::string_view part = word.substr(0, parts_.model->EndOfPart(word));
        if (part.size() == word.size() || !Remembers(part)) status = EncodeWord(part);
        word.remove_prefix(part.size());
      }
    }));
    return status;
  }

  // Whether the word came before; then its tokens are appended.
  bool Remembers(absl::string_view word) {
    if (word.size() > kLongestRemembered) return false;
    const auto known = words_.find(word);
    if (known == words_.end()) return false;
    const auto first = tokens_.begin() + static_cast<std::ptrdiff_t>(known->second.first);
    out_->insert(out_->end(), first, first + known->second.second);
    return true;
  }

  absl::Status EncodeWord(absl::string_view word) {
    const size_t before = out_->size();
    RETURN_IF_ERROR(parts_.model->Encode(word, out_));
    if (word.size() > kLongestRemembered) return absl::OkStatus();
    if (words_.size() == kRememberedWords) {
      words_.clear();
      tokens_.clear();
    }
    const auto made = static_cast<uint32_t>(out_->size() - before);
    words_.emplace(std::string(word), std::make_pair(tokens_.size(), made));
    tokens_.insert(tokens_.end(), out_->end() - made, out_->end());
    return absl::OkStatus();
  }

  const Parts& parts_;
  WordSplitter::Scratch scratch_;
  absl::flat_hash_map<std::string, std::pair<size_t, uint32_t>> words_;  // first of tokens_, count
  std::vector<uint32_t> tokens_;
  std::vector<uint32_t>* out_ = nullptr;
};

std::unique_ptr<Encoder> JsonTokenizer::NewEncoder() const {
  return std::make_unique<JsonEncoder>(*this);
}

// As BpeModel::Parse, for a model of either kind.
absl::StatusOr<std::unique_ptr<TokenModel>> ParseTokenModel(const nlohmann::json& model,
                                                            bool* bytes) {
  const std::string type = TextPart(model, "type");
  // The oldest files do not say it; merges are BPE's alone.
  if (type == "BPE" || (type.empty() && PartOf(model, "merges").is_array())) {
    ASSIGN_OR_RETURN(auto made, BpeModel::Parse(model, bytes));
    return std::unique_ptr<TokenModel>(std::move(made));
  }
  if (type == "Unigram") {
    *bytes = false;
    ASSIGN_OR_RETURN(auto made, UnigramModel::Parse(model));
    return std::unique_ptr<TokenModel>(std::move(made));
  }
  if (!model.is_object()) {
    return absl::InvalidArgumentError(
        "it has no part \"model\", which a tokenizer.json has; a vocab.json alone does not say how "
        "text is cut");
  }
  return absl::InvalidArgumentError(
      absl::StrCat("model.type is \"", type, "\", which is not known here; known: BPE, Unigram"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> ParseJsonTokenizer(const nlohmann::json& json,
                                                              std::string file) {
  ASSIGN_OR_RETURN(TextNormalizer normalizer, TextNormalizer::Parse(PartOf(json, "normalizer")));
  ASSIGN_OR_RETURN(WordSplitter splitter, WordSplitter::Parse(PartOf(json, "pre_tokenizer")));
  if (splitter.asks_for_first() && !normalizer.keeps_start()) {
    return absl::InvalidArgumentError(
        "pre_tokenizer \"Metaspace\" with prepend_scheme \"first\" is not known here behind a "
        "normalizer that may take away a text's first character");
  }
  bool bytes = splitter.gives_bytes();
  ASSIGN_OR_RETURN(std::unique_ptr<TokenModel> model,
                   ParseTokenModel(PartOf(json, "model"), &bytes));
  if (!bytes) splitter.GiveText();
  ASSIGN_OR_RETURN(AddedTokens added,
                   AddedTokens::Parse(PartOf(json, "added_tokens"), model->table(), normalizer));
  TokenDecoder decoder = TokenDecoder::Parse(PartOf(json, "decoder"), splitter.has_byte_level());
  return std::unique_ptr<Tokenizer>(std::make_unique<JsonTokenizer>(
      std::move(file), Parts{std::move(normalizer), std::move(splitter), std::move(model),
                             std::move(added), std::move(decoder)}));
}

}  // namespace atolld
