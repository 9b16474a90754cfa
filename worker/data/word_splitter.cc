#include "worker/data/word_splitter.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <utility>

#include "absl/strings/str_cat.h"

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

}  // namespace

const char kGpt2Pattern[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

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

absl::StatusOr<WordSplitter> WordSplitter::Make(const std::vector<std::string>& patterns) {
  WordSplitter splitter;
  for (const std::string& pattern : patterns) {
    const std::string exact = WithUnicodeSpaces(pattern);
    int error = 0;
    PCRE2_SIZE at = 0;
    pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(exact.data()), exact.size(),
                                     PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr);
    if (code == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("the pattern ", pattern, " is not understood: ", Message(error)));
    }
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without it matching is slower, no more
    splitter.codes_.push_back(code);
  }
  return splitter;
}

WordSplitter::WordSplitter(WordSplitter&& other) noexcept
    : codes_(std::exchange(other.codes_, {})) {}

WordSplitter& WordSplitter::operator=(WordSplitter&& other) noexcept {
  std::swap(codes_, other.codes_);
  return *this;
}

WordSplitter::~WordSplitter() {
  for (void* code : codes_) pcre2_code_free(Code(code));
}

WordSplitter::Scratch::Scratch(const WordSplitter& splitter) {
  for (void* code : splitter.codes_) {
    matches_.push_back(pcre2_match_data_create_from_pattern(Code(code), nullptr));
  }
}

WordSplitter::Scratch::~Scratch() {
  for (void* match : matches_) pcre2_match_data_free(Match(match));
}

absl::Status WordSplitter::Split(absl::string_view text, Scratch& scratch,
                                 const std::function<void(absl::string_view)>& take) const {
  return SplitBy(0, text, scratch, take);
}

absl::Status WordSplitter::SplitBy(size_t pattern, absl::string_view text, Scratch& scratch,
                                   const std::function<void(absl::string_view)>& take) const {
  if (text.empty()) return absl::OkStatus();
  if (pattern == codes_.size()) {
    take(text);
    return absl::OkStatus();
  }
  const auto pass_on = [&](size_t first, size_t end) {
    return SplitBy(pattern + 1, text.substr(first, end - first), scratch, take);
  };
  pcre2_match_data* match = Match(scratch.matches_[pattern]);
  size_t done = 0, from = 0;
  while (from < text.size()) {
    const int found = pcre2_match(Code(codes_[pattern]), reinterpret_cast<PCRE2_SPTR>(text.data()),
                                  text.size(), from, PCRE2_NO_UTF_CHECK, match, nullptr);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) return absl::InternalError(absl::StrCat("PCRE2: ", Message(found)));
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match);
    const size_t first = bounds[0], end = bounds[1];
    if (first > done) {
      const absl::Status between = pass_on(done, first);
      if (!between.ok()) return between;
    }
    const absl::Status word = pass_on(first, end);
    if (!word.ok()) return word;
    done = end;
    from = end;
    if (first == end) {  // it matched nothing: go on behind the next character
      do {
        ++from;
      } while (from < text.size() && (text[from] & 0xc0) == 0x80);
    }
  }
  return pass_on(done, text.size());
}

}  // namespace atolld
