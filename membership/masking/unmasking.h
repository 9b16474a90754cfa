// Functions with which the peers that hold a masked sum check an Unmasking and take the masks off
// their chunks.
//
// Let C be the contributors to a sum of masked codes, and D the parties that masked and dropped
// out. In addition to the codes, the sum contains each contributor's own mask, and the mask that
// each party of C has in common with each party of D. An Unmasking has what is needed to remove
// both: the seeds of the parties in C and the masking keys of those in D. Pure. May be called from
// any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "atoll/v1/masking.pb.h"
#include "compression/ring_codec.h"
#include "membership/masking/mask_secret.h"
#include "membership/masking/mask_stream.h"

namespace atolld {

// The secret of a mask that is in the sum, and the sign with which the mask is taken off.
struct LeftMask {
  MaskSecret secret;
  MaskSign sign = MaskSign::kSubtract;
};

// Returns all masks that are left in the sum. Fails with INVALID_ARGUMENT if CheckContributors
// refuses the contributors, if there are too few or too many seeds or keys, or if a seed or key
// does not match its owner's announcement.
absl::StatusOr<std::vector<LeftMask>> LeftMasks(const v1::MaskRoster& roster,
                                                const v1::Unmasking& unmasking);

// Takes the masks off the sum of one chunk, so that it becomes the sum of the codes.
void RemoveMasks(const RingForm& ring, absl::Span<const LeftMask> masks, uint64_t chunk,
                 absl::Span<uint32_t> sum);

// CheckSeed fails with INVALID_ARGUMENT if the party has not committed to this seed;
// CheckMaskingKey does if this is not the private key that belongs to the party's masking key.
absl::Status CheckSeed(const v1::MaskKeys& party, const MaskSecret& seed);
absl::Status CheckMaskingKey(const v1::MaskKeys& party, const MaskSecret& secret);

}  // namespace atolld
