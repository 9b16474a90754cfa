#include "optimizer/offender_rule.h"

#include <bitset>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace atolld {
namespace {

constexpr uint32_t kRecordRounds = 64;

}  // namespace

absl::Status CheckOffenderRule(const OffenderRule& rule) {
  if (rule.rounds < 1 || rule.rounds > kRecordRounds) {
    return absl::InvalidArgumentError(absl::StrCat("offences are counted over ", rule.rounds,
                                                   " rounds, not 1 to ", kRecordRounds));
  }
  if (rule.offences > rule.rounds) {
    return absl::InvalidArgumentError(
        absl::StrCat(rule.offences, " offences cannot be in ", rule.rounds, " rounds"));
  }
  if (!std::isfinite(rule.outsized) || rule.outsized <= 1) {
    return absl::InvalidArgumentError(absl::StrCat("an update is outsized from ", rule.outsized,
                                                   " reference norms on, not more than 1"));
  }
  return absl::OkStatus();
}

bool IsOutsized(const OffenderRule& rule, double norm, double reference_norm) {
  if (std::isnan(norm)) return true;
  return reference_norm > 0 && norm > rule.outsized * reference_norm;
}

OffenceRecord AfterRound(OffenceRecord record, bool offended) {
  return record << 1 | (offended ? 1 : 0);
}

uint32_t Offences(const OffenderRule& rule, OffenceRecord record) {
  const std::bitset<kRecordRounds> counted(record << (kRecordRounds - rule.rounds));
  return static_cast<uint32_t>(counted.count());
}

bool IsLeftOut(const OffenderRule& rule, OffenceRecord record) {
  return rule.offences > 0 && Offences(rule, record) >= rule.offences;
}

uint32_t RoundsUntilLetIn(const OffenderRule& rule, OffenceRecord record) {
  uint32_t rounds = 0;
  for (; IsLeftOut(rule, record); ++rounds) record = AfterRound(record, false);
  return rounds;
}

}  // namespace atolld
