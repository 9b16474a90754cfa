// The scalars through which an entry's step depends on the age and number of its updates, and on
// how far the previous entry moved the state.
//
// Ages count in the modes "delayed" and "async". The headers of these modes give the number of
// entries that each contributor's update has missed. Let a be the run's age_decay, N its buffer,
// n_i the contributors' tokens (0 counts as 1) and g_i their ages. All sums are computed in fp64 in
// the header's order, and each result is rounded to fp32 once:
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
// The rule "delayed_nesterov" uses "due", "waiting", "share" and "rest"; the rule "cgad" uses "age"
// and "discount". "waiting" is the number of updates that delta_sum holds after the entry's step.
// Updates are counted instead of entries, because an entry may have several updates. A branch
// starts to count at 0, even if it took over its parent's delta_sum. The gate (1 + cos) / 2 is this
// project's choice: the paper's abstract (arXiv:2605.09126) only says that a cosine leads to 0 at
// the cutoff.
//
// With the gap penalty each header has mean_length = |D|, the length of the entry's mean, and
// usual_length, which moves a tenth of the way from its previous value to mean_length (the first
// value is mean_length itself). The gap is computed from the values of the previous entry:
//
//   gap = 1 + mean_length / usual_length       1 without a previous entry, or if its |D| is unknown
//
// This is the form of gap-aware training (arXiv:1909.10802: the gap divided by the average step,
// plus 1). An update of mode "delayed" has missed one entry; |D| of that entry is used as the
// distance that the state has moved meanwhile. The outer learning rate cancels out, and momentum is
// neglected. The gap lies between 1 and 11, and is 2 if all entries have the same length. CO2's
// paper (arXiv:2401.16265) computes a Lambda of its own; its public code uses a constant, which is
// 1 by default.
//
// exp and cos may differ in the last bit between machines, so values that depend on them are
// checked with a tolerance of a millionth, and everything else exactly. If a last bit might decide
// "due", it is not checked, and the header's value is used. Pure. May be called from any thread.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "atoll/v1/run.pb.h"

namespace atolld {

// The names of scalars that the headers have in addition to those that outer steps use (see
// optimizer/outer_rule.h).
inline constexpr char kAgeScalar[] = "age";
inline constexpr char kWaitingScalar[] = "waiting";
inline constexpr char kMeanLengthScalar[] = "mean_length";
inline constexpr char kUsualLengthScalar[] = "usual_length";

// Returns true if, in the run's mode, the weight of an update decreases with its age, so that
// headers have ages.
bool CountsAges(const v1::RunSpec& spec);

// Returns f_i, the factor for the weight of an update of this age.
double AgeFactor(const v1::RunSpec& spec, uint32_t age);

// Returns true if the run's mode does not accept updates of this age.
bool IsTooOld(const v1::RunSpec& spec, uint32_t age);

// Sets the scalars in a header whose version, contributors and outer rule's scalars are set, and
// keeps the scalars ascending. `previous` is the previous header, or null if there is none.
// `squared_mean` is the squared length of the entry's mean, or 0 if unknown.
void AddStepScalars(const v1::RunSpec& spec, const v1::EntryHeader* previous, double squared_mean,
                    v1::EntryHeader* header);

// Fails with INVALID_ARGUMENT if a scalar is missing, differs from the value computed from the
// header itself, or is present in a run that does not use it. If a value depends on the previous
// header, only its range is checked.
absl::Status CheckStepScalars(const v1::RunSpec& spec, const v1::EntryHeader& header);

}  // namespace atolld
