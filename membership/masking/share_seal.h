// Encrypts the messages that one party sends to another through the coordinator, so that the
// coordinator can neither read nor change them. The cipher is AES-256-GCM (NIST SP 800-38D).
//
// A key seals only one text, because it is derived from an X25519 agreement for one direction of
// one attempt. The nonce can therefore be 12 zero bytes, and sealing the text again gives the same
// bytes. Pure. May be called from any thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "membership/masking/mask_secret.h"

namespace atolld {

inline constexpr size_t kSealTagBytes = 16;

// Returns the encrypted text followed by the tag.
std::string SealText(const MaskSecret& key, absl::string_view text);

// Decrypts a sealed text. Fails with INVALID_ARGUMENT if it was not sealed under this key or was
// changed on the way.
absl::StatusOr<std::string> OpenSealed(const MaskSecret& key, absl::string_view sealed);

}  // namespace atolld
