#include "membership/round_text.h"

#include "absl/strings/str_format.h"

namespace atolld {

std::string ExchangeTime(const v1::RoundRecord& round) {
  if (round.exchange_seconds() <= 0) return "-";
  if (round.predicted_seconds() <= 0) return absl::StrFormat("%.2f s", round.exchange_seconds());
  return absl::StrFormat("%.2f s (predicted %.2f s)", round.exchange_seconds(),
                         round.predicted_seconds());
}

}  // namespace atolld
