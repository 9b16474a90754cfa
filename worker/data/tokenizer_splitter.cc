#include "worker/data/tokenizer_splitter.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compression/base/status_macros.h"
#include "worker/data/json_record.h"
#include "worker/data/token_model.h"

namespace atolld {
namespace {

// GPT-2's own pattern (openai/gpt-2, encoder.py), which a byte-level pre-tokenizer has built in.
constexpr char kGpt2Pattern[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// ASCII's punctuation and Unicode's.
constexpr char kPunctuationPattern[] = R"([!-\/:-@\[-`{-~\p{P}])";

// Rust's \w+|[^\w\s]+, in which joiners belong to words.
constexpr char kWordsPattern[] = R"([\w\x{200c}\x{200d}]+|[^\w\x{200c}\x{200d}\s]+)";

absl::Status WrongSplitter(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("pre_tokenizer ", what));
}

}  // namespace

absl::StatusOr<WordSplitter> WordSplitter::Parse(const nlohmann::json& json) {
  WordSplitter splitter;
  RETURN_IF_ERROR(splitter.Read(json));
  splitter.gives_bytes_ = splitter.byte_level_;
  bool behind = false;
  for (const Step& step : splitter.steps_) {
    if (behind && !step.space.empty()) splitter.gives_bytes_ = false;
    behind = behind || step.byte_level;
  }
  return splitter;
}

absl::Status WordSplitter::AddRegex(const std::string& regex, Behavior behavior, bool invert) {
  ASSIGN_OR_RETURN(TokenPattern pattern, TokenPattern::OfRegex(regex));
  Step step;
  step.pattern = std::move(pattern);
  step.behavior = behavior;
  step.invert = invert;
  steps_.push_back(std::move(step));
  return absl::OkStatus();
}

absl::Status WordSplitter::Read(const nlohmann::json& json) {
  if (!SaysSomething(json)) return absl::OkStatus();
  const std::string type = TextPart(json, "type");
  if (type == "Sequence") {
    for (const nlohmann::json& one : PartOf(json, "pretokenizers")) RETURN_IF_ERROR(Read(one));
    return absl::OkStatus();
  }
  if (type == "ByteLevel") {
    if (std::exchange(byte_level_, true)) {
      return WrongSplitter("has two ByteLevel; the text would be written twice");
    }
    Step step;
    if (FlagPart(json, "use_regex", true)) {
      ASSIGN_OR_RETURN(step.pattern, TokenPattern::OfRegex(kGpt2Pattern));
    }
    step.byte_level = true;
    if (FlagPart(json, "add_prefix_space", true)) step.prefix = Prefix::kAlways;
    steps_.push_back(std::move(step));
    return absl::OkStatus();
  }
  if (type == "Digits") {
    const bool each = FlagPart(json, "individual_digits", false);
    return AddRegex(each ? R"(\p{N})" : R"(\p{N}+)", Behavior::kIsolated, false);
  }
  if (type == "Whitespace") {
    return AddRegex(kWordsPattern, Behavior::kRemoved, /*invert=*/true);
  }
  if (type == "WhitespaceSplit") return AddRegex(R"(\s)", Behavior::kRemoved, false);
  if (type == "BertPreTokenizer") {
    RETURN_IF_ERROR(AddRegex(R"(\s)", Behavior::kRemoved, false));
    return AddRegex(kPunctuationPattern, Behavior::kIsolated, false);
  }
  if (type == "Metaspace") return ReadMetaspace(json);
  if (type == "Split" || type == "Punctuation") return ReadSplit(json);
  return WrongSplitter(absl::StrCat(
      "\"", type,
      "\" is not known here; known: Sequence, ByteLevel, Split, Digits, Punctuation, Metaspace, "
      "Whitespace, WhitespaceSplit, BertPreTokenizer"));
}

absl::Status WordSplitter::ReadSplit(const nlohmann::json& json) {
  static constexpr std::pair<const char*, Behavior> kBehaviors[] = {
      {"Removed", Behavior::kRemoved},
      {"Isolated", Behavior::kIsolated},
      {"MergedWithPrevious", Behavior::kMergedWithPrevious},
      {"MergedWithNext", Behavior::kMergedWithNext},
      {"Contiguous", Behavior::kContiguous}};
  const std::string type = TextPart(json, "type");
  std::string name = TextPart(json, "behavior");
  if (name.empty() && type == "Punctuation") name = "Isolated";
  absl::optional<Behavior> behavior;
  for (const auto& [known, one] : kBehaviors) {
    if (name == known) behavior = one;
  }
  if (!behavior.has_value()) {
    return WrongSplitter(absl::StrCat("\"", type, "\": behavior \"", name,
                                      "\" is not known here; known: Removed, Isolated, "
                                      "MergedWithPrevious, MergedWithNext, Contiguous"));
  }
  if (type == "Punctuation") return AddRegex(kPunctuationPattern, *behavior, false);
  const nlohmann::json& pattern = PartOf(json, "pattern");
  const std::string text = TextPart(pattern, "String"), regex = TextPart(pattern, "Regex");
  const bool invert = FlagPart(json, "invert", false);
  if (!regex.empty()) {
    return Annotate(AddRegex(regex, *behavior, invert), "pre_tokenizer \"Split\"");
  }
  if (text.empty()) return WrongSplitter("\"Split\" has no pattern");
  Step step;
  step.pattern = TokenPattern::OfText(text);
  step.behavior = *behavior;
  step.invert = invert;
  steps_.push_back(std::move(step));
  return absl::OkStatus();
}

absl::Status WordSplitter::ReadMetaspace(const nlohmann::json& json) {
  Step step;
  step.space = TextPart(json, "replacement");
  if (step.space.empty()) return WrongSplitter("\"Metaspace\" has no replacement");
  // Files of before 2023 have add_prefix_space, younger ones prepend_scheme.
  std::string scheme = TextPart(json, "prepend_scheme");
  if (scheme.empty()) scheme = FlagPart(json, "add_prefix_space", true) ? "always" : "never";
  if (scheme == "always") {
    step.prefix = Prefix::kAlways;
  } else if (scheme == "first") {
    step.prefix = Prefix::kFirst;
    asks_for_first_ = true;
  } else if (scheme != "never") {
    return WrongSplitter(absl::StrCat("\"Metaspace\": prepend_scheme \"", scheme,
                                      "\" is not known here; known: always, first, never"));
  }
  if (FlagPart(json, "split", true)) {
    step.pattern = TokenPattern::OfText(step.space);
    step.behavior = Behavior::kMergedWithNext;
  }
  steps_.push_back(std::move(step));
  return absl::OkStatus();
}

WordSplitter::Scratch::Scratch(const WordSplitter& splitter) {
  for (const Step& step : splitter.steps_) {
    auto& scratch = of_step_.emplace_back();
    if (step.pattern.has_value()) scratch.emplace(*step.pattern);
  }
}

// Parts come in order and cover the text. The last piece is held back while the next part may be
// joined to it.
class WordSplitter::Pieces {
 public:
  Pieces(Behavior behavior, std::function<absl::Status(size_t, size_t)> pass)
      : behavior_(behavior), pass_(std::move(pass)) {}

  absl::Status Add(size_t first, size_t end, bool match) {
    const bool before = std::exchange(matched_, match);
    switch (behavior_) {
      case Behavior::kIsolated:
        return pass_(first, end);
      case Behavior::kRemoved:
        return match ? absl::OkStatus() : pass_(first, end);
      case Behavior::kContiguous:
        if (held_ && match == before) return Extend(end);
        break;
      case Behavior::kMergedWithPrevious:
        if (held_ && match && !before) return Extend(end);
        break;
      case Behavior::kMergedWithNext:  // a match that stands before what is none
        if (held_ && before && !match) return Extend(end);
        break;
    }
    RETURN_IF_ERROR(Finish());
    held_ = true;
    first_ = first;
    end_ = end;
    return absl::OkStatus();
  }

  absl::Status Finish() {
    return std::exchange(held_, false) ? pass_(first_, end_) : absl::OkStatus();
  }

 private:
  absl::Status Extend(size_t end) {
    end_ = end;
    return absl::OkStatus();
  }

  const Behavior behavior_;
  const std::function<absl::Status(size_t, size_t)> pass_;
  bool matched_ = false;  // the part before was a match
  bool held_ = false;
  size_t first_ = 0, end_ = 0;  // of the held piece
};

absl::Status WordSplitter::Split(absl::string_view text, bool first, Scratch& scratch,
                                 const Take& take) const {
  // Behind the last step the alphabet would be read back at once: PassOn does not write it.
  if (!gives_bytes_ || steps_.back().byte_level) return SplitBy(0, text, first, scratch, take);
  std::string bytes;
  return SplitBy(0, text, first, scratch, [&](absl::string_view word) {
    BytesOfToken(word, &bytes);
    take(bytes);
  });
}

absl::Status WordSplitter::PassOn(size_t step, absl::string_view piece, bool first,
                                  Scratch& scratch, const Take& take) const {
  if (piece.empty()) return absl::OkStatus();
  const bool last = step + 1 == steps_.size();
  const bool writes = steps_[step].byte_level && !(last && gives_bytes_);
  if (last && !writes) {
    take(piece);
    return absl::OkStatus();
  }
  if (!writes) return SplitBy(step + 1, piece, first, scratch, take);
  return SplitBy(step + 1, TokenOfBytes(piece), first, scratch, take);
}

absl::Status WordSplitter::SplitBy(size_t step, absl::string_view text, bool first,
                                   Scratch& scratch, const Take& take) const {
  if (text.empty()) return absl::OkStatus();
  if (step == steps_.size()) {
    take(text);
    return absl::OkStatus();
  }
  const Step& now = steps_[step];
  std::string changed;
  const absl::string_view space = now.space.empty() ? absl::string_view(" ") : now.space;
  if (!now.space.empty()) {
    changed = absl::StrReplaceAll(text, {{" ", now.space}});
    text = changed;
  }
  if ((now.prefix == Prefix::kAlways || (now.prefix == Prefix::kFirst && first)) &&
      !absl::StartsWith(text, space)) {
    changed = absl::StrCat(space, text);
    text = changed;
  }
  if (!now.pattern.has_value()) return PassOn(step, text, first, scratch, take);
  const TokenPattern& pattern = *now.pattern;
  TokenPattern::Scratch& match = *scratch.of_step_[step];
  TokenPattern::Search search(text);
  const auto pass = [&](size_t begin, size_t end) {
    return PassOn(step, text.substr(begin, end - begin), first && begin == 0, scratch, take);
  };
  size_t done = 0;
  if (now.behavior == Behavior::kIsolated) {  // the usual one, and then every part is a piece
    while (pattern.Next(search, match)) {
      RETURN_IF_ERROR(pass(done, search.first));
      RETURN_IF_ERROR(pass(search.first, search.end));
      done = search.end;
    }
    RETURN_IF_ERROR(search.status);
    return pass(done, text.size());
  }
  Pieces pieces(now.behavior, pass);
  while (pattern.Next(search, match)) {
    if (search.first > done) RETURN_IF_ERROR(pieces.Add(done, search.first, now.invert));
    RETURN_IF_ERROR(pieces.Add(search.first, search.end, !now.invert));
    done = search.end;
  }
  RETURN_IF_ERROR(search.status);
  if (done < text.size()) RETURN_IF_ERROR(pieces.Add(done, text.size(), now.invert));
  return pieces.Finish();
}

}  // namespace atolld
