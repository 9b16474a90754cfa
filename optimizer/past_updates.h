// Uses past rounds to judge the updates of the current one: computes the norm with which updates
// are compared, and decides which peers are left out because of their own past updates.
//
// Pure. May be called from any thread. All arithmetic is in double, with the same bits on every
// CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace atolld {

// While most updates are honest, the round's own median norm shows how long an update may be. If
// most of them lie, or if there are only two, it does not. The norm to which updates are clipped
// therefore always stays within a factor of kMostGrowth of the running median of past rounds, in
// both directions.

// The number of past rounds whose median norms count. Norms fall by a few per cent a round once
// training is under way, so over 16 rounds the running median stays within a factor of two.
constexpr size_t kNormRounds = 16;
// The most by which the norm may differ from the running median. In an honest round it changes by
// less, even at a restart of a learning-rate schedule.
constexpr double kMostGrowth = 4.0;

// Returns the lower median of the last kNormRounds values of `medians`, or 0 if there are none.
// `medians` holds the median norms of committed rounds, oldest first.
double RunningMedianNorm(absl::Span<const double> medians);

// Returns `round_median`, clamped to between 1 / kMostGrowth and kMostGrowth times
// RunningMedianNorm(medians), or unchanged while the running median is 0. AggregationRule::Plan
// takes the result as reference_norm.
double ReferenceNorm(absl::Span<const double> medians, double round_median);

// Appends a round's median norm and drops norms that no longer count.
void RememberNorm(double round_median, std::vector<double>* medians);

// The rule that decides which peers are left out of a round. A single long update is an accident (a
// bad batch, a restarted optimiser) and is clipped. A peer with updates that are refused or
// outsized again and again is left out until enough rounds have passed. The rule needs only one
// 64-bit record of each peer, which is stored, so that a coordinator decides the same after a
// restart.
struct OffenderRule {
  // A peer with this many offences in the last `rounds` rounds is left out. If this is 0, no peer
  // is left out.
  uint32_t offences = 3;
  uint32_t rounds = 16;  // must be at most 64
  // An update longer than this many times the usual length is an offence. If this is 0, no length
  // is an offence.
  double outsized = 0;
};

// The offences of a peer in the last 64 rounds. The lowest bit is for the newest round; a bit is 1
// if the peer committed an offence in that round. The record of a new peer is 0.
using OffenceRecord = uint64_t;

// Returns true if an update of this length is an offence. While the usual length is 0 (because all
// updates were zero), only a length that is NaN is an offence.
bool IsOutsized(const OffenderRule& rule, double length, double usual);

// Returns the record after one more committed round. `offended` must also be false if the peer was
// left out or absent. A peer that is left out therefore returns when its offences are old enough.
OffenceRecord AfterRound(OffenceRecord record, bool offended);

uint32_t Offences(const OffenderRule& rule, OffenceRecord record);

bool IsLeftOut(const OffenderRule& rule, OffenceRecord record);

// Returns the number of rounds without another offence after which the peer may take part again, or
// 0 if it is not left out.
uint32_t RoundsUntilLetIn(const OffenderRule& rule, OffenceRecord record);

}  // namespace atolld
