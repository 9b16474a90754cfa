#include "compression/base/words.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "compression/base/names.h"

namespace atolld {
namespace {

// The most of a wrong value that a message shows; more would not help.
constexpr size_t kMostShown = 64;

bool IsVowel(char c) { return absl::StrContains("aeiou", absl::string_view(&c, 1)); }

std::string Shown(absl::string_view text) {
  return absl::StrCat("'", OneLine(text, kMostShown), "'");
}

bool AreDigits(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
}

}  // namespace

std::string Noun(uint64_t count, absl::string_view noun) {
  if (count == 1) return std::string(noun);
  absl::string_view stem = noun;
  if (noun.size() > 1 && !IsVowel(noun[noun.size() - 2]) && absl::ConsumeSuffix(&stem, "y")) {
    return absl::StrCat(stem, "ies");
  }
  for (const char* hissing : {"s", "x", "ch", "sh"}) {
    if (absl::EndsWith(noun, hissing)) return absl::StrCat(noun, "es");
  }
  return absl::StrCat(noun, "s");
}

std::string Counted(uint64_t count, absl::string_view noun) {
  return absl::StrCat(count, " ", Noun(count, noun));
}

std::string Counted(uint64_t count, absl::string_view one, absl::string_view many) {
  return absl::StrCat(count, " ", count == 1 ? one : many);
}

absl::StatusOr<uint64_t> ParseWholeNumber(absl::string_view text, uint64_t least, uint64_t most) {
  const bool negative = absl::StartsWith(text, "-") && AreDigits(text.substr(1));
  if (!negative && !AreDigits(text)) {
    return absl::InvalidArgumentError(absl::StrCat(Shown(text), " is not a whole number"));
  }
  uint64_t value = 0;
  if (negative || (absl::SimpleAtoi(text, &value) && value < least)) {
    return absl::InvalidArgumentError(
        absl::StrCat(Shown(text), " is below ", least, ", the least that is allowed"));
  }
  if (!absl::SimpleAtoi(text, &value) || value > most) {
    return absl::InvalidArgumentError(
        absl::StrCat(Shown(text), " is above ", most, ", the largest that is allowed"));
  }
  return value;
}

absl::StatusOr<double> ParseNumber(absl::string_view text) {
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || !std::isfinite(value)) {
    return absl::InvalidArgumentError(absl::StrCat(Shown(text), " is not a number"));
  }
  return value;
}

}  // namespace atolld
