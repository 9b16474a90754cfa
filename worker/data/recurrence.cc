#include "worker/data/recurrence.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
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

}  // namespace

Recurrence FindRecurring(const TokenSpan& train, const TokenSpan& validation, uint64_t length) {
  Recurrence recurrence;
  absl::flat_hash_map<uint64_t, uint64_t> pieces;  // how many have a hash
  const uint64_t most = std::min(validation.size() / length, kMostPieces);
  for (uint64_t piece = 0; piece < most; ++piece) {
    const std::vector<int64_t> ids = IdsOf(validation, piece * length, length);
    if (std::all_of(ids.begin(), ids.end(), [&](int64_t id) { return id == ids[0]; })) continue;
    ++recurrence.looked_at;
    ++pieces[HashOf(ids)];
  }
  if (pieces.empty()) return recurrence;
  ForEachRun(train, length, [&](uint64_t hash) {
    const auto found = pieces.find(hash);
    if (found == pieces.end()) return;
    recurrence.found += found->second;
    pieces.erase(found);
  });
  return recurrence;
}

Recurrence FindRecurring(const TokenSpan& train, const TokenMarks& train_marks,
                         const TokenSpan& validation, const TokenMarks& validation_marks) {
  const auto hash_of = [](const TokenSpan& tokens, const TokenMarks& marks, size_t chat) {
    return HashOf(IdsOf(tokens, marks.begins[chat], marks.begins[chat + 1] - marks.begins[chat]));
  };
  absl::flat_hash_set<uint64_t> trained;
  for (size_t i = 0; i < train_marks.conversations(); ++i) {
    trained.insert(hash_of(train, train_marks, i));
  }
  Recurrence recurrence;
  for (size_t i = 0; i < validation_marks.conversations(); ++i) {
    ++recurrence.looked_at;
    recurrence.found += trained.count(hash_of(validation, validation_marks, i));
  }
  return recurrence;
}

std::string NoteOfRecurring(const Recurrence& recurrence, const std::string& piece,
                            const std::string& pieces) {
  if (recurrence.found == 0) return "";
  return absl::StrCat(recurrence.found, " of ", recurrence.looked_at, " ",
                      recurrence.looked_at == 1 ? piece : pieces, " of the validation part ",
                      recurrence.found == 1 ? "stands" : "stand",
                      " in the training part too; the validation loss is better for it");
}

}  // namespace atolld
