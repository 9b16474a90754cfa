#include "daemon/experiment/partition/label_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"

namespace atolld {
namespace {

std::string PatternError(int error) {
  unsigned char text[256] = {};
  pcre2_get_error_message(error, text, sizeof text);
  return std::string(reinterpret_cast<const char*>(text));
}

}  // namespace

absl::StatusOr<LabelPattern> LabelPattern::Compile(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* const code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()),
                                         pattern.size(), PCRE2_MULTILINE, &error, &at, nullptr);
  if (code == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("'", pattern, "' is not a regular expression: ",
                                                   PatternError(error), ", at character ", at + 1));
  }
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without it matching is slower, no more
  pcre2_match_data* const match = pcre2_match_data_create_from_pattern(code, nullptr);
  CHECK(match != nullptr);
  LabelPattern compiled(code, match);
  uint32_t groups = 0;
  pcre2_pattern_info(code, PCRE2_INFO_CAPTURECOUNT, &groups);
  if (groups != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", pattern, "' has ", groups,
        " groups; it must have one, whose text is the label; write (?:) for other parentheses"));
  }
  return compiled;
}

LabelPattern::LabelPattern(LabelPattern&& other) noexcept
    : code_(std::exchange(other.code_, nullptr)), match_(std::exchange(other.match_, nullptr)) {}

LabelPattern::~LabelPattern() {
  pcre2_match_data_free(static_cast<pcre2_match_data*>(match_));
  pcre2_code_free(static_cast<pcre2_code*>(code_));
}

absl::StatusOr<absl::string_view> LabelPattern::Find(absl::string_view text) const {
  pcre2_match_data* const match = static_cast<pcre2_match_data*>(match_);
  const int found =
      pcre2_match(static_cast<const pcre2_code*>(code_), reinterpret_cast<PCRE2_SPTR>(text.data()),
                  text.size(), 0, 0, match, nullptr);
  if (found == PCRE2_ERROR_NOMATCH) return absl::string_view();
  if (found < 0) return absl::InvalidArgumentError(PatternError(found));
  const PCRE2_SIZE* const bounds = pcre2_get_ovector_pointer(match);
  if (found < 2 || bounds[2] == PCRE2_UNSET) return absl::string_view();
  return text.substr(bounds[2], bounds[3] - bounds[2]);
}

}  // namespace atolld
