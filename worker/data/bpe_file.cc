#include "worker/data/bpe_file.h"

#include <array>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "worker/data/utf8.h"
#include "worker/data/word_splitter.h"

namespace atolld {
namespace {

constexpr uint64_t kMostIds = uint64_t{1} << 24;  // far above any vocabulary

absl::Status WrongTokenizer(absl::string_view what) { return absl::InvalidArgumentError(what); }

const nlohmann::json& Part(const nlohmann::json& json, const char* key) {
  static const nlohmann::json kNull;
  if (!json.is_object()) return kNull;
  const auto found = json.find(key);
  return found == json.end() ? kNull : *found;
}

std::string Text(const nlohmann::json& json, const char* key) {
  const nlohmann::json& part = Part(json, key);
  return part.is_string() ? part.get<std::string>() : "";
}

bool Flag(const nlohmann::json& json, const char* key, bool otherwise) {
  const nlohmann::json& part = Part(json, key);
  return part.is_boolean() ? part.get<bool>() : otherwise;
}

// A number, list or object that is there and says something.
bool Says(const nlohmann::json& part) {
  return !part.is_null() && !(part.is_string() && part.get_ref<const std::string&>().empty());
}

// GPT-2's alphabet: printable Latin-1 characters are themselves, the other bytes the characters
// from U+0100 on. The byte of each of its 512 first characters, -1: none.
const std::array<int, 512>& ByteOfCharacter() {
  static const auto table = [] {
    std::array<int, 512> bytes;
    bytes.fill(-1);
    size_t next = 256;
    for (size_t byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
      bytes[printable ? byte : next++] = static_cast<int>(byte);
    }
    return bytes;
  }();
  return table;
}

// The bytes that a token of the model stands for; false: it holds a character that is no byte's.
bool BytesOfToken(const std::string& token, std::string* bytes) {
  const auto text =
      absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(token.data()), token.size());
  bytes->clear();
  for (size_t i = 0; i < text.size();) {
    const size_t length = Utf8Length(text.subspan(i));
    if (length == 0) return false;
    const uint32_t character = ReadUtf8(text.subspan(i, length));
    if (character >= 512 || ByteOfCharacter()[character] < 0) return false;
    bytes->push_back(static_cast<char>(ByteOfCharacter()[character]));
    i += length;
  }
  return true;
}

absl::Status ReadPreTokenizer(const nlohmann::json& json, BpeFile* out, bool* byte_level) {
  const std::string type = Text(json, "type");
  if (type == "Sequence") {
    for (const nlohmann::json& one : Part(json, "pretokenizers")) {
      RETURN_IF_ERROR(ReadPreTokenizer(one, out, byte_level));
    }
    return absl::OkStatus();
  }
  if (type == "ByteLevel") {
    *byte_level = true;
    out->add_prefix_space = Flag(json, "add_prefix_space", true);
    if (Flag(json, "use_regex", true)) out->patterns.push_back(kGpt2Pattern);
    return absl::OkStatus();
  }
  if (type == "Digits") {
    out->patterns.push_back(Flag(json, "individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)");
    return absl::OkStatus();
  }
  const std::string pattern = Text(Part(json, "pattern"), "Regex");
  if (type == "Split" && !pattern.empty() && Text(json, "behavior") == "Isolated" &&
      !Flag(json, "invert", false)) {
    out->patterns.push_back(pattern);
    return absl::OkStatus();
  }
  return WrongTokenizer(
      absl::StrCat("pre_tokenizer: \"", type,
                   "\" of this form is not known; known: Sequence, ByteLevel, Digits, "
                   "Split by a Regex with behavior Isolated"));
}

absl::Status ReadVocabulary(const nlohmann::json& model, BpeFile* out) {
  const nlohmann::json& vocabulary = Part(model, "vocab");
  if (!vocabulary.is_object()) return WrongTokenizer("model.vocab is not an object");
  std::string bytes;
  for (const auto& [token, id] : vocabulary.items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= kMostIds) {
      return WrongTokenizer(
          absl::StrCat("model.vocab: the id of \"", token, "\" is no number below ", kMostIds));
    }
    const auto number = id.get<uint32_t>();
    if (number >= out->bytes_of.size()) out->bytes_of.resize(size_t{number} + 1);
    const bool of_bytes = BytesOfToken(token, &bytes);
    if (of_bytes) out->id_of.emplace(bytes, number);
    out->bytes_of[number] = of_bytes ? bytes : token;
  }
  for (int byte = 0; byte < 256; ++byte) {
    if (out->id_of.contains(std::string(1, static_cast<char>(byte)))) continue;
    return WrongTokenizer(absl::StrCat("model.vocab has no token for byte ", byte));
  }
  return absl::OkStatus();
}

absl::Status ReadMerges(const nlohmann::json& model, BpeFile* out) {
  const nlohmann::json& merges = Part(model, "merges");
  if (!merges.is_array()) return WrongTokenizer("model.merges is not a list");
  for (const nlohmann::json& merge : merges) {
    const auto wrong = [&](absl::string_view what) {
      return WrongTokenizer(absl::StrCat("model.merges[", out->merges.size(), "] ", what));
    };
    std::string parts[2];
    if (merge.is_string()) {
      const auto text = merge.get<std::string>();
      const size_t space = text.find(' ');
      if (space == std::string::npos) return wrong("is not two tokens");
      parts[0] = text.substr(0, space);
      parts[1] = text.substr(space + 1);
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      parts[0] = merge[0].get<std::string>();
      parts[1] = merge[1].get<std::string>();
    } else {
      return wrong("is not two tokens");
    }
    std::string bytes[2];
    if (!BytesOfToken(parts[0], &bytes[0]) || !BytesOfToken(parts[1], &bytes[1])) {
      return wrong("is not of byte-level tokens");
    }
    const auto left = out->id_of.find(bytes[0]), right = out->id_of.find(bytes[1]);
    const auto joined = out->id_of.find(bytes[0] + bytes[1]);
    if (left == out->id_of.end() || right == out->id_of.end() || joined == out->id_of.end()) {
      return wrong("names a token that model.vocab lacks");
    }
    out->merges.push_back({left->second, right->second, joined->second});
  }
  return absl::OkStatus();
}

absl::Status ReadAdded(const nlohmann::json& json, BpeFile* out) {
  for (const nlohmann::json& one : Part(json, "added_tokens")) {
    const std::string content = Text(one, "content");
    const nlohmann::json& id = Part(one, "id");
    const std::string name = absl::StrCat("added_tokens[", out->added.size(), "]");
    if (content.empty() || !id.is_number_unsigned() || id.get<uint64_t>() >= kMostIds) {
      return WrongTokenizer(absl::StrCat(name, " has no content or no id"));
    }
    for (const char* flag : {"lstrip", "rstrip", "single_word"}) {
      if (Flag(one, flag, false))
        return WrongTokenizer(absl::StrCat(name, ": ", flag, " is not known"));
    }
    const auto number = id.get<uint32_t>();
    if (number >= out->bytes_of.size()) out->bytes_of.resize(size_t{number} + 1);
    out->bytes_of[number] = content;
    out->added.push_back({content, number});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BpeFile> ReadBpeFile(const nlohmann::json& json) {
  const nlohmann::json& model = Part(json, "model");
  if (Text(model, "type") != "BPE") {
    return WrongTokenizer(absl::StrCat("model.type is \"", Text(model, "type"), "\"; known: BPE"));
  }
  if (Says(Part(json, "normalizer"))) {
    return WrongTokenizer(absl::StrCat("normalizer \"", Text(Part(json, "normalizer"), "type"),
                                       "\" is not known; text is taken as it is"));
  }
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
    if (Says(Part(model, key))) return WrongTokenizer(absl::StrCat("model.", key, " is not known"));
  }
  BpeFile out;
  bool byte_level = false;
  RETURN_IF_ERROR(ReadPreTokenizer(Part(json, "pre_tokenizer"), &out, &byte_level));
  if (!byte_level) return WrongTokenizer("pre_tokenizer has no ByteLevel; known: byte-level BPE");
  out.ignore_merges = Flag(model, "ignore_merges", false);
  RETURN_IF_ERROR(ReadVocabulary(model, &out));
  RETURN_IF_ERROR(ReadMerges(model, &out));
  RETURN_IF_ERROR(ReadAdded(json, &out));
  return out;
}

}  // namespace atolld
