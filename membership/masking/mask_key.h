// MaskKey: a key pair for X25519 (RFC 7748), by which two parties agree on a secret that no other
// party knows.
//
// Each party has two pairs for every attempt: one to seal shares, and one from which masks are
// derived. If a party drops out, its masking key is revealed. With only one pair, that key would
// then also open all the shares that were sealed for the party. Immutable, therefore thread-safe.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "membership/masking/mask_secret.h"

namespace atolld {

inline constexpr size_t kMaskKeyBytes = 32;

class MaskKey {
 public:
  // Makes the pair that has this secret as its private key.
  explicit MaskKey(const MaskSecret& secret);

  const MaskSecret& secret() const { return secret_; }
  const std::string& public_key() const { return public_key_; }  // kMaskKeyBytes long

  // Returns the secret on which both owners agree. It is the HKDF of the X25519 product with the
  // label and the context, which must be the same on both sides. Fails with INVALID_ARGUMENT if
  // `their_public_key` is not a public key, or is one of the few keys for which the product is zero
  // with every secret.
  absl::StatusOr<MaskSecret> Agree(absl::string_view their_public_key, absl::string_view label,
                                   absl::string_view context) const;

 private:
  MaskSecret secret_;
  std::string public_key_;
};

}  // namespace atolld
