#include "compression/base/number_words.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_format.h"

namespace atolld {

const char* WordOf(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return nullptr;
}

std::optional<double> ValueOfWord(absl::string_view word) {
  for (const double value :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
        -std::numeric_limits<double>::infinity()}) {
    if (word == WordOf(value)) return value;
  }
  return std::nullopt;
}

std::string NumberText(double value, int decimals) {
  const char* const word = WordOf(value);
  return word != nullptr ? word : absl::StrFormat("%.*f", decimals, value);
}

}  // namespace atolld
