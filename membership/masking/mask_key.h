// MaskKey: a key pair with which two parties come to a secret that nobody else has: X25519
// (RFC 7748).
//
// Each party has two for every attempt: one under which shares are sealed, and one from which masks
// come. Were they one, then the masking key of somebody who dropped out, once it is revealed, would
// open all the shares that were sealed for it. Immutable, any thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "membership/masking/mask_secret.h"

namespace atolld {

inline constexpr size_t kMaskKeyBytes = 32;

class MaskKey {
 public:
  // The pair whose private half is this secret.
  explicit MaskKey(const MaskSecret& secret);

  const MaskSecret& secret() const { return secret_; }
  const std::string& public_key() const { return public_key_; }  // kMaskKeyBytes

  // What both owners come to: HKDF of the X25519 product, under the label and the context, which
  // both give alike. INVALID_ARGUMENT: no public key, or one of the few that make the product zero
  // whatever the secret.
  absl::StatusOr<MaskSecret> Agree(absl::string_view their_public_key, absl::string_view label,
                                   absl::string_view context) const;

 private:
  MaskSecret secret_;
  std::string public_key_;
};

}  // namespace atolld
