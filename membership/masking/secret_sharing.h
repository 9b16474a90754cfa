// Secret sharing: a secret in n parts, of which any `threshold` give it back and fewer tell
// nothing.
//
// Shamir, "How to share a secret" (Comm. ACM 22(11), 1979), for each byte by itself in GF(2^8) with
// the polynomial of AES (FIPS 197): byte b of the secret is the value at 0 of a polynomial of
// degree threshold - 1, whose other coefficients are drawn, and share x is its value at x, 1 to
// 255. Multiplication neither branches on nor looks up by secret bytes. Pure functions, any thread.
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
  uint32_t place = 0;  // x: 1 to kMostShares
  MaskSecret value;
};

// Shares 1 to `shares`. The coefficients are the ChaCha20 stream of `coefficients`, which serves
// for no other secret. INVALID_ARGUMENT unless 1 <= threshold <= shares <= kMostShares.
absl::StatusOr<std::vector<SecretShare>> ShareSecret(const MaskSecret& secret, uint32_t threshold,
                                                     uint32_t shares,
                                                     const MaskSecret& coefficients);

// The secret, by Lagrange's formula from the first `threshold` of them. Shares of different secrets
// give some other one: compare the result with what its owner committed to. FAILED_PRECONDITION:
// fewer than the threshold. INVALID_ARGUMENT: two of one place, or a place that there is not.
absl::StatusOr<MaskSecret> CombineShares(absl::Span<const SecretShare> shares, uint32_t threshold);

}  // namespace atolld
