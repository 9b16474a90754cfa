#include "worker/data/tokenizer_bpe.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "worker/data/bpe_file.h"
#include "worker/data/byte_pairs.h"
#include "worker/data/utf8.h"
#include "worker/data/word_splitter.h"

namespace atolld {
namespace {

// What an encoder remembers: the words of a language are few and come again. Past the limit it
// forgets all.
constexpr size_t kRememberedWords = size_t{1} << 18;
constexpr size_t kLongestRemembered = 48;

constexpr const char* kEndsOfText[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"};

BytePairs MakePairs(const BpeFile& file) {
  std::array<uint32_t, 256> of_byte;
  for (size_t byte = 0; byte < of_byte.size(); ++byte) {
    of_byte[byte] = file.id_of.at(std::string(1, static_cast<char>(byte)));
  }
  BytePairs pairs(of_byte);
  for (const BpeFile::Merge& merge : file.merges) pairs.Add(merge.left, merge.right, merge.joined);
  return pairs;
}

class BpeTokenizer final : public Tokenizer {
 public:
  BpeTokenizer(std::string text, BpeFile file, WordSplitter splitter)
      : Tokenizer(std::move(text)),
        file_(std::move(file)),
        splitter_(std::move(splitter)),
        pairs_(MakePairs(file_)) {
    // The longest that fits is taken.
    std::sort(file_.added.begin(), file_.added.end(),
              [](const auto& a, const auto& b) { return a.content.size() > b.content.size(); });
    begins_added_.fill(false);
    for (const BpeFile::Added& one : file_.added) {
      begins_added_[static_cast<uint8_t>(one.content[0])] = true;
      cuts_ = cuts_ && !absl::StrContains(one.content, ' ');
      for (const char* end : kEndsOfText) {
        if (one.content == end) end_of_text_ = one.id;
      }
    }
  }

  std::string kind() const override { return "bpe"; }
  uint32_t vocabulary() const override { return static_cast<uint32_t>(file_.bytes_of.size()); }
  absl::optional<uint32_t> end_of_text() const override { return end_of_text_; }
  bool CutsAtSpaces() const override { return cuts_; }
  std::unique_ptr<Encoder> NewEncoder() const override;

  absl::StatusOr<std::string> Decode(absl::Span<const uint32_t> tokens) const override {
    std::string text;
    for (const uint32_t token : tokens) {
      if (token >= vocabulary()) {
        return absl::InvalidArgumentError(
            absl::StrCat("token ", token, " is none of the ", vocabulary()));
      }
      text += file_.bytes_of[token];
    }
    return text;
  }

 private:
  friend class BpeEncoder;

  BpeFile file_;
  const WordSplitter splitter_;
  const BytePairs pairs_;
  std::array<bool, 256> begins_added_;
  absl::optional<uint32_t> end_of_text_;
  bool cuts_ = true;
};

class BpeEncoder final : public Encoder {
 public:
  explicit BpeEncoder(const BpeTokenizer& tokenizer)
      : tokenizer_(tokenizer), scratch_(tokenizer.splitter_) {}

  absl::Status Encode(absl::string_view text, std::vector<uint32_t>* out) override {
    out_ = out;
    size_t plain = 0;  // where the text begins that no added token has taken
    for (size_t i = 0; i < text.size();) {
      const BpeFile::Added* added = tokenizer_.begins_added_[static_cast<uint8_t>(text[i])]
                                        ? AddedAt(text.substr(i))
                                        : nullptr;
      if (added == nullptr) {
        ++i;
        continue;
      }
      RETURN_IF_ERROR(EncodePlain(text.substr(plain, i - plain)));
      out_->push_back(added->id);
      i += added->content.size();
      plain = i;
    }
    return EncodePlain(text.substr(plain));
  }

 private:
  const BpeFile::Added* AddedAt(absl::string_view text) const {
    for (const BpeFile::Added& one : tokenizer_.file_.added) {
      if (absl::StartsWith(text, one.content)) return &one;
    }
    return nullptr;
  }

  // Bytes that are no UTF-8 belong to no word: each is taken by itself.
  absl::Status EncodePlain(absl::string_view text) {
    if (text.empty()) return absl::OkStatus();
    std::string prefixed;
    if (tokenizer_.file_.add_prefix_space && text[0] != ' ') {
      prefixed = absl::StrCat(" ", text);
      text = prefixed;
    }
    while (!text.empty()) {
      const size_t valid = FindInvalidUtf8(
          absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
      RETURN_IF_ERROR(tokenizer_.splitter_.Split(
          text.substr(0, valid), scratch_, [this](absl::string_view word) { EncodeWord(word); }));
      if (valid == text.size()) break;
      EncodeWord(text.substr(valid, 1));
      text.remove_prefix(valid + 1);
    }
    return absl::OkStatus();
  }

  void EncodeWord(absl::string_view word) {
    if (const auto known = words_.find(word); known != words_.end()) {
      const auto first = tokens_.begin() + static_cast<std::ptrdiff_t>(known->second.first);
      out_->insert(out_->end(), first, first + known->second.second);
      return;
    }
    const size_t before = out_->size();
    const auto& ids = tokenizer_.file_.id_of;
    const auto whole = tokenizer_.file_.ignore_merges ? ids.find(word) : ids.end();
    if (whole != ids.end()) {
      out_->push_back(whole->second);
    } else {
      tokenizer_.pairs_.Encode(word, out_);
    }
    if (word.size() > kLongestRemembered) return;
    if (words_.size() == kRememberedWords) {
      words_.clear();
      tokens_.clear();
    }
    const auto made = static_cast<uint32_t>(out_->size() - before);
    words_.emplace(std::string(word), std::make_pair(tokens_.size(), made));
    tokens_.insert(tokens_.end(), out_->end() - made, out_->end());
  }

  const BpeTokenizer& tokenizer_;
  WordSplitter::Scratch scratch_;
  absl::flat_hash_map<std::string, std::pair<size_t, uint32_t>> words_;  // first of tokens_, count
  std::vector<uint32_t> tokens_;
  std::vector<uint32_t>* out_ = nullptr;
};

std::unique_ptr<Encoder> BpeTokenizer::NewEncoder() const {
  return std::make_unique<BpeEncoder>(*this);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> ParseBpeTokenizer(const nlohmann::json& json,
                                                             std::string file) {
  ASSIGN_OR_RETURN(BpeFile parsed, ReadBpeFile(json));
  auto splitter = WordSplitter::Make(parsed.patterns);
  RETURN_IF_ERROR(Annotate(splitter.status(), "pre_tokenizer"));
  return std::unique_ptr<Tokenizer>(
      std::make_unique<BpeTokenizer>(std::move(file), std::move(parsed), *std::move(splitter)));
}

}  // namespace atolld
