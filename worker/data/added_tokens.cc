#include "worker/data/added_tokens.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "compression/base/utf8.h"
#include "worker/data/json_record.h"
#include "worker/data/unicode.h"

namespace atolld {
namespace {

// Returns the last character of a text that is not empty and ends with a whole one, and sets
// `first` to where it begins.
uint32_t LastCharacter(absl::string_view text, size_t* first) {
  *first = text.size() - 1;
  while (*first > 0 && (text[*first] & 0xc0) == 0x80) --*first;
  return ReadUtf8(text.substr(*first));
}

// Returns the first character of a text that is not empty, and sets `length` to the length of its
// well-formed sequence, 0 if there is none.
uint32_t FirstCharacter(absl::string_view text, size_t* length) {
  *length = Utf8Length(text);
  return *length == 0 ? 0 : ReadUtf8(text.substr(0, *length));
}

bool EndsWithWord(absl::string_view text) {
  size_t first = 0;
  return !text.empty() && IsWordCharacter(LastCharacter(text, &first));
}

bool BeginsWithWord(absl::string_view text) {
  size_t length = 0;
  return !text.empty() && IsWordCharacter(FirstCharacter(text, &length));
}

size_t WithoutSpacesAtEnd(absl::string_view text) {
  while (!text.empty()) {
    size_t first = 0;
    if (!IsWhiteSpace(LastCharacter(text, &first))) break;
    text = text.substr(0, first);
  }
  return text.size();
}

size_t SpacesAtStart(absl::string_view text) {
  const size_t size = text.size();
  while (!text.empty()) {
    size_t length = 0;
    if (!IsWhiteSpace(FirstCharacter(text, &length)) || length == 0) break;
    text.remove_prefix(length);
  }
  return size - text.size();
}

}  // namespace

void AddedTokens::Tree::Add(absl::string_view text, int token) {
  uint32_t node = 0;
  begins[static_cast<uint8_t>(text[0])] = true;
  for (const char c : text) {
    const uint64_t step = uint64_t{node} << 8 | static_cast<uint8_t>(c);
    const auto [found, made] = next.emplace(step, static_cast<uint32_t>(ends.size()));
    if (made) ends.push_back(-1);
    node = found->second;
  }
  ends[node] = token;
}

int AddedTokens::Tree::Longest(absl::string_view text, size_t* length) const {
  int longest = -1;
  uint32_t node = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto found = next.find(uint64_t{node} << 8 | static_cast<uint8_t>(text[i]));
    if (found == next.end()) break;
    node = found->second;
    if (ends[node] < 0) continue;
    longest = ends[node];
    *length = i + 1;
  }
  return longest;
}

absl::StatusOr<AddedTokens> AddedTokens::Parse(const nlohmann::json& list, const TokenTable& table,
                                               const TextNormalizer& normalizer) {
  AddedTokens added;
  auto next = static_cast<uint32_t>(table.id_of.size());
  for (size_t i = 0; list.is_array() && i < list.size(); ++i) {
    const std::string content = TextPart(list[i], "content");
    const nlohmann::json& id = PartOf(list[i], "id");
    if (content.empty() || !id.is_number_unsigned() || id.get<uint64_t>() >= kMostIds) {
      return absl::InvalidArgumentError(
          absl::StrCat("added_tokens[", i, "] has no content or no id"));
    }
    absl::optional<uint32_t> own = added.IdOf(content);
    if (!own.has_value()) own = table.IdOf(content);
    if (!own.has_value()) own = next++;
    if (*own != id.get<uint64_t>()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "added_tokens[", i, "], \"", content, "\", has the id ", id.get<uint64_t>(),
          ", and Hugging Face's tokenizers give it ", *own,
          ": that of model.vocab, or the next behind its ", table.id_of.size(), " tokens"));
    }
    RETURN_IF_ERROR(added.Add(list[i], i, *own, normalizer));
  }
  return added;
}

absl::Status AddedTokens::Add(const nlohmann::json& one, size_t index, uint32_t id,
                              const TextNormalizer& normalizer) {
  Token token;
  token.content = TextPart(one, "content");
  token.id = id;
  token.single_word = FlagPart(one, "single_word", false);
  token.left = FlagPart(one, "lstrip", false);
  token.right = FlagPart(one, "rstrip", false);
  token.written = token.content;
  const bool normalized = FlagPart(one, "normalized", !FlagPart(one, "special", false));
  if (normalized) {
    RETURN_IF_ERROR(
        Annotate(normalizer.Apply(&token.written), absl::StrCat("added_tokens[", index, "]")));
  }
  cuts_at_spaces_ = cuts_at_spaces_ && !token.right && !absl::StrContains(token.content, ' ') &&
                    !absl::StrContains(token.written, ' ');
  end_ = std::max(end_, id + 1);
  id_of_.insert_or_assign(token.content, id);
  of_id_.insert_or_assign(id, tokens_.size());
  if (!token.written.empty()) {
    trees_[normalized ? 1 : 0].Add(token.written, static_cast<int>(tokens_.size()));
  }
  tokens_.push_back(std::move(token));
  return absl::OkStatus();
}

absl::Status AddedTokens::Split(absl::string_view text, bool normalized, const TakeText& take_text,
                                const TakeToken& take_token) const {
  const Tree& tree = trees_[normalized ? 1 : 0];
  if (tree.next.empty()) return text.empty() ? absl::OkStatus() : take_text(0, text);
  size_t done = 0;
  for (size_t i = 0; i < text.size();) {
    size_t length = 0;
    const int found =
        tree.begins[static_cast<uint8_t>(text[i])] ? tree.Longest(text.substr(i), &length) : -1;
    if (found < 0) {
      ++i;
      continue;
    }
    const Token& token = tokens_[static_cast<size_t>(found)];
    size_t first = i, end = i + length;
    i = end;
    if (token.single_word &&
        (EndsWithWord(text.substr(0, first)) || BeginsWithWord(text.substr(end)))) {
      continue;
    }
    // The token before may have taken those spaces already.
    if (token.left) first = std::max(WithoutSpacesAtEnd(text.substr(0, first)), done);
    if (token.right) end += SpacesAtStart(text.substr(end));
    if (done < first) RETURN_IF_ERROR(take_text(done, text.substr(done, first - done)));
    take_token(token.id);
    done = end;
  }
  return done < text.size() ? take_text(done, text.substr(done)) : absl::OkStatus();
}

absl::optional<uint32_t> AddedTokens::IdOf(const std::string& content) const {
  const auto found = id_of_.find(content);
  if (found == id_of_.end()) return absl::nullopt;
  return found->second;
}

const std::string* AddedTokens::ContentOf(uint32_t id) const {
  const auto found = of_id_.find(id);
  return found == of_id_.end() ? nullptr : &tokens_[found->second].content;
}

const std::string* AddedTokens::WrittenOf(uint32_t id) const {
  const auto found = of_id_.find(id);
  return found == of_id_.end() ? nullptr : &tokens_[found->second].written;
}

}  // namespace atolld
