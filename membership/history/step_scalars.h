// The scalars by which an entry's step depends on what the entry is made of: how old its updates
// are, how many they are, and how far the entry before has moved the state.
//
// Ages count in the modes "delayed" and "async": there a header names how many entries each
// contributor's update has missed. With a the run's age_decay, n_i the contributors' tokens (0
// counts as 1), g_i their ages, all sums in fp64 in the header's order, each result rounded to fp32
// once:
//
//   f_i      = exp(-a g_i)                     1 in the other modes
//   counted  = min(N, sum of f_i)              the mean of k updates counts as k of N
//   gathered = counted + waiting of the header before, 0 without one; rounded to fp32
//   due      = 1 if gathered >= N, else 0
//   waiting  = gathered - N if it is due, else gathered
//   share    = counted / N
//   rest     = waiting / N if it is due, else 0
//   age      = (sum of n_i g_i) / (sum of n_i)
//   discount = exp(-a age) (1 + cos(pi age / cutoff)) / 2; without a cutoff exp(-a age); 0 from the
//              cutoff on
//
// "due", "waiting", "share" and "rest" are those of rule "delayed_nesterov", N its buffer; "age"
// and "discount" those of "cgad". "waiting" is how many updates delta_sum holds after the entry's
// step: updates are counted and not entries, since several may share one. A branch counts from 0,
// even if its parent's delta_sum came along. The gate (1 + cos) / 2 is this project's: the paper's
// abstract (arXiv:2605.09126) says no more than that a cosine leads to 0 at the cutoff.
//
// With the gap penalty each entry tells mean_length = |D|, the length of its own mean, and
// usual_length, which goes a tenth of the way from the one before to it (the first is mean_length
// itself). From those of the entry before:
//
//   gap = 1 + mean_length / usual_length       1 without an entry before, or where nobody told |D|
//
// That is the form of gap-aware training (arXiv:1909.10802: the gap over the average step, plus 1),
// with |D| of the one entry that an update of mode "delayed" has missed for the way that the state
// has gone meanwhile; the outer learning rate cancels out, and momentum is left out. It lies
// between 1 and 11, and is 2 where entries are of equal length. CO2's paper (arXiv:2401.16265)
// computes a Lambda of its own; its public code takes a constant, 1 where nothing is set.
//
// exp and cos may differ in the last bit between machines, so that what they lead to is checked to
// a millionth; all else exactly. Nobody computes "due" again where a last bit might decide it: it
// holds as the header says. Pure functions, any thread.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "atoll/v1/run.pb.h"

namespace atolld {

// Beside those that steps use (optimizer/outer_rule.h).
inline constexpr char kAgeScalar[] = "age";
inline constexpr char kWaitingScalar[] = "waiting";
inline constexpr char kMeanLengthScalar[] = "mean_length";
inline constexpr char kUsualLengthScalar[] = "usual_length";

// Whether updates lose weight with their age by the run's mode, and headers name ages.
bool CountsAges(const v1::RunSpec& spec);

// What an update of this age counts of its weight: f_i.
double AgeFactor(const v1::RunSpec& spec, uint32_t age);

// Whether the run's mode takes no update of this age at all.
bool IsTooOld(const v1::RunSpec& spec, uint32_t age);

// Sets them in a header whose version, contributors and outer rule's scalars are set, keeping these
// ascending. `previous`: the header before; null: there is none. `squared_mean`: the squared length
// of the entry's mean; 0: not known.
void AddStepScalars(const v1::RunSpec& spec, const v1::EntryHeader* previous, double squared_mean,
                    v1::EntryHeader* header);

// INVALID_ARGUMENT: one of them is missing, is not what the header itself leads to, or is there in
// a run that has none. What follows from the header before is held to its range alone.
absl::Status CheckStepScalars(const v1::RunSpec& spec, const v1::EntryHeader& header);

}  // namespace atolld
