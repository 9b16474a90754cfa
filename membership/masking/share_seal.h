// Seals what one party tells another through the coordinator, which can neither read nor change it:
// AES-256-GCM (NIST SP 800-38D).
//
// A key seals one text alone: it is agreed by X25519 and derived for one direction of one attempt.
// So the nonce is 12 zero bytes, and sealing again gives the same bytes. Pure functions, any
// thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "membership/masking/mask_secret.h"

namespace atolld {

inline constexpr size_t kSealTagBytes = 16;

// The text encrypted, and the tag behind it.
std::string SealText(const MaskSecret& key, absl::string_view text);

// INVALID_ARGUMENT: not sealed so under this key, or changed on the way.
absl::StatusOr<std::string> OpenSealed(const MaskSecret& key, absl::string_view sealed);

}  // namespace atolld
