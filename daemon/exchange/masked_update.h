// A masked update as an exchange carries it, and what becomes of the masked sum when the masks come
// off.
//
// The exchange itself is the same as ever: contributions, partial means and means are chunks of
// MaskedSumCodec, which reducers and relays sum. What is in its payload is the masked sum; whoever
// has the secrets turns it into the payload that is voted for, in the run's codec of means, so the
// log and the replicas know nothing of masks. Pure functions, any thread; blocking: run them on the
// pool.
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
  Contribution contribution;  // chunks of MaskedSumCodec; its norms are 0
  uint64_t cut = 0;           // values that the ring had no room for
};

// `weight`: as the plan will have it. `steps`: of the whole grid, RingStepsAfter of the mean
// before. `rounding` as EncodeContribution's. `party` has had its delivery. INVALID_ARGUMENT:
// values that are not finite or not the grid's; FAILED_PRECONDITION: the party may not mask now.
absl::StatusOr<MaskedContribution> MaskContribution(const ChunkGrid& grid, const MaskedTerms& terms,
                                                    const RingSteps& steps,
                                                    absl::Span<const float> values, float weight,
                                                    const Rounding& rounding,
                                                    const MaskParty& party);

// The steps of one chunk's blocks.
absl::Span<const int16_t> StepsOfChunk(const ChunkGrid& grid, const RingSteps& steps,
                                       uint32_t chunk);

// What an exchange of masked updates has come to, without its attempt. `plan`: of the outcome's
// revision, and whole.
v1::MaskedSum MaskedSumOf(const ExchangePlan& plan, const ExchangeOutcome& outcome);

// The plan's weights of these contributors, in their order; 0 of one that it does not name.
std::vector<float> PlannedWeights(const ExchangePlan& plan,
                                  absl::Span<const std::string> contributors);

// What is voted for.
struct UnmaskedMean {
  SharedBytes payload;
  Digest digest;            // TreeDigest of the payload
  double squared_mean = 0;  // as in Vote
};

// `masked`: the payload of the exchange, a sum over these contributors in all of it. `masks`:
// LeftMasks of their Unmasking. `weights`: the plan's, of the contributors in roster order. The
// mean of each chunk is encoded by `means`, rounded as any mean of that version. The same bytes for
// everybody. INVALID_ARGUMENT: no payload of this grid, or a mean that is not finite.
absl::StatusOr<UnmaskedMean> UnmaskMean(const ChunkGrid& grid, const MaskedTerms& terms,
                                        const RingSteps& steps, const SharedBytes& masked,
                                        absl::Span<const LeftMask> masks,
                                        absl::Span<const float> weights, const ChunkForm& means,
                                        uint64_t version);

}  // namespace atolld
