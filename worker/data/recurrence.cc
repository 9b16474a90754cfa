#include "worker/data/recurrence.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace atolld {
namespace {

constexpr uint64_t kMostPieces = 65536;
constexpr uint64_t kMostTrain = uint64_t{1} << 28;  // about what is hashed in a second
constexpr uint64_t kReadTogether = 4096;
constexpr uint64_t kBase = 0x9e3779b97f4a7c15;  // odd; 2^64 by the golden ratio

// A polynomial in kBase modulo 2^64, whose coefficients are the ids and 1.
uint64_t Next(uint64_t hash, int64_t id) { return hash * kBase + static_cast<uint64_t>(id) + 1; }

std::vector<int64_t> IdsOf(const TokenSpan& tokens, uint64_t first, uint64_t count) {
  std::vector<int64_t> ids(count);
  tokens.Read(first, absl::MakeSpan(ids));
  return ids;
}

uint64_t HashOf(const std::vector<int64_t>& ids) {
  uint64_t hash = 0;
  for (const int64_t id : ids) hash = Next(hash, id);
  return hash;
}

// Calls `take` with the hash of each run of `length` tokens.
template <typename Take>
void ForEachRun(const TokenSpan& tokens, uint64_t length, const Take& take) {
  uint64_t leaves = 1;  // kBase to the power of `length`
  for (uint64_t i = 0; i < length; ++i) leaves *= kBase;
  uint64_t hash = 0;
  const uint64_t all = std::min(tokens.size(), kMostTrain);
  for (uint64_t first = 0; first < all; first += kReadTogether) {
    const uint64_t count = std::min(kReadTogether, all - first), before = std::min(first, length);
    const std::vector<int64_t> ids = IdsOf(tokens, first - before, before + count);
    for (uint64_t i = 0; i < count; ++i) {
      hash = Next(hash, ids[before + i]);
      if (first + i + 1 > length) {
        hash -= leaves * (static_cast<uint64_t>(ids[before + i - length]) + 1);
      }
      if (first + i + 1 >= length) take(hash);
    }
  }
}

// Returns the hash of one conversation.
uint64_t HashOfChat(const TokenSpan& tokens, const TokenMarks& marks, size_t chat) {
  return HashOf(IdsOf(tokens, marks.begins[chat], marks.begins[chat + 1] - marks.begins[chat]));
}

}  // namespace

uint64_t RecurrenceSearch::LengthFor(const Tokenizer* tokenizer) {
  constexpr uint64_t kTokens = 64, kCharacters = 256;
  const bool characters =
      tokenizer != nullptr && (tokenizer->kind() == "bytes" || tokenizer->kind() == "chars");
  return characters ? kCharacters : kTokens;
}

void RecurrenceSearch::Add(const TokenSpan& evaluated, const TokenMarks* marks) {
  if (marks != nullptr) {
    conversations_ = true;
    for (size_t i = 0; i < marks->conversations(); ++i) ++pieces_[HashOfChat(evaluated, *marks, i)];
    result_.looked_at += marks->conversations();
    return;
  }
  const uint64_t most =
      std::min(evaluated.size() / length_, kMostPieces - std::min(kMostPieces, result_.looked_at));
  for (uint64_t piece = 0; piece < most; ++piece) {
    const std::vector<int64_t> ids = IdsOf(evaluated, piece * length_, length_);
    if (std::all_of(ids.begin(), ids.end(), [&](int64_t id) { return id == ids[0]; })) continue;
    ++result_.looked_at;
    ++pieces_[HashOf(ids)];
  }
}

void RecurrenceSearch::Find(uint64_t hash) {
  const auto found = pieces_.find(hash);
  if (found == pieces_.end()) return;
  result_.found += found->second;
  pieces_.erase(found);
}

void RecurrenceSearch::LookIn(const TokenSpan& trained, const TokenMarks* marks) {
  if (pieces_.empty()) return;
  if (marks == nullptr) return ForEachRun(trained, length_, [this](uint64_t hash) { Find(hash); });
  for (size_t i = 0; i < marks->conversations(); ++i) Find(HashOfChat(trained, *marks, i));
}

std::string RecurrenceSearch::Note(const std::string& evaluated, const std::string& trained) const {
  if (result_.found == 0) return "";
  const bool one = result_.looked_at == 1;
  const std::string pieces =
      conversations_ ? (one ? "conversation" : "conversations")
                     : absl::StrCat(one ? "piece" : "pieces", " of ", length_, " tokens");
  return absl::StrCat(result_.found, " of ", result_.looked_at, " ", pieces, " of ", evaluated,
                      result_.found == 1 ? " stands" : " stand", " in ", trained,
                      " too; the validation loss is better for it");
}

}  // namespace atolld
