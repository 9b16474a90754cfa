#include "worker/data/unigram_model.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compression/base/status_macros.h"
#include "compression/base/utf8.h"
#include "worker/data/json_record.h"

namespace atolld {
namespace {

constexpr uint32_t kNoPiece = 0xffffffff;
constexpr double kUnknownPenalty = 10;  // below the worst token; SentencePiece's, and so theirs

absl::Status WrongUnigram(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("model.", what));
}

}  // namespace

absl::StatusOr<std::unique_ptr<UnigramModel>> UnigramModel::Parse(const nlohmann::json& model) {
  std::unique_ptr<UnigramModel> made(new UnigramModel);
  RETURN_IF_ERROR(made->ReadVocabulary(model));
  return made;
}

absl::Status UnigramModel::ReadVocabulary(const nlohmann::json& model) {
  const nlohmann::json& list = PartOf(model, "vocab");
  if (!list.is_array() || list.empty() || list.size() >= kMostIds) {
    return WrongUnigram("vocab is not a list of tokens with scores");
  }
  double worst = std::numeric_limits<double>::infinity();
  ends_.push_back(kNoPiece);
  for (const nlohmann::json& one : list) {
    const auto id = static_cast<uint32_t>(scores_.size());
    if (!one.is_array() || one.size() != 2 || !one[0].is_string() || !one[1].is_number()) {
      return WrongUnigram(absl::StrCat("vocab[", id, "] is not a token with its score"));
    }
    table_.of_id.push_back(one[0].get<std::string>());
    table_.id_of.insert_or_assign(table_.of_id.back(), id);
    scores_.push_back(one[1].get<double>());
    worst = std::min(worst, scores_.back());
    AddToTree(id);
  }
  unknown_score_ = worst - kUnknownPenalty;
  if (const nlohmann::json& unknown = PartOf(model, "unk_id"); !unknown.is_null()) {
    if (!unknown.is_number_unsigned() || unknown.get<uint64_t>() >= scores_.size()) {
      return WrongUnigram("unk_id is not in model.vocab");
    }
    unknown_ = unknown.get<uint32_t>();
  }
  fallback_.fill(kNoPiece);
  for (size_t byte = 0; byte < fallback_.size() && FlagPart(model, "byte_fallback", false);
       ++byte) {
    fallback_[byte] = table_.IdOf(absl::StrFormat("<0x%02X>", byte)).value_or(kNoPiece);
  }
  return absl::OkStatus();
}

void UnigramModel::AddToTree(uint32_t id) {
  uint32_t node = 0;
  for (const char c : table_.of_id[id]) {
    const uint64_t step = uint64_t{node} << 8 | static_cast<uint8_t>(c);
    const auto [next, made] = next_.emplace(step, static_cast<uint32_t>(ends_.size()));
    if (made) ends_.push_back(kNoPiece);
    node = next->second;
  }
  if (node != 0) ends_[node] = id;
}

absl::Status UnigramModel::FindWays(absl::string_view word, std::vector<Way>* ways) const {
  ways->assign(word.size() + 1, Way());
  const auto consider = [&](size_t from, size_t to, double score, uint32_t token) {
    Way& way = (*ways)[to];
    const double sum = score + (*ways)[from].score;
    if (!way.found || sum > way.score) way = {sum, token, from, true};
  };
  for (size_t from = 0; from < word.size();) {
    const size_t length = Utf8Length(word.substr(from));
    bool single = false;  // a token of this one character
    uint32_t node = 0;
    for (size_t to = from; to < word.size(); ++to) {
      const auto next = next_.find(uint64_t{node} << 8 | static_cast<uint8_t>(word[to]));
      if (next == next_.end()) break;
      node = next->second;
      const uint32_t token = ends_[node];
      if (token == kNoPiece) continue;
      consider(from, to + 1, scores_[token], token);
      single = single || to + 1 == from + length;
    }
    if (!single) {
      if (!unknown_.has_value()) {
        return absl::InvalidArgumentError(
            absl::StrFormat("the text holds U+%04X, for which model.vocab has no token, and there "
                            "is no model.unk_id",
                            ReadUtf8(word.substr(from, length))));
      }
      consider(from, from + length, unknown_score_, *unknown_);
    }
    from += length;
  }
  return absl::OkStatus();
}

absl::Status UnigramModel::Append(absl::string_view part, std::vector<uint32_t>* out) const {
  if (const auto known = table_.id_of.find(part); known != table_.id_of.end()) {
    out->push_back(known->second);
    return absl::OkStatus();
  }
  const auto token = [this](char c) { return fallback_[static_cast<uint8_t>(c)]; };
  if (std::all_of(part.begin(), part.end(), [&](char c) { return token(c) != kNoPiece; })) {
    for (const char c : part) out->push_back(token(c));
  } else {
    out->push_back(*unknown_);
  }
  return absl::OkStatus();
}

absl::Status UnigramModel::Encode(absl::string_view word, std::vector<uint32_t>* out) const {
  std::vector<Way> ways;
  RETURN_IF_ERROR(FindWays(word, &ways));
  std::vector<std::pair<size_t, size_t>> parts;  // last first; the unknown ones fused
  bool unknown_behind = false;
  for (size_t end = word.size(); end > 0;) {
    const Way& way = ways[end];
    const bool unknown = way.token == unknown_;
    if (unknown && unknown_behind) {
      parts.back().first = way.from;
    } else {
      parts.emplace_back(way.from, end);
    }
    unknown_behind = unknown;
    end = way.from;
  }
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    RETURN_IF_ERROR(Append(word.substr(part->first, part->second - part->first), out));
  }
  return absl::OkStatus();
}

absl::Status UnigramModel::EncodeByte(uint8_t byte, std::vector<uint32_t>* out) const {
  if (fallback_[byte] == kNoPiece && !unknown_.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the text holds the byte ", byte, ", for which model.vocab has no token"));
  }
  out->push_back(fallback_[byte] == kNoPiece ? *unknown_ : fallback_[byte]);
  return absl::OkStatus();
}

}  // namespace atolld
