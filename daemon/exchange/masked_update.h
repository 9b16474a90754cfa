// Makes masked updates in the form in which an exchange carries them, and removes the masks from
// their sum.
//
// The exchange itself is the usual one: contributions, partial means and means are chunks of
// MaskedSumCodec, which reducers and relays sum. The payload of the exchange is the masked sum. A
// peer that has the secrets turns it into the payload that is voted for, which has the run's codec
// of means, so masks do not appear in the log and the replicas. The functions are pure and may be
// called from any thread; they take long, so run them on the pool.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "atoll/v1/masking.pb.h"
#include "compression/base/bytes.h"
#include "compression/codec.h"
#include "compression/ring_codec.h"
#include "daemon/exchange/chunk_work.h"
#include "daemon/exchange/contribution.h"
#include "daemon/exchange/exchange_plan.h"
#include "daemon/exchange/outcome.h"
#include "membership/history/digest.h"
#include "membership/history/payload.h"
#include "membership/masking/mask_party.h"
#include "membership/masking/masked_terms.h"
#include "membership/masking/unmasking.h"

namespace atolld {

struct MaskedContribution {
  Contribution contribution;  // Has chunks of MaskedSumCodec; its norms are 0.
  uint64_t cut = 0;           // The number of values that were cut to fit into the ring.
};

// Encodes and masks an update. `weight` is the weight that the plan will give the update. `steps`
// are the steps of the whole grid, made by RingStepsAfter from the previous mean. For `rounding`
// see EncodeContribution. `party` must have received its delivery. Fails with INVALID_ARGUMENT if
// values are not finite or do not fit the grid, and with FAILED_PRECONDITION if the party may not
// mask now.
absl::StatusOr<MaskedContribution> MaskContribution(const ChunkGrid& grid, const MaskedTerms& terms,
                                                    const RingSteps& steps,
                                                    absl::Span<const float> values, float weight,
                                                    const Rounding& rounding,
                                                    const MaskParty& party);

// Returns the steps of one chunk's blocks.
absl::Span<const int16_t> StepsOfChunk(const ChunkGrid& grid, const RingSteps& steps,
                                       uint32_t chunk);

// Returns the result of an exchange of masked updates, without its attempt. `plan` must be the plan
// of the outcome's revision, and must not be brief.
v1::MaskedSum MaskedSumOf(const ExchangePlan& plan, const ExchangeOutcome& outcome);

// Returns the plan's weights of these contributors, in their order; 0 for a contributor that the
// plan does not name.
std::vector<float> PlannedWeights(const ExchangePlan& plan,
                                  absl::Span<const std::string> contributors);

// The mean for which the peer votes.
struct UnmaskedMean {
  SharedBytes payload;
  Digest digest;  // The TreeDigest of the payload.
  // The squared norm of the payload's decoded values; see Vote.squared_mean_bits.
  double squared_mean = 0;
};

// Computes the mean from a masked sum. `masked` is the payload of the exchange, in which every
// chunk is a sum over the same contributors. `masks` are the LeftMasks of these contributors'
// Unmasking. `weights` are the plan's weights of the contributors, in roster order. The mean of
// each chunk is encoded by `means` and rounded like any mean of that version, so all peers get the
// same bytes. Fails with INVALID_ARGUMENT if `masked` does not fit the grid or a mean is not
// finite.
absl::StatusOr<UnmaskedMean> UnmaskMean(const ChunkGrid& grid, const MaskedTerms& terms,
                                        const RingSteps& steps, const SharedBytes& masked,
                                        absl::Span<const LeftMask> masks,
                                        absl::Span<const float> weights, const ChunkForm& means,
                                        uint64_t version);

}  // namespace atolld
