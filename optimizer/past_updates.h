// What past rounds say about the updates of this one: the norm that they are measured by, and who
// is left out for what its own updates were.
//
// Pure functions, any thread; in double, the same bits on every CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace atolld {

// While most updates are honest the round's own median says how long one may be. Where most lie, or
// where there are but two, it does not: then it is the past that keeps a mean from being carried
// away, since the norm that updates are clipped to cannot grow by more than kMostGrowth over the
// running median, nor fall by more than that below it.

// Rounds whose median norms count. Norms fall by a few per cent a round once training is under way,
// so over 16 rounds the running median stays within a factor of two.
constexpr size_t kNormRounds = 16;
// Above what an honest round has: restarts of a learning-rate schedule change norms by less.
constexpr double kMostGrowth = 4.0;

// The lower median of the last kNormRounds of `medians`, the median norms of committed rounds,
// oldest first; 0 if there are none.
double RunningMedianNorm(absl::Span<const double> medians);

// `round_median`, held between 1 / kMostGrowth and kMostGrowth of RunningMedianNorm(medians);
// `round_median` alone while the running median is 0. What AggregationRule::Plan takes as
// reference_norm.
double ReferenceNorm(absl::Span<const double> medians, double round_median);

// Appends a round's median norm, and drops those that count no more.
void RememberNorm(double round_median, std::vector<double>* medians);

// Who is left out of a round. A single long update is an accident (a bad batch, a restarted
// optimiser) and is clipped; a peer whose updates are refused or outsized again and again is left
// out until enough rounds have passed since. What has to be known of a peer is one 64-bit record,
// so it fits a store and a message and two coordinators agree on it.
struct OffenderRule {
  uint32_t offences = 3;  // a peer with so many in the last `rounds` is left out; 0: nobody ever is
  uint32_t rounds = 16;   // at most 64
  double outsized = 0;    // an update longer than this many usual ones is an offence; 0: none is
};

// A peer's last 64 rounds, the newest in the lowest bit; 1: it offended. A new peer's is 0.
using OffenceRecord = uint64_t;

// Whether an update of that length is an offence. While the usual one is 0 (all updates were)
// nothing is outsized. A length that is not a number is an offence always.
bool IsOutsized(const OffenderRule& rule, double length, double usual);

// The record after one more committed round: one in which the peer offended, or did not, be it that
// it was left out or away. So who is left out comes back once its offences are old.
OffenceRecord AfterRound(OffenceRecord record, bool offended);

uint32_t Offences(const OffenderRule& rule, OffenceRecord record);

bool IsLeftOut(const OffenderRule& rule, OffenceRecord record);

// In how many rounds without another offence it is let in again; 0 if it is not left out.
uint32_t RoundsUntilLetIn(const OffenderRule& rule, OffenceRecord record);

}  // namespace atolld
