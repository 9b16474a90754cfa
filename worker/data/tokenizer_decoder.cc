#include "worker/data/tokenizer_decoder.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "compression/base/status_macros.h"
#include "compression/base/utf8.h"
#include "worker/data/json_record.h"
#include "worker/data/token_model.h"
#include "worker/data/token_pattern.h"

namespace atolld {
namespace {

enum class Turn { kByteLevel, kMetaspace, kByteFallback, kFuse, kReplace, kStrip, kSuffix };

constexpr char kReplacement[] = "\xef\xbf\xbd";  // U+FFFD

// Returns the byte of a token like "<0x41>", or nullopt for any other token.
absl::optional<char> ByteOfToken(absl::string_view token) {
  uint32_t byte = 0;
  if (token.size() != 6 || !absl::StartsWith(token, "<0x") || token[5] != '>' ||
      !absl::SimpleHexAtoi(token.substr(3, 2), &byte)) {
    return absl::nullopt;
  }
  return static_cast<char>(byte);
}

// Runs of bytes become text if they are UTF-8, and otherwise a U+FFFD for each byte.
std::vector<std::string> WithBytes(const std::vector<std::string>& tokens) {
  std::vector<std::string> out;
  std::string run;
  const auto end_run = [&] {
    if (FindInvalidUtf8(run) == run.size()) {
      if (!run.empty()) out.push_back(run);
    } else {
      out.insert(out.end(), run.size(), kReplacement);
    }
    run.clear();
  };
  for (const std::string& token : tokens) {
    if (const auto byte = ByteOfToken(token)) {
      run.push_back(*byte);
      continue;
    }
    end_run();
    out.push_back(token);
  }
  end_run();
  return out;
}

std::string StrippedOf(absl::string_view token, absl::string_view content, uint64_t start,
                       uint64_t stop) {
  for (; start > 0 && absl::StartsWith(token, content); --start) {
    token.remove_prefix(content.size());
  }
  for (; stop > 0 && absl::EndsWith(token, content); --stop) token.remove_suffix(content.size());
  return std::string(token);
}

uint64_t CountPart(const nlohmann::json& json, const char* key) {
  const nlohmann::json& part = PartOf(json, key);
  return part.is_number_unsigned() ? part.get<uint64_t>() : 0;
}

}  // namespace

struct TokenDecoder::Step {
  Turn turn = Turn::kFuse;
  std::string from, to;                  // what is replaced, stripped or a suffix, and by what
  absl::optional<TokenPattern> pattern;  // of a Replace by a pattern
  bool drops_first = false;              // a Metaspace's space of the first token
  uint64_t start = 0, stop = 0;          // how many are stripped
};

TokenDecoder::TokenDecoder() = default;
TokenDecoder::TokenDecoder(TokenDecoder&&) noexcept = default;
TokenDecoder& TokenDecoder::operator=(TokenDecoder&&) noexcept = default;
TokenDecoder::~TokenDecoder() = default;

TokenDecoder TokenDecoder::Parse(const nlohmann::json& json, bool byte_level) {
  TokenDecoder decoder;
  if (SaysSomething(json)) {
    decoder.Read(json);
  } else if (byte_level) {
    decoder.Read({{"type", "ByteLevel"}});
  } else {
    decoder.joins_with_spaces_ = true;
  }
  return decoder;
}

void TokenDecoder::Read(const nlohmann::json& json) {
  const std::string type = TextPart(json, "type");
  if (type == "Sequence") {
    for (const nlohmann::json& one : PartOf(json, "decoders")) Read(one);
    return;
  }
  if (type == "Replace") return ReadReplace(json);
  Step step;
  if (type == "ByteLevel") {
    step.turn = Turn::kByteLevel;
  } else if (type == "ByteFallback") {
    step.turn = Turn::kByteFallback;
  } else if (type == "Metaspace") {
    step.turn = Turn::kMetaspace;
    step.from = TextPart(json, "replacement");
    step.drops_first =
        TextPart(json, "prepend_scheme") != "never" && FlagPart(json, "add_prefix_space", true);
  } else if (type == "Strip") {
    step.turn = Turn::kStrip;
    step.from = TextPart(json, "content");
    step.start = CountPart(json, "start");
    step.stop = CountPart(json, "stop");
  } else if (type == "BPEDecoder") {
    step.turn = Turn::kSuffix;
    step.from = TextPart(json, "suffix");
  } else if (type != "Fuse") {
    known_.Update(absl::InvalidArgumentError(
        absl::StrCat("decoder \"", type,
                     "\" is not known here; known: Sequence, ByteLevel, ByteFallback, Metaspace, "
                     "Replace, Strip, Fuse, BPEDecoder")));
  }
  const bool empty = step.from.empty() && (step.turn == Turn::kMetaspace ||
                                           step.turn == Turn::kStrip || step.turn == Turn::kSuffix);
  if (empty) return;
  steps_.push_back(std::move(step));
}

void TokenDecoder::ReadReplace(const nlohmann::json& json) {
  const nlohmann::json& pattern = PartOf(json, "pattern");
  const std::string regex = TextPart(pattern, "Regex");
  Step step;
  step.turn = Turn::kReplace;
  step.from = TextPart(pattern, "String");
  step.to = TextPart(json, "content");
  if (!regex.empty()) {
    auto compiled = TokenPattern::OfRegex(regex);
    if (!compiled.ok()) return known_.Update(Annotate(compiled.status(), "decoder \"Replace\""));
    step.pattern = *std::move(compiled);
  } else if (step.from.empty()) {
    return known_.Update(absl::InvalidArgumentError("decoder \"Replace\" has no pattern"));
  }
  steps_.push_back(std::move(step));
}

bool TokenDecoder::is_byte_level() const {
  return known_.ok() && steps_.size() == 1 && steps_[0].turn == Turn::kByteLevel;
}

std::string TokenDecoder::BytesOf(const std::string& token) {
  std::string bytes;
  return BytesOfToken(token, &bytes) ? bytes : token;
}

absl::StatusOr<std::string> TokenDecoder::Decode(std::vector<std::string> tokens) const {
  RETURN_IF_ERROR(known_);
  for (const Step& step : steps_) {
    if (tokens.empty()) break;
    switch (step.turn) {
      case Turn::kByteLevel:
        for (std::string& token : tokens) token = BytesOf(token);
        tokens = {absl::StrJoin(tokens, "")};
        break;
      case Turn::kMetaspace:
        for (size_t i = 0; i < tokens.size(); ++i) {
          const char* space = i == 0 && step.drops_first ? "" : " ";
          tokens[i] = absl::StrReplaceAll(tokens[i], {{step.from, space}});
        }
        break;
      case Turn::kByteFallback:
        tokens = WithBytes(tokens);
        break;
      case Turn::kFuse:
        tokens = {absl::StrJoin(tokens, "")};
        break;
      case Turn::kReplace:
        for (std::string& token : tokens) {
          if (!step.pattern.has_value()) {
            token = absl::StrReplaceAll(token, {{step.from, step.to}});
          } else if (!token.empty()) {
            ASSIGN_OR_RETURN(token, step.pattern->Replace(token, step.to));
          }
        }
        break;
      case Turn::kStrip:
        for (std::string& token : tokens) {
          token = StrippedOf(token, step.from, step.start, step.stop);
        }
        break;
      case Turn::kSuffix:
        for (size_t i = 0; i < tokens.size(); ++i) {
          const char* space = i + 1 == tokens.size() ? "" : " ";
          tokens[i] = absl::StrReplaceAll(tokens[i], {{step.from, space}});
        }
        break;
    }
  }
  return absl::StrJoin(tokens, joins_with_spaces_ ? " " : "");
}

}  // namespace atolld
