#include "membership/run/round_text.h"

#include "absl/strings/str_format.h"

namespace atolld {

std::string ExchangeTime(const v1::RoundRecord& round) {
  if (round.exchange_seconds() <= 0) return "-";
  std::string text = absl::StrFormat("%.2f s", round.exchange_seconds());
  if (round.predicted_seconds() > 0) {
    absl::StrAppendFormat(&text, " (predicted %.2f s)", round.predicted_seconds());
  }
  if (round.audit_seconds() > 0)
    absl::StrAppendFormat(&text, ", audit %.2f s", round.audit_seconds());
  return text;
}

}  // namespace atolld
