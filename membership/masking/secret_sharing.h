// Secret sharing: a secret is split into n shares. Any `threshold` of them recover it, and fewer
// reveal nothing.
//
// The scheme is Shamir's, "How to share a secret" (Comm. ACM 22(11), 1979), applied to each byte
// separately in GF(2^8) (byte_field.h). Byte b of the secret is the value at 0 of a polynomial of
// degree threshold - 1, whose other coefficients are drawn at random. Share x, from 1 to 255, is
// the polynomial's value at x. Pure. May be called from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "membership/masking/mask_secret.h"

namespace atolld {

inline constexpr uint32_t kMostShares = 255;

struct SecretShare {
  uint32_t place = 0;  // x, from 1 to kMostShares
  MaskSecret value;
};

// Returns the shares at the places 1 to `shares`. The polynomials' coefficients are taken from the
// ChaCha20 stream of `coefficients`, which must not be used for any other secret. Fails with
// INVALID_ARGUMENT unless 1 <= threshold <= shares <= kMostShares.
absl::StatusOr<std::vector<SecretShare>> ShareSecret(const MaskSecret& secret, uint32_t threshold,
                                                     uint32_t shares,
                                                     const MaskSecret& coefficients);

// Computes the secret from the first `threshold` shares by Lagrange's formula. If the shares do not
// belong to the same secret, the result is wrong, so it must be compared with its owner's
// commitment (false_shares.h handles a mismatch). Fails with FAILED_PRECONDITION if there are fewer
// shares than the threshold, and with INVALID_ARGUMENT if two shares have the same place or a place
// is out of range.
absl::StatusOr<MaskSecret> CombineShares(absl::Span<const SecretShare> shares, uint32_t threshold);

}  // namespace atolld
