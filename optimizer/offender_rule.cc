#include "optimizer/offender_rule.h"

#include <bitset>
#include <cmath>

namespace atolld {
namespace {

constexpr uint32_t kRecordRounds = 64;

}  // namespace

bool IsOutsized(const OffenderRule& rule, double length, double usual) {
  if (std::isnan(length)) return true;
  return rule.outsized > 0 && usual > 0 && length > rule.outsized * usual;
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
