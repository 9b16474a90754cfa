// MaskedTerms: the numbers that all parties of an attempt must agree on. They are the ring, the
// exponent that scales weights to at most 1, and the range of codes that is used before there is a
// mean.
//
// Pure. May be called from any thread.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "atoll/v1/masking.pb.h"
#include "atoll/v1/run.pb.h"
#include "compression/ring_codec.h"
#include "membership/masking/mask_announcement.h"

namespace atolld {

// The most sums that may be unmasked for one version without resulting in an entry. Each such sum
// reveals something about the same parties' data, and more failures than this can hardly be an
// accident. After that the coordinator begins no more attempts, and no party masks another update
// for the version.
inline constexpr uint32_t kMostSumsOfAVersion = 16;

struct MaskedTerms {
  RingForm ring;            // a ring of 32 bits, for sums of kMostMaskedParties updates
  int weight_exponent = 0;  // the exponent in the MaskAttempt
  float first_range = 1;    // the range for RingSteps before there is a mean
};

// Returns the terms of an attempt. The first range is 16 x learning rate x steps x max(1, gradient
// clip), for the following reason. A step of AdamW moves no parameter by more than about (1 -
// beta1) / sqrt(1 - beta2) learning rates (Kingma and Ba 2015, section 2.1), which is about three
// with the usual betas. A step of SGD moves it by the gradient, which the clip bounds. With
// differential privacy, the range is enlarged for a party's noise. If the length of a round is
// given in passes over a party's data, it is assumed to have at least 4,096 steps. The range is 1
// if the spec has no learning rate.
MaskedTerms MaskedTermsOf(const v1::RunSpec& spec, const v1::MaskAttempt& attempt);

// Checks that a party of a run with this spec can mask its updates. Fails with FAILED_PRECONDITION
// if the spec asks for something that needs unmasked single updates, or that would reveal something
// about one in spite of its mask. Returns OK for a run without masks.
absl::Status CheckMaskedSpec(const v1::RunSpec& spec);

// Returns the rule for the run's rosters. It requires at least three contributors and three
// parties, even if the spec asks for fewer: with two, each could compute the other's update from
// the sum.
MaskRosterRule RosterRuleOf(const v1::PrivacySpec& spec);

// Returns the smallest exponent with which no ring weight of these weights exceeds 1, or 0 if there
// are no weights. The coordinator uses it for an attempt when all parties have reported their
// weights.
int WeightExponentOf(absl::Span<const float> weights);

// Returns the ring weight of a weight: the weight scaled by the power of two, above 0 and at most
// 1. It is exact, since only the exponent changes. A weight that would exceed 1 gives 1.
float RingWeight(const MaskedTerms& terms, float weight);

// Returns the sum of the ring weights of these weights, added in their order. DecodeRing divides by
// it.
double RingWeightSum(const MaskedTerms& terms, absl::Span<const float> weights);

}  // namespace atolld
