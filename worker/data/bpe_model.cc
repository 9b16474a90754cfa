#include "worker/data/bpe_model.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compression/base/status_macros.h"
#include "compression/base/utf8.h"
#include "worker/data/json_record.h"
#include "worker/data/token_model.h"

namespace atolld {
namespace {

constexpr uint32_t kNoToken = 0xffffffff;

absl::Status WrongModel(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("model.", what));
}

uint64_t KeyOfPair(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }

// Removes and returns the first character of a UTF-8 text that is not empty.
uint32_t TakeCharacter(absl::string_view* text) {
  const absl::string_view first = text->substr(0, Utf8Length(*text));
  text->remove_prefix(first.size());
  return ReadUtf8(first);
}

std::string NameOfByte(size_t byte) { return absl::StrFormat("<0x%02X>", byte); }

}  // namespace

absl::StatusOr<std::unique_ptr<BpeModel>> BpeModel::Parse(const nlohmann::json& model,
                                                          bool* bytes) {
  std::unique_ptr<BpeModel> made(new BpeModel);
  RETURN_IF_ERROR(made->ReadFlags(model));
  RETURN_IF_ERROR(made->ReadVocabulary(model));
  made->NameBytes(bytes);
  RETURN_IF_ERROR(made->ReadMerges(model));
  return made;
}

absl::Status BpeModel::ReadFlags(const nlohmann::json& model) {
  if (SaysSomething(PartOf(model, "dropout"))) {
    return WrongModel("dropout is not 0: the tokens would be drawn by lot");
  }
  prefix_ = TextPart(model, "continuing_subword_prefix");
  suffix_ = TextPart(model, "end_of_word_suffix");
  ignore_merges_ = FlagPart(model, "ignore_merges", false);
  byte_fallback_ = FlagPart(model, "byte_fallback", false);
  fuse_unknown_ = FlagPart(model, "fuse_unk", false);
  if (PartOf(model, "unk_token").is_string()) unknown_ = TextPart(model, "unk_token");
  return absl::OkStatus();
}

absl::Status BpeModel::ReadVocabulary(const nlohmann::json& model) {
  const nlohmann::json& vocabulary = PartOf(model, "vocab");
  if (!vocabulary.is_object()) return WrongModel("vocab is not an object");
  for (const auto& [token, id] : vocabulary.items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= kMostIds) {
      return WrongModel(
          absl::StrCat("vocab: the id of \"", token, "\" is not a number below ", kMostIds));
    }
    const auto number = id.get<uint32_t>();
    if (number >= table_.of_id.size()) table_.of_id.resize(size_t{number} + 1);
    table_.of_id[number] = token;
    table_.id_of.emplace(token, number);
  }
  if (unknown_.has_value()) unknown_id_ = table_.IdOf(*unknown_);
  return absl::OkStatus();
}

// Determines which tokens are bytes, and whether words of bytes suffice: a byte without a token
// must then be an error rather than the unknown token, and words must not have ends.
void BpeModel::NameBytes(bool* bytes) {
  of_byte_.fill(kNoToken);
  fallback_.fill(kNoToken);
  for (size_t byte = 0; byte < of_byte_.size(); ++byte) {
    const std::string one(1, static_cast<char>(byte));
    of_byte_[byte] = table_.IdOf(TokenOfBytes(one)).value_or(kNoToken);
    if (byte_fallback_) fallback_[byte] = table_.IdOf(NameOfByte(byte)).value_or(kNoToken);
  }
  const bool whole = std::find(of_byte_.begin(), of_byte_.end(), kNoToken) == of_byte_.end();
  *bytes = *bytes && prefix_.empty() && suffix_.empty() &&
           (whole || (!unknown_.has_value() && !byte_fallback_));
  bytes_ = *bytes;
  std::string spelled;
  for (const auto& [token, id] : table_.id_of) {
    if (bytes_ && ignore_merges_ && BytesOfToken(token, &spelled)) {
      id_of_bytes_.emplace(spelled, id);
    }
    absl::string_view rest = token;
    if (rest.empty()) continue;
    const uint32_t character = TakeCharacter(&rest);
    if (rest.empty()) of_character_.emplace(character, id);
  }
}

absl::StatusOr<BpeModel::Merge> BpeModel::ReadMerge(const nlohmann::json& merge) const {
  Merge out;
  if (merge.is_string()) {
    const auto text = merge.get<std::string>();
    const size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
      return absl::InvalidArgumentError("is not two tokens");
    }
    out.left = text.substr(0, space);
    out.right = text.substr(space + 1);
  } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
             merge[1].is_string()) {
    out.left = merge[0].get<std::string>();
    out.right = merge[1].get<std::string>();
  } else {
    return absl::InvalidArgumentError("is not two tokens");
  }
  if (out.right.size() < prefix_.size()) {
    return absl::InvalidArgumentError("is shorter than model.continuing_subword_prefix");
  }
  const auto left = table_.IdOf(out.left), right = table_.IdOf(out.right);
  const auto joined = table_.IdOf(out.left + out.right.substr(prefix_.size()));
  if (!left.has_value() || !right.has_value() || !joined.has_value()) {
    return absl::InvalidArgumentError("names a token that model.vocab lacks");
  }
  out.left_id = *left;
  out.right_id = *right;
  out.joined_id = *joined;
  return out;
}

absl::Status BpeModel::ReadMerges(const nlohmann::json& model) {
  const nlohmann::json& list = PartOf(model, "merges");
  if (!list.is_array()) return WrongModel("merges is not a list");
  std::vector<Merge> merges;
  for (size_t i = 0; i < list.size(); ++i) {
    // The first line of a merges.txt.
    if (list[i].is_string() && absl::StartsWith(list[i].get<std::string>(), "#version")) continue;
    auto merge = ReadMerge(list[i]);
    if (!merge.ok()) {
      return WrongModel(absl::StrCat("merges[", i, "] ", merge.status().message()));
    }
    pairs_.Add(merge->left_id, merge->right_id, merge->joined_id);
    if (!bytes_) merges.push_back(*std::move(merge));
  }
  if (!bytes_) FindCuts(merges);
  return absl::OkStatus();
}

// No merge reaches over two characters that are adjacent in no joined token. This needs every token
// that stands for a text other than its own (a byte, or the unknown) to be part of no merge.
void BpeModel::FindCuts(const std::vector<Merge>& merges) {
  cuts_ = !ignore_merges_ && prefix_.empty() && suffix_.empty();
  for (const Merge& merge : merges) {
    const auto stands_in = [&](uint32_t id) {
      return id == unknown_id_ ||
             std::find(fallback_.begin(), fallback_.end(), id) != fallback_.end();
    };
    if (merge.left.size() == 6 || merge.right.size() == 6 || unknown_id_.has_value()) {
      cuts_ = cuts_ && !stands_in(merge.left_id) && !stands_in(merge.right_id);
    }
    absl::string_view rest = table_.of_id[merge.joined_id];
    uint32_t before = TakeCharacter(&rest);
    while (!rest.empty()) {
      const uint32_t character = TakeCharacter(&rest);
      joined_.insert(KeyOfPair(before, character));
      before = character;
    }
  }
}

size_t BpeModel::EndOfPart(absl::string_view word) const {
  if (!cuts_) return word.size();
  absl::string_view rest = word;
  uint32_t before = TakeCharacter(&rest);
  bool known = of_character_.contains(before);
  while (!rest.empty()) {
    const size_t at = word.size() - rest.size();
    const uint32_t character = TakeCharacter(&rest);
    const bool this_known = of_character_.contains(character);
    // Unknown ones may be fused.
    if (known && this_known && !joined_.contains(KeyOfPair(before, character))) return at;
    before = character;
    known = this_known;
  }
  return word.size();
}

absl::Status BpeModel::Encode(absl::string_view word, std::vector<uint32_t>* out) const {
  if (ignore_merges_) {
    const auto& whole = bytes_ ? id_of_bytes_ : table_.id_of;
    if (const auto found = whole.find(word); found != whole.end()) {
      out->push_back(found->second);
      return absl::OkStatus();
    }
  }
  std::vector<uint32_t> tokens;
  tokens.reserve(word.size());
  RETURN_IF_ERROR(bytes_ ? FirstOfBytes(word, &tokens) : FirstOfText(word, &tokens));
  pairs_.Join(tokens, out);
  return absl::OkStatus();
}

absl::Status BpeModel::FirstOfBytes(absl::string_view word, std::vector<uint32_t>* tokens) const {
  for (const char c : word) {
    const uint32_t token = of_byte_[static_cast<uint8_t>(c)];
    if (token == kNoToken) {
      return absl::InvalidArgumentError(absl::StrCat("the text holds the byte ",
                                                     static_cast<uint8_t>(c),
                                                     ", for which model.vocab has no token"));
    }
    tokens->push_back(token);
  }
  return absl::OkStatus();
}

bool BpeModel::AppendFallback(absl::string_view character, std::vector<uint32_t>* tokens) const {
  const auto token = [this](char c) { return fallback_[static_cast<uint8_t>(c)]; };
  if (std::any_of(character.begin(), character.end(),
                  [&](char c) { return token(c) == kNoToken; })) {
    return false;
  }
  for (const char c : character) tokens->push_back(token(c));
  return true;
}

// Follows Hugging Face's order: an unknown character waits for what comes after it, and the bytes
// of a character that falls back do not end that wait.
absl::Status BpeModel::FirstOfText(absl::string_view word, std::vector<uint32_t>* tokens) const {
  absl::optional<uint32_t> waiting;
  const auto end_wait = [&] {
    if (waiting.has_value()) tokens->push_back(*waiting);
    waiting.reset();
  };
  for (absl::string_view rest = word; !rest.empty();) {
    const absl::string_view from = rest;
    const uint32_t character = TakeCharacter(&rest);
    const absl::string_view own = from.substr(0, from.size() - rest.size());
    const std::string symbol = prefix_.empty() && suffix_.empty()
                                   ? std::string(own)
                                   : absl::StrCat(from.size() == word.size() ? "" : prefix_, own,
                                                  rest.empty() ? suffix_ : "");
    absl::optional<uint32_t> known;
    if (symbol.size() != own.size()) {
      known = table_.IdOf(symbol);
    } else if (const auto found = of_character_.find(character); found != of_character_.end()) {
      known = found->second;
    }
    if (known.has_value()) {
      end_wait();
      tokens->push_back(*known);
      continue;
    }
    if (byte_fallback_ && AppendFallback(symbol, tokens)) continue;
    if (!unknown_id_.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("the text holds U+%04X, for which model.vocab has no token, and "
                          "model.unk_token names none",
                          character));
    }
    if (!fuse_unknown_) end_wait();
    waiting = unknown_id_;
  }
  end_wait();
  return absl::OkStatus();
}

absl::Status BpeModel::EncodeByte(uint8_t byte, std::vector<uint32_t>* out) const {
  const uint32_t token = bytes_ ? of_byte_[byte] : fallback_[byte];
  if (token == kNoToken && (bytes_ || !unknown_id_.has_value())) {
    return absl::InvalidArgumentError(
        absl::StrCat("the text holds the byte ", byte, ", for which model.vocab has no token"));
  }
  out->push_back(token == kNoToken ? *unknown_id_ : token);
  return absl::OkStatus();
}

// -----------------------------------------------------------------------------------------------

namespace {

constexpr uint32_t kNobody = 0xffffffff;

// A token of the word so far, in a list ordered by the position of its first symbol.
struct Symbol {
  uint32_t token;
  uint32_t before, after;  // kNobody: the end
};

struct Candidate {
  uint32_t rank;
  uint32_t left, right;  // positions
  uint32_t left_token, right_token, joined;

  bool operator>(const Candidate& other) const {
    return std::tie(rank, left) > std::tie(other.rank, other.left);
  }
};

}  // namespace

void PairMerges::Add(uint32_t left, uint32_t right, uint32_t joined) {
  merges_.insert_or_assign(KeyOfPair(left, right), Merge{ranks_++, joined});
}

const PairMerges::Merge* PairMerges::Find(uint32_t left, uint32_t right) const {
  const auto found = merges_.find(KeyOfPair(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void PairMerges::Join(const std::vector<uint32_t>& tokens, std::vector<uint32_t>* out) const {
  const auto size = static_cast<uint32_t>(tokens.size());
  std::vector<Symbol> symbols;
  symbols.reserve(size);
  for (uint32_t i = 0; i < size; ++i) {
    symbols.push_back({tokens[i], i == 0 ? kNobody : i - 1, i + 1 == size ? kNobody : i + 1});
  }
  std::vector<Candidate> heap;
  const auto consider = [&](uint32_t left, uint32_t right) {
    if (left == kNobody || right == kNobody) return;
    const Merge* merge = Find(symbols[left].token, symbols[right].token);
    if (merge == nullptr) return;
    heap.push_back(
        {merge->rank, left, right, symbols[left].token, symbols[right].token, merge->joined});
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  for (uint32_t i = 0; i + 1 < size; ++i) consider(i, i + 1);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const Candidate best = heap.back();
    heap.pop_back();
    Symbol& left = symbols[best.left];
    Symbol& right = symbols[best.right];
    // One of the two has been joined to another since.
    if (left.token != best.left_token || left.after != best.right ||
        right.token != best.right_token) {
      continue;
    }
    left.token = best.joined;
    left.after = right.after;
    right.token = kNobody;
    if (left.after != kNobody) symbols[left.after].before = best.left;
    consider(left.before, best.left);
    consider(best.left, left.after);
  }
  for (uint32_t i = 0; i != kNobody && i < size; i = symbols[i].after) {
    out->push_back(symbols[i].token);
  }
}

}  // namespace atolld
