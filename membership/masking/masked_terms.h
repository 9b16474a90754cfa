// MaskedTerms: what every party of an attempt computes with: which ring, how weights become numbers
// up to 1, and the range of codes before there is a mean.
//
// Pure functions, any thread.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "atoll/v1/masking.pb.h"
#include "atoll/v1/run.pb.h"
#include "compression/ring_codec.h"

namespace atolld {

struct MaskedTerms {
  RingForm ring;            // 32 bits, for sums of kMostMaskedParties
  int weight_exponent = 0;  // as MaskAttempt's
  float first_range = 1;    // RingSteps before there is a mean
};

// The first range is 16 x learning rate x steps x max(1, gradient clip). A step of AdamW moves no
// parameter by more than about (1 - beta1) / sqrt(1 - beta2) learning rates (Kingma and Ba 2015,
// section 2.1), which is some three with the usual betas; SGD by the gradient, which the clip
// bounds. With differential privacy there is room for a party's noise besides; where a round is so
// many passes over a party's data, it is taken to be of 4,096 steps at least. 1 where the spec
// names no rate.
MaskedTerms MaskedTermsOf(const v1::RunSpec& spec, const v1::MaskAttempt& attempt);

// Whether a party can take part in a run of this spec with its masks. FAILED_PRECONDITION: the spec
// asks for something that needs single updates, or that tells of one beside its mask. OK of a run
// without masks.
absl::Status CheckMaskedSpec(const v1::RunSpec& spec);

// The least exponent with which none of these weights counts more than 1: of an attempt whose
// parties have told their weights. 0 of none.
int WeightExponentOf(absl::Span<const float> weights);

// The weight as it is multiplied in: exact, since only the exponent changes. Above 0 and at most 1;
// a weight that is larger counts as 1.
float RingWeight(const MaskedTerms& terms, float weight);

// The sum of these contributors' ring weights, in their order: what DecodeRing divides by.
double RingWeightSum(const MaskedTerms& terms, absl::Span<const float> weights);

}  // namespace atolld
