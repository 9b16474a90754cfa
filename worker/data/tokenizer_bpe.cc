#include "worker/data/tokenizer_bpe.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

constexpr char kSpaces[] =
    R"(\t-\r\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

pcre2_code* Code(void* code) { return static_cast<pcre2_code*>(code); }
pcre2_match_data* Match(void* match) { return static_cast<pcre2_match_data*>(match); }

std::string Message(int error) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

// GPT-2's own (openai/gpt-2, encoder.py), which a byte-level pre-tokenizer has built in.
const char kGpt2Pattern[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// The pattern with \s and \S written out as Unicode's White_Space: PCRE2 counts U+180E among them,
// which other engines do not.
std::string WithUnicodeSpaces(const std::string& pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c != '\\' || i + 1 == pattern.size()) {
      if (c == '[' && !in_class) {
        in_class = true;
      } else if (c == ']') {
        in_class = false;
      }
      out.push_back(c);
      continue;
    }
    const char escaped = pattern[++i];
    if (escaped == 's') {
      out += in_class ? kSpaces : absl::StrCat("[", kSpaces, "]");
    } else if (escaped == 'S' && !in_class) {
      absl::StrAppend(&out, "[^", kSpaces, "]");
    } else {
      out.push_back(c);
      out.push_back(escaped);
    }
  }
  return out;
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
bool BytesOfToken(absl::string_view token, std::string* bytes) {
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

// The reverse: the characters by which the model's tokens write `bytes`.
std::string TokenOfBytes(absl::string_view bytes) {
  static const auto characters = [] {
    std::array<uint32_t, 256> table{};
    for (uint32_t character = 0; character < 512; ++character) {
      const int byte = ByteOfCharacter()[character];
      if (byte >= 0) table[static_cast<size_t>(byte)] = character;
    }
    return table;
  }();
  std::string token;
  for (const char byte : bytes) AppendUtf8(characters[static_cast<uint8_t>(byte)], &token);
  return token;
}

// One step of a pre-tokenizer: what it does to each piece that the step before has left.
struct SplitStep {
  std::string pattern;      // its matches are pieces, and so is what lies between; empty: none
  bool byte_level = false;  // from here on, pieces are written in GPT-2's alphabet
  bool prefix = false;      // a space goes before a piece that begins with none
};

// Cuts text into the words that byte-pair merges never cross, by the regular expressions of a
// tokenizer's file. PCRE2, with UTF-8 and Unicode's properties. Immutable; any thread.
class WordSplitter {
 public:
  // Every step splits the pieces of the one before. INVALID_ARGUMENT quotes the pattern that is
  // none.
  static absl::StatusOr<WordSplitter> Make(const std::vector<SplitStep>& steps);

  WordSplitter(WordSplitter&&) noexcept;
  WordSplitter& operator=(WordSplitter&&) noexcept;
  ~WordSplitter();

  // The working memory of one thread's calls.
  class Scratch {
   public:
    explicit Scratch(const WordSplitter& splitter);
    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

   private:
    friend class WordSplitter;
    std::vector<void*> matches_;  // PCRE2's, one a step; null where the step has no pattern
  };

  // Calls `take` with each word, in order; together they are `text`, which must be UTF-8, and the
  // spaces that were put before pieces. INTERNAL: PCRE2 gave up.
  absl::Status Split(absl::string_view text, Scratch& scratch,
                     const std::function<void(absl::string_view)>& take) const;

 private:
  struct Compiled {
    void* code = nullptr;  // PCRE2's; null: no pattern
    bool prefix = false;
    bool writes_bytes = false;  // what follows works on GPT-2's alphabet
  };

  WordSplitter() = default;
  absl::Status SplitBy(size_t step, absl::string_view text, Scratch& scratch,
                       const std::function<void(absl::string_view)>& take) const;
  absl::Status PassOn(size_t step, absl::string_view piece, Scratch& scratch,
                      const std::function<void(absl::string_view)>& take) const;

  std::vector<Compiled> steps_;
  bool written_ = false;  // words arrive in GPT-2's alphabet
};

absl::StatusOr<WordSplitter> WordSplitter::Make(const std::vector<SplitStep>& steps) {
  WordSplitter splitter;
  for (size_t i = 0; i < steps.size(); ++i) {
    // Behind the last step the alphabet would be read back at once.
    Compiled& step = splitter.steps_.emplace_back();
    step.prefix = steps[i].prefix;
    step.writes_bytes = steps[i].byte_level && i + 1 < steps.size();
    splitter.written_ = splitter.written_ || step.writes_bytes;
    if (steps[i].pattern.empty()) continue;
    const std::string exact = WithUnicodeSpaces(steps[i].pattern);
    int error = 0;
    PCRE2_SIZE at = 0;
    pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(exact.data()), exact.size(),
                                     PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr);
    if (code == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("the pattern ", steps[i].pattern, " is not understood: ", Message(error)));
    }
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without it matching is slower, no more
    step.code = code;
  }
  return splitter;
}

WordSplitter::WordSplitter(WordSplitter&& other) noexcept
    : steps_(std::exchange(other.steps_, {})), written_(other.written_) {}

WordSplitter& WordSplitter::operator=(WordSplitter&& other) noexcept {
  std::swap(steps_, other.steps_);
  std::swap(written_, other.written_);
  return *this;
}

WordSplitter::~WordSplitter() {
  for (const Compiled& step : steps_) pcre2_code_free(Code(step.code));
}

WordSplitter::Scratch::Scratch(const WordSplitter& splitter) {
  for (const Compiled& step : splitter.steps_) {
    matches_.push_back(step.code == nullptr
                           ? nullptr
                           : pcre2_match_data_create_from_pattern(Code(step.code), nullptr));
  }
}

WordSplitter::Scratch::~Scratch() {
  for (void* match : matches_) pcre2_match_data_free(Match(match));
}

absl::Status WordSplitter::Split(absl::string_view text, Scratch& scratch,
                                 const std::function<void(absl::string_view)>& take) const {
  if (!written_) return SplitBy(0, text, scratch, take);
  std::string bytes;
  return SplitBy(0, text, scratch, [&](absl::string_view word) {
    BytesOfToken(word, &bytes);
    take(bytes);
  });
}

absl::Status WordSplitter::PassOn(size_t step, absl::string_view piece, Scratch& scratch,
                                  const std::function<void(absl::string_view)>& take) const {
  if (!steps_[step].writes_bytes) return SplitBy(step + 1, piece, scratch, take);
  return SplitBy(step + 1, TokenOfBytes(piece), scratch, take);
}

absl::Status WordSplitter::SplitBy(size_t step, absl::string_view text, Scratch& scratch,
                                   const std::function<void(absl::string_view)>& take) const {
  if (text.empty()) return absl::OkStatus();
  if (step == steps_.size()) {
    take(text);
    return absl::OkStatus();
  }
  std::string prefixed;
  if (steps_[step].prefix && text[0] != ' ') {
    prefixed = absl::StrCat(" ", text);
    text = prefixed;
  }
  if (steps_[step].code == nullptr) return PassOn(step, text, scratch, take);
  pcre2_match_data* match = Match(scratch.matches_[step]);
  size_t done = 0, from = 0;
  while (from < text.size()) {
    const int found =
        pcre2_match(Code(steps_[step].code), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                    from, PCRE2_NO_UTF_CHECK, match, nullptr);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) return absl::InternalError(absl::StrCat("PCRE2: ", Message(found)));
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match);
    const size_t first = bounds[0], end = bounds[1];
    if (first > done) {
      RETURN_IF_ERROR(PassOn(step, text.substr(done, first - done), scratch, take));
    }
    if (end > first) RETURN_IF_ERROR(PassOn(step, text.substr(first, end - first), scratch, take));
    done = end;
    from = end;
    if (first == end) {  // it matched nothing: go on behind the next character
      do {
        ++from;
      } while (from < text.size() && (text[from] & 0xc0) == 0x80);
    }
  }
  return done < text.size() ? PassOn(step, text.substr(done), scratch, take) : absl::OkStatus();
}

constexpr uint32_t kNone = 0xffffffff;

// Byte-pair merges: a word's bytes become tokens by joining, again and again, the adjacent pair of
// the lowest rank, the leftmost of equals (Sennrich et al. 2016). Immutable; any thread.
class BytePairs {
 public:
  // `of_byte`: the token of each byte; kNone: it has none.
  explicit BytePairs(const std::array<uint32_t, 256>& of_byte)
      : of_byte_(of_byte),
        whole_(std::find(of_byte.begin(), of_byte.end(), kNone) == of_byte.end()) {}

  // The place of the first byte that has no token; text.size(): all have one. Words with such a
  // byte are not to be encoded.
  size_t FindUnknown(absl::string_view text) const;

  // The next rank: `left` and `right` become `joined`. A pair that has a rank keeps it.
  void Add(uint32_t left, uint32_t right, uint32_t joined);

  // Appends the tokens of a word of any bytes, in O(n log n).
  void Encode(absl::string_view word, std::vector<uint32_t>* out) const;

 private:
  struct Merge {
    uint32_t rank = 0;
    uint32_t joined = 0;
  };

  const Merge* Find(uint32_t left, uint32_t right) const;

  std::array<uint32_t, 256> of_byte_;
  bool whole_;                                   // every byte has a token
  absl::flat_hash_map<uint64_t, Merge> merges_;  // by left << 32 | right
  uint32_t ranks_ = 0;
};

uint64_t Key(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }

// A token of the word so far, in a list by position of its first byte.
struct Symbol {
  uint32_t token;
  uint32_t before, after;  // kNone: the end
};

struct Candidate {
  uint32_t rank;
  uint32_t left, right;  // positions
  uint32_t left_token, right_token, joined;

  bool operator>(const Candidate& other) const {
    return std::tie(rank, left) > std::tie(other.rank, other.left);
  }
};

void BytePairs::Add(uint32_t left, uint32_t right, uint32_t joined) {
  merges_.emplace(Key(left, right), Merge{ranks_++, joined});
}

const BytePairs::Merge* BytePairs::Find(uint32_t left, uint32_t right) const {
  const auto found = merges_.find(Key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

size_t BytePairs::FindUnknown(absl::string_view text) const {
  if (whole_) return text.size();
  const auto found = std::find_if(text.begin(), text.end(), [this](char byte) {
    return of_byte_[static_cast<uint8_t>(byte)] == kNone;
  });
  return static_cast<size_t>(found - text.begin());
}

void BytePairs::Encode(absl::string_view word, std::vector<uint32_t>* out) const {
  const auto size = static_cast<uint32_t>(word.size());
  std::vector<Symbol> symbols;
  symbols.reserve(size);
  for (uint32_t i = 0; i < size; ++i) {
    symbols.push_back({of_byte_[static_cast<uint8_t>(word[i])], i == 0 ? kNone : i - 1,
                       i + 1 == size ? kNone : i + 1});
  }
  std::vector<Candidate> heap;
  const auto consider = [&](uint32_t left, uint32_t right) {
    if (left == kNone || right == kNone) return;
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
    right.token = kNone;
    if (left.after != kNone) symbols[left.after].before = best.left;
    consider(left.before, best.left);
    consider(best.left, left.after);
  }
  for (uint32_t i = 0; i != kNone && i < size; i = symbols[i].after) {
    out->push_back(symbols[i].token);
  }
}

// A form of Unicode's that text may have to be brought into, which is not known here: characters
// below `changes_from` are in it already.
struct Normalizer {
  std::string name;
  uint32_t changes_from = 0x110000;
};

// What a tokenizer.json with a byte-level BPE model says, checked.
struct BpeFile {
  struct Added {
    std::string content;
    uint32_t id = 0;
    std::string unknown;  // what is not known of how it is found; empty: nothing
  };
  struct Merge {
    uint32_t left, right, joined;
  };

  std::vector<SplitStep> steps;  // of the pre-tokenizer, in order
  Normalizer normalizer;
  bool ignore_merges = false;         // a word that is a token is never made by merges
  std::vector<std::string> bytes_of;  // by id; empty: no such token
  absl::flat_hash_map<std::string, uint32_t> id_of;  // of the model's tokens, by their bytes
  std::vector<Merge> merges;                         // by rank
  std::vector<Added> added;                          // found in the text before all else
};

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

// A part that is there and says something: not null, 0, false or empty.
bool Says(const nlohmann::json& part) {
  if (part.is_number()) return part.get<double>() != 0;
  if (part.is_boolean()) return part.get<bool>();
  if (part.is_string()) return !part.get_ref<const std::string&>().empty();
  return !part.empty();
}

// Forms leave alone what lies below their first character that decomposes or joins (Unicode 15,
// DerivedNormalizationProps.txt). What does nothing at all is no normaliser.
absl::Status ReadNormalizer(const nlohmann::json& json, Normalizer* out) {
  if (!Says(json)) return absl::OkStatus();
  const std::string type = Text(json, "type");
  if (type == "Sequence") {
    for (const nlohmann::json& one : Part(json, "normalizers")) {
      RETURN_IF_ERROR(ReadNormalizer(one, out));
    }
    return absl::OkStatus();
  }
  static constexpr std::pair<const char*, uint32_t> kForms[] = {
      {"NFC", 0x300}, {"NFD", 0xc0}, {"NFKC", 0xa0}, {"NFKD", 0xa0}};
  for (const auto& [form, first] : kForms) {
    if (type != form) continue;
    if (first < out->changes_from) *out = {form, first};
    return absl::OkStatus();
  }
  const bool nothing =
      (type == "Strip" && !Flag(json, "strip_left", true) && !Flag(json, "strip_right", true)) ||
      (type == "Prepend" && Text(json, "prepend").empty());
  return nothing
             ? absl::OkStatus()
             : WrongTokenizer(absl::StrCat("normalizer: \"", type,
                                           "\" is not known; NFC, NFD, NFKC and NFKD are, where "
                                           "they change nothing in the text"));
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
    if (std::exchange(*byte_level, true)) {
      return WrongTokenizer("pre_tokenizer has two ByteLevel; the text would be written twice");
    }
    out->steps.push_back({Flag(json, "use_regex", true) ? kGpt2Pattern : "", /*byte_level=*/true,
                          Flag(json, "add_prefix_space", true)});
    return absl::OkStatus();
  }
  if (type == "Digits") {
    out->steps.push_back({Flag(json, "individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)"});
    return absl::OkStatus();
  }
  const std::string pattern = Text(Part(json, "pattern"), "Regex");
  if (type == "Split" && !pattern.empty() && Text(json, "behavior") == "Isolated" &&
      !Flag(json, "invert", false)) {
    out->steps.push_back({pattern});
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
    std::string unknown;  // matters where the text holds the token
    for (const char* flag : {"lstrip", "rstrip", "single_word"}) {
      if (Flag(one, flag, false)) unknown = absl::StrCat(name, ": ", flag);
    }
    const auto number = id.get<uint32_t>();
    if (number >= out->bytes_of.size()) out->bytes_of.resize(size_t{number} + 1);
    out->bytes_of[number] = content;
    out->added.push_back({content, number, unknown});
  }
  return absl::OkStatus();
}

// INVALID_ARGUMENT names the part that is missing, wrong or not known.
absl::StatusOr<BpeFile> ReadBpeFile(const nlohmann::json& json) {
  const nlohmann::json& model = Part(json, "model");
  const std::string type = Text(model, "type");
  // The oldest files do not say it; merges are BPE's alone.
  if (type != "BPE" && !(type.empty() && Part(model, "merges").is_array())) {
    return WrongTokenizer(absl::StrCat("model.type is \"", type, "\"; known: BPE"));
  }
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
    if (Says(Part(model, key))) return WrongTokenizer(absl::StrCat("model.", key, " is not known"));
  }
  BpeFile out;
  RETURN_IF_ERROR(ReadNormalizer(Part(json, "normalizer"), &out.normalizer));
  bool byte_level = false;
  RETURN_IF_ERROR(ReadPreTokenizer(Part(json, "pre_tokenizer"), &out, &byte_level));
  if (!byte_level) return WrongTokenizer("pre_tokenizer has no ByteLevel; known: byte-level BPE");
  out.ignore_merges = Flag(model, "ignore_merges", false);
  RETURN_IF_ERROR(ReadVocabulary(model, &out));
  RETURN_IF_ERROR(ReadMerges(model, &out));
  RETURN_IF_ERROR(ReadAdded(json, &out));
  return out;
}

// What an encoder remembers: the words of a language are few and come again. Past the limit it
// forgets all.
constexpr size_t kRememberedWords = size_t{1} << 18;
constexpr size_t kLongestRemembered = 48;

BytePairs MakePairs(const BpeFile& file) {
  std::array<uint32_t, 256> of_byte;
  for (size_t byte = 0; byte < of_byte.size(); ++byte) {
    const auto found = file.id_of.find(std::string(1, static_cast<char>(byte)));
    of_byte[byte] = found == file.id_of.end() ? kNone : found->second;
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
    }
  }

  std::string kind() const override { return "bpe"; }
  uint32_t vocabulary() const override { return static_cast<uint32_t>(file_.bytes_of.size()); }
  bool CutsAtSpaces() const override { return cuts_; }
  std::unique_ptr<Encoder> NewEncoder() const override;

  absl::optional<uint32_t> IdOf(const std::string& token) const override {
    for (const BpeFile::Added& one : file_.added) {
      if (one.content == token) return one.id;
    }
    const auto found = file_.id_of.find(token);
    if (found == file_.id_of.end()) return absl::nullopt;
    return found->second;
  }

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
      if (!added->unknown.empty()) {
        return absl::InvalidArgumentError(absl::StrCat("the text holds \"", added->content,
                                                       "\" at byte ", i, ", and ", added->unknown,
                                                       " is not known"));
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
    if (const size_t at = tokenizer_.pairs_.FindUnknown(text); at != text.size()) {
      return absl::InvalidArgumentError(absl::StrCat("the text holds the byte ",
                                                     static_cast<uint8_t>(text[at]),
                                                     ", for which model.vocab has no token"));
    }
    while (!text.empty()) {
      const auto bytes =
          absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()), text.size());
      const size_t valid = FindInvalidUtf8(bytes);
      RETURN_IF_ERROR(CheckNormalized(bytes.first(valid)));
      RETURN_IF_ERROR(tokenizer_.splitter_.Split(
          text.substr(0, valid), scratch_, [this](absl::string_view word) { EncodeWord(word); }));
      if (valid == text.size()) break;
      EncodeWord(text.substr(valid, 1));
      text.remove_prefix(valid + 1);
    }
    return absl::OkStatus();
  }

  // Below U+0080 no form changes anything.
  absl::Status CheckNormalized(absl::Span<const uint8_t> text) const {
    const Normalizer& normalizer = tokenizer_.file_.normalizer;
    if (normalizer.name.empty()) return absl::OkStatus();
    for (size_t i = 0; i < text.size();) {
      const size_t length = Utf8Length(text.subspan(i));
      const uint32_t character = ReadUtf8(text.subspan(i, length));
      if (character >= normalizer.changes_from) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "the tokenizer's normalizer %s is not known, and it may change U+%04X of the text",
            normalizer.name, character));
      }
      i += length;
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
  auto splitter = WordSplitter::Make(parsed.steps);
  RETURN_IF_ERROR(Annotate(splitter.status(), "pre_tokenizer"));
  return std::unique_ptr<Tokenizer>(
      std::make_unique<BpeTokenizer>(std::move(file), std::move(parsed), *std::move(splitter)));
}

}  // namespace atolld
