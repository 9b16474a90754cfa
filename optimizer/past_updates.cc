#include "optimizer/past_updates.h"

#include <algorithm>
#include <bitset>
#include <cmath>

#include "optimizer/robust_shares.h"

namespace atolld {
double RunningMedianNorm(absl::Span<const double> medians) {
  const size_t counted = std::min(medians.size(), kNormRounds);
  const absl::Span<const double> last = medians.last(counted);
  return LowerMedian(std::vector<double>(last.begin(), last.end()));
}

double ReferenceNorm(absl::Span<const double> medians, double round_median) {
  const double running = RunningMedianNorm(medians);
  if (!(running > 0)) return round_median;
  return std::max(running / kMostGrowth, std::min(round_median, kMostGrowth * running));
}

void RememberNorm(double round_median, std::vector<double>* medians) {
  medians->push_back(round_median);
  if (medians->size() > kNormRounds) {
    medians->erase(medians->begin(), medians->end() - static_cast<std::ptrdiff_t>(kNormRounds));
  }
}

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
