// What those who averaged do with an Unmasking: check it, and take the masks off their chunks.
//
// Of the sum over contributors C of masked codes, with D those who masked and dropped out, what is
// left beside the codes is the own mask of each of C, and the masks that each of C has in common
// with each of D. Both are here: the seeds of C, and the masking keys of D. Pure functions, any
// thread.
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

// A mask that is in the sum, and what takes it off.
struct LeftMask {
  MaskSecret secret;
  MaskSign sign = MaskSign::kSubtract;
};

// All that are left in the sum. INVALID_ARGUMENT: contributors that CheckContributors refuses, a
// seed or a key too few or too many, or one that is not what its owner announced.
absl::StatusOr<std::vector<LeftMask>> LeftMasks(const v1::MaskRoster& roster,
                                                const v1::Unmasking& unmasking);

// The sum of the codes themselves, of one chunk.
void RemoveMasks(const RingForm& ring, absl::Span<const LeftMask> masks, uint64_t chunk,
                 absl::Span<uint32_t> sum);

// INVALID_ARGUMENT: it is not the secret that this party committed to, or not the private half of
// its masking key.
absl::Status CheckSeed(const v1::MaskKeys& party, const MaskSecret& seed);
absl::Status CheckMaskingKey(const v1::MaskKeys& party, const MaskSecret& secret);

}  // namespace atolld
